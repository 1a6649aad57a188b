"""A batch's predictions at the masked positions."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class MaskedPredictions(NamedTuple):
    """A batch's predictions, and which of them are false negatives once these are looked for.

    N is the number of projected positions: the masked ones, or all B * T of them in a batch without any (as in stock
    masked_lm); ``counted`` marks those that are masked.
    """

    logits: Tensor  # shape (N, V), with gradient
    original: Tensor  # int64, shape (B, T), the tokens before masking
    positions: Tensor  # int64, shape (N,), indices into the flattened (B, T)
    gold: Tensor  # int64, shape (N,), any token where not counted
    prediction: Tensor  # int64, shape (N,), argmax of the logits, without gradient
    counted: Tensor  # bool, shape (N,)
    # bool, shape (N,), where the gold token is a whole word; None where nothing looks at words
    whole_word: Tensor | None
    # bool, shape (N,), the false negatives; None where nothing looks for them, or before it has
    corrected: Tensor | None = None
    # fp32, shape (N,), the probability that people accept the prediction, 0 where it is not corrected; None where the
    # detector is a table alone
    acceptance: Tensor | None = None


def original_tokens(tokens: Tensor, labels: Tensor, ignore_index: int) -> Tensor:
    """The tokens before masking, int64, shape (B, T).

    Args:
        tokens: int64, shape (B, T), masked.
        labels: int64, shape (B, T), the original tokens at masked positions and ``ignore_index`` elsewhere.
        ignore_index: the label of a token that is not predicted.
    """
    return torch.where(labels.ne(ignore_index), labels, tokens)


def fill(predicted: MaskedPredictions, tokens: Tensor) -> Tensor:
    """The original sentences with other tokens, int64, shape (N,), at the masked positions; shape (B, T)."""
    filled = predicted.original.reshape(-1).clone()
    filled[predicted.positions] = torch.where(predicted.counted, tokens, filled[predicted.positions])
    return filled.view_as(predicted.original)


def gather_rows(grid: Tensor, positions: Tensor) -> Tensor:
    """The rows of a grid, shape (B, T) or (B, T, H), at positions of the flattened (B, T), shape (N,) or (N, H)."""
    return grid.flatten(0, 1).index_select(0, positions)


def count_rows(hits: Tensor, predicted: MaskedPredictions) -> Tensor:
    """Number of sentences with a hit, int64 scalar; ``hits`` is bool, shape (N,), at the masked positions."""
    height, width = predicted.original.shape
    rows = torch.zeros(height, dtype=torch.long, device=hits.device)
    rows.index_add_(0, torch.div(predicted.positions, width, rounding_mode="floor"), hits.long())
    return rows.gt(0).sum()
