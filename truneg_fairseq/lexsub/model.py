"""Checkpoints read for their probabilities and states at targets; needs fairseq."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq import checkpoint_utils
from numpy.typing import NDArray
from torch import Tensor

from ..device import choose_device
from ..errors import TrueNegError
from ..finetuning.run import check_vocabulary
from ..models.checkpoints import read_checkpoint
from ..models.encoder import layer_states
from ..paths import require_unsplit
from ..vocabulary import fingerprint, read_symbols
from .places import WINDOW, Place

_TOKENS = 4096
"""Of one batch, padding included."""


class MaskedLm:
    """A model in evaluation mode, on the GPU where there is one.

    Args:
        checkpoint: fairseq's, of a masked LM (bert, roberta) or of an ELECTRA, whose generator is the masked LM and
            whose discriminator is the encoder.
        data: folder of binarized data with the checkpoint's dictionary.
        cpu: keep off the GPU.
    """

    def __init__(self, checkpoint: Path, data: Path, *, cpu: bool = False) -> None:
        require_unsplit(data, "--data")
        self._checkpoint, read = checkpoint, read_checkpoint(checkpoint)
        for name, tensor in read.state.items():
            if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
                raise TrueNegError(f"{checkpoint}: {name} is not finite; the training diverged; use an earlier one")
        check_vocabulary(read, fingerprint(read_symbols(data)), data)
        overrides = {"data": str(data)}
        (self._model,), _, _ = checkpoint_utils.load_model_ensemble_and_task([str(checkpoint)], overrides)
        self._device = choose_device(cpu=cpu)
        self._model.float().eval().to(self._device)
        encoder: Any = self._model.encoder
        self._padding = int(encoder.sentence_encoder.padding_idx)
        self.embeddings: Tensor = encoder.sentence_encoder.embed_tokens.weight.detach()
        """The encoder's input embeddings, shape (V, E)."""

    @torch.inference_mode()
    def log_probabilities(
        self, places: Sequence[Place], mask: int | None = None
    ) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """The logarithms of the probabilities of every token where the targets stand.

        Args:
            places: the targets.
            mask: the token put in their place; None keeps them.

        Yields:
            The index of a place and float32, shape (V,); short contexts first.
        """
        self._check_length(places)
        for batch in _batches(places):
            tokens, positions = self._padded([places[index] for index in batch])
            chosen = torch.zeros_like(tokens, dtype=torch.bool)
            chosen[torch.arange(len(batch)), positions] = True
            if mask is not None:
                tokens[chosen] = mask
            logits = self._model(tokens.to(self._device), masked_tokens=chosen.to(self._device))[0]
            if logits.shape != (len(batch), len(self.embeddings)):
                raise TrueNegError(f"{self._checkpoint}: has no masked-LM head; expected one of masked-LM training")
            rows = logits.float().log_softmax(-1).cpu().numpy()
            yield from zip(batch, rows, strict=True)

    @torch.inference_mode()
    def states(self, place: Place, replacements: NDArray[np.int64]) -> Tensor:
        """Every layer's states at a target with other tokens in its place, shape (L, R, H), on the CPU.

        Args:
            place: the target.
            replacements: int64, shape (R,).
        """
        self._check_length([place])
        size = max(1, _TOKENS // len(place.tokens))
        parts = []
        for begin in range(0, len(replacements), size):
            tokens = np.repeat(place.tokens[None], len(replacements[begin : begin + size]), axis=0)
            tokens[:, place.position] = replacements[begin : begin + size]
            encoder: Any = self._model.encoder
            read = encoder.extract_features(torch.from_numpy(tokens).to(self._device), return_all_hiddens=True)
            parts.append(torch.stack([layer[:, place.position] for layer in layer_states(*read)]).float().cpu())
        return torch.cat(parts, dim=1)

    def _check_length(self, places: Sequence[Place]) -> None:
        longest, most = max((len(place.tokens) for place in places), default=0), int(self._model.max_positions())
        if longest > most:
            raise TrueNegError(
                f"{self._checkpoint}: reads {most} tokens, and the longest context has {longest}; expected a model of "
                f"at least {WINDOW} positions"
            )

    def _padded(self, places: Sequence[Place]) -> tuple[Tensor, Tensor]:
        """Tokens, shape (B, T), and the targets' positions, shape (B,)."""
        width = max(len(place.tokens) for place in places)
        tokens = torch.full((len(places), width), self._padding, dtype=torch.long)
        for row, place in zip(tokens, places, strict=True):
            row[: len(place.tokens)] = torch.from_numpy(place.tokens)
        return tokens, torch.tensor([place.position for place in places])


def _batches(places: Sequence[Place]) -> Iterator[list[int]]:
    """Indices of places of similar length."""
    batch: list[int] = []
    for index in sorted(range(len(places)), key=lambda index: len(places[index].tokens)):
        if (len(batch) + 1) * len(places[index].tokens) > _TOKENS and batch:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch
