"""Checkpoints of fairseq; needs fairseq."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import TrueNegError
from ..models.checkpoints import Checkpoint, require_head
from ..models.encoder import layer_states
from ..models.loading import load_checkpoint, load_model
from .scorer import Scorer


def fairseq_scorer(read: Checkpoint, data: Path, *, cpu: bool = False, causal: bool = False) -> Scorer:
    """A checkpoint of a masked LM, or of an ELECTRA, whose generator predicts and whose discriminator encodes; if
    ``causal`` of a causal LM (task ``language_modeling``), which predicts the token after the place. The data have its
    dictionary.
    """
    model: Any
    if causal:
        model, task = load_model(read, data)
        embedding, padding = model.decoder.embed_tokens, int(task.source_dictionary.pad())
    else:
        for name, tensor in read.state.items():
            if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
                raise TrueNegError(f"{read.path}: {name} is not finite; the training diverged; use an earlier one")
        model, _ = load_checkpoint(read, data)
        embedding = model.encoder.sentence_encoder.embed_tokens
        padding = int(model.encoder.sentence_encoder.padding_idx)

    def logits(tokens: Tensor, lengths: Tensor, chosen: Tensor) -> Tensor:
        require_head(read.path, getattr(model, "missing_heads", ()))
        found: Tensor = model(tokens)[0][chosen] if causal else model(tokens, masked_tokens=chosen)[0]
        return found

    def layers(tokens: Tensor, lengths: Tensor, original: Tensor) -> Sequence[Tensor]:
        states = model.encoder.extract_features(original, return_all_hiddens=True, token_embeddings=embedding(tokens))
        return layer_states(*states)

    return Scorer(
        path=read.path,
        model=model,
        embedding=embedding,
        logits=logits,
        layers=layers,
        padding=padding,
        longest=int(model.max_positions()),
        cpu=cpu,
        updates=read.updates or 0,
        batch_tokens=1024 if causal else 4096,  # of a causal LM the logits of all places are computed
    )
