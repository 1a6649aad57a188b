"""Checkpoints of fairseq; needs fairseq."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from fairseq import checkpoint_utils
from torch import Tensor
from typing_extensions import override

from ..errors import TrueNegError
from ..files import require_unsplit
from ..models.checkpoints import check_vocabulary, read_checkpoint
from ..models.encoder import layer_states
from ..vocabulary import fingerprint, read_symbols
from .scorer import MaskedLm


class FairseqCausalLm(MaskedLm):
    """A checkpoint of a causal LM (task ``language_modeling``), which predicts the token after the place.

    Args:
        checkpoint: the file.
        data: folder of binarized data with the checkpoint's dictionary.
        cpu: keep off the GPU.
    """

    batch_tokens: ClassVar[int] = 1024  # the logits of all places are computed

    def __init__(self, checkpoint: Path, data: Path, *, cpu: bool = False) -> None:
        require_unsplit(data, "--data")
        weight = read_checkpoint(checkpoint).state.get("decoder.embed_tokens.weight")
        symbols = read_symbols(data)[:-1]  # without <mask>
        if weight is None or len(weight) != len(symbols):
            found = "other" if weight is None else str(len(weight))
            raise TrueNegError(
                f"{checkpoint}: has embeddings of {found} tokens, {data} has {len(symbols)}; expected the data of its "
                "training"
            )
        (model,), _, task = checkpoint_utils.load_model_ensemble_and_task([str(checkpoint)], {"data": str(data)})
        padding, longest = int(task.source_dictionary.pad()), int(model.max_positions())
        super().__init__(checkpoint, model, padding=padding, longest=longest, cpu=cpu)
        self.embeddings = model.decoder.embed_tokens.weight.detach()

    @override
    def _logits(self, tokens: Tensor, chosen: Tensor) -> Tensor:
        logits: Tensor = self._model(tokens)[0]
        return logits[chosen]

    @override
    def _layers(self, tokens: Tensor, original: Tensor) -> Sequence[Tensor]:
        raise TrueNegError(f"{self.path}: is a causal LM; expected a masked LM, whose states know both sides")


class FairseqMaskedLm(MaskedLm):
    """A checkpoint of a masked LM (bert, roberta) or of an ELECTRA: its generator predicts, its discriminator encodes.

    Args:
        checkpoint: the file.
        data: folder of binarized data with the checkpoint's dictionary.
        cpu: keep off the GPU.
    """

    def __init__(self, checkpoint: Path, data: Path, *, cpu: bool = False) -> None:
        require_unsplit(data, "--data")
        read = read_checkpoint(checkpoint)
        for name, tensor in read.state.items():
            if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
                raise TrueNegError(f"{checkpoint}: {name} is not finite; the training diverged; use an earlier one")
        check_vocabulary(read, fingerprint(read_symbols(data)), data)
        overrides = {"data": str(data)}
        (model,), _, _ = checkpoint_utils.load_model_ensemble_and_task([str(checkpoint)], overrides)
        encoder: Any = model.encoder.sentence_encoder
        longest, padding = int(model.max_positions()), int(encoder.padding_idx)
        super().__init__(checkpoint, model, padding=padding, longest=longest, cpu=cpu)
        self.embeddings = encoder.embed_tokens.weight.detach()

    @override
    def _logits(self, tokens: Tensor, chosen: Tensor) -> Tensor:
        logits: Tensor = self._model(tokens, masked_tokens=chosen)[0]
        return logits

    @override
    def _layers(self, tokens: Tensor, original: Tensor) -> Sequence[Tensor]:
        encoder, words = self._model.encoder, self._model.encoder.sentence_encoder.embed_tokens(tokens)
        return layer_states(*encoder.extract_features(original, return_all_hiddens=True, token_embeddings=words))
