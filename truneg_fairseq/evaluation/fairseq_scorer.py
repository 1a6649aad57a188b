"""Checkpoints of fairseq; needs fairseq."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor
from typing_extensions import override

from ..errors import TrueNegError
from ..models.checkpoints import Checkpoint
from ..models.encoder import layer_states
from ..models.loading import load_checkpoint, load_model
from .scorer import Scorer


class FairseqCausalLm(Scorer):
    """A checkpoint of a causal LM (task ``language_modeling``), which predicts the token after the place; the data have
    its dictionary.
    """

    batch_tokens: ClassVar[int] = 1024  # the logits of all places are computed

    def __init__(self, read: Checkpoint, data: Path, *, cpu: bool = False) -> None:
        model, task = load_model(read, data)
        padding = int(task.source_dictionary.pad())
        super().__init__(read.path, model, padding=padding, longest=int(model.max_positions()), cpu=cpu)
        self.embeddings, self.updates = model.decoder.embed_tokens.weight.detach(), read.updates or 0

    @override
    def _logits(self, tokens: Tensor, lengths: Tensor, chosen: Tensor) -> Tensor:
        logits: Tensor = self._model(tokens)[0]
        return logits[chosen]

    @override
    def _layers(self, tokens: Tensor, lengths: Tensor, original: Tensor) -> Sequence[Tensor]:
        raise NotImplementedError("a causal LM's states do not know both sides")


class FairseqMaskedLm(Scorer):
    """A checkpoint of a masked LM or of an ELECTRA, whose generator predicts and whose discriminator encodes."""

    def __init__(self, read: Checkpoint, data: Path, *, cpu: bool = False) -> None:
        for name, tensor in read.state.items():
            if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
                raise TrueNegError(f"{read.path}: {name} is not finite; the training diverged; use an earlier one")
        model, _ = load_checkpoint(read, data)
        encoder: Any = model.encoder.sentence_encoder
        longest, padding = int(model.max_positions()), int(encoder.padding_idx)
        super().__init__(read.path, model, padding=padding, longest=longest, cpu=cpu)
        self.embeddings, self.updates = encoder.embed_tokens.weight.detach(), read.updates or 0

    @override
    def _logits(self, tokens: Tensor, lengths: Tensor, chosen: Tensor) -> Tensor:
        logits: Tensor = self._model(tokens, masked_tokens=chosen)[0]
        return logits

    @override
    def _layers(self, tokens: Tensor, lengths: Tensor, original: Tensor) -> Sequence[Tensor]:
        encoder, words = self._model.encoder, self._model.encoder.sentence_encoder.embed_tokens(tokens)
        return layer_states(*encoder.extract_features(original, return_all_hiddens=True, token_embeddings=words))
