"""One or two sentences as a sequence of limited length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from fairseq.data import FairseqDataset
from numpy.typing import NDArray
from torch import Tensor


def shared_lengths(
    first: NDArray[np.int64], second: NDArray[np.int64], budget: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How much of two sentences is kept: the longer one gives a token until both fit, as in BERT.

    Args:
        first: lengths, shape (N,).
        second: lengths, shape (N,).
        budget: tokens that both may have together.

    Returns:
        The lengths that are kept, each of shape (N,).
    """
    kept = np.minimum(first, np.maximum(budget - second, (budget + 1) // 2))
    return kept, np.minimum(second, budget - kept)


class SentencesDataset(FairseqDataset):
    """``<s> A </s>`` or ``<s> A </s> B </s>``, the sentences cut at their ends to ``max_length`` tokens in all.

    Args:
        sentences: one or two datasets of fairseq's; an item is a sentence and ``</s>``.
        begin: the id of ``<s>``.
        separator: an id before the second sentence (RoBERTa has ``</s>`` there), None for none.
        max_length: tokens, ``<s>``, ``</s>`` and ``separator`` included.
    """

    def __init__(self, sentences: Sequence[Any], *, begin: int, separator: int | None, max_length: int) -> None:
        super().__init__()
        self._sentences = sentences
        self._begin = begin
        self._separator = [] if separator is None or len(sentences) == 1 else [separator]
        lengths = [np.asarray(part.sizes, dtype=np.int64) - 1 for part in sentences]
        fixed = 1 + len(sentences) + len(self._separator)
        if len(sentences) == 1:
            self._kept = [np.minimum(lengths[0], max_length - fixed)]
        else:
            self._kept = list(shared_lengths(lengths[0], lengths[1], max_length - fixed))
        self.sizes: NDArray[np.int64] = fixed + np.sum(self._kept, axis=0)

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, index: int) -> Tensor:
        parts = [torch.tensor([self._begin])]
        for number, (sentences, kept) in enumerate(zip(self._sentences, self._kept, strict=True)):
            sentence = sentences[index]
            if number:
                parts.append(torch.tensor(self._separator, dtype=torch.long))
            parts += [sentence[: kept[index]], sentence[-1:]]
        return torch.cat(parts)

    def size(self, index: int) -> int:
        """Tokens of an item."""
        return int(self.sizes[index])

    def num_tokens(self, index: int) -> int:
        """Same as :meth:`size`."""
        return self.size(index)
