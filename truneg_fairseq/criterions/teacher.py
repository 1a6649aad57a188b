"""A better model that says what else fits at a masked position."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..files import require_checkpoint
from ..models.loading import load_checkpoint
from ..objectives import MaskedPredictions, fill
from ..objectives.predictions import at_positions
from .task_hooks import masked_lm_of


class Teacher:
    """A trained masked LM of the same dictionary; the criterion has no part in its parameters.

    Args:
        checkpoint: a fairseq checkpoint of a masked LM.
        data: a folder with the dictionary.
        mask: the id of ``<mask>``.
    """

    def __init__(self, checkpoint: Path, data: Path, mask: int) -> None:
        require_checkpoint(checkpoint)
        self._encoder: Any = masked_lm_of(load_checkpoint(checkpoint, data).model).eval().requires_grad_(False)
        self._mask = mask

    @torch.no_grad()
    def __call__(self, predicted: MaskedPredictions) -> Tensor:
        """The logits, shape (N, V), with ``<mask>`` at every masked position, also where the student reads a word."""
        encoder = self._encoder.to(predicted.gold.device)
        tokens = fill(predicted, torch.full_like(predicted.gold, self._mask))
        logits: Tensor = encoder.lm_head(at_positions(encoder.extract_features(tokens)[0], predicted))
        return logits
