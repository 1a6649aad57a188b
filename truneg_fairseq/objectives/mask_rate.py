"""A masking rate that falls over training: fewer and fewer of the words are predicted."""

from __future__ import annotations

import torch
from torch import Tensor


def rate_at(start: float, end: float, progress: float) -> float:
    """The rate on a straight line from ``start`` to ``end``; ``progress``, the share that is over, is cut to [0, 1]."""
    return start + min(max(progress, 0.0), 1.0) * (end - start)


def same_in_words(numbers: Tensor, continues: Tensor) -> Tensor:
    """One number for all tokens of a word, shape (B, T): that at the word's place among the words of its row.

    Args:
        numbers: shape (B, T), drawn for each token.
        continues: bool, shape (B, T), whether a token continues the word of the token before it.
    """
    begins = ~continues
    begins[:, 0] = True
    return numbers.gather(1, begins.cumsum(1) - 1)


def unmask(tokens: Tensor, target: Tensor, kept: Tensor, padding: int) -> tuple[Tensor, Tensor]:
    """The masked tokens and the targets, int64, shape (B, T) each, with fewer positions masked.

    Args:
        tokens: int64, shape (B, T), masked.
        target: int64, shape (B, T), the original tokens at masked positions and padding elsewhere.
        kept: bool, shape (B, T), where a masked position stays masked.
        padding: the id of padding.
    """
    dropped = target.ne(padding) & ~kept
    return torch.where(dropped, target, tokens), target.masked_fill(dropped, padding)
