"""Targets as places in token sequences, and their candidates as tokens."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..data.tokenizer import vocabulary_of
from ..finetuning.data import PretrainedVocabulary
from ..vocabulary import BOS, EOS
from .swords import Target

WINDOW = 80
"""Tokens of a context around its target, ``<s>`` and ``</s>`` included."""


@dataclass(frozen=True)
class Place:
    """A target that is one token."""

    target: Target
    # int64, shape (T,), T <= :data:`WINDOW`, the window of its context; ``<s>`` first and ``</s>`` last
    tokens: NDArray[np.int64]
    position: int  # of the target's token in ``tokens``
    # int64, shape (C,), the token of each of the target's candidates; -1 where it is not one token
    candidates: NDArray[np.int64]

    @property
    def gold(self) -> int:
        """The token of the target itself."""
        return int(self.tokens[self.position])


class Placer:
    """Finds targets in the tokens of binarized data that have their tokenizer beside them."""

    def __init__(self, data: Path) -> None:
        self._encoder = PretrainedVocabulary.load(data)
        symbols = self._encoder.symbols
        self.vocabulary = vocabulary_of(symbols, data)
        self.mask = symbols.index("<mask>")
        self._token_of: dict[str, int] = {}
        for token, word in enumerate(self.vocabulary.words):
            if word is not None:
                self._token_of.setdefault(word, token)

    def token(self, word: str) -> int:
        """The token of a whole word, -1 where it has none."""
        return self._token_of.get(self.vocabulary.spelled(word), -1)

    def place(self, target: Target) -> Place | None:
        """The target in its tokens; None where the vocabulary has no token for it."""
        gold = self.token(target.word)
        if gold < 0:
            return None
        before, after = self._around(target)
        room = WINDOW - 3
        taken = min(len(before), max(room // 2, room - len(after)))
        tokens = np.array([BOS, *before[len(before) - taken :], gold, *after[: room - taken], EOS], dtype=np.int64)
        candidates = np.array([self.token(candidate.word) for candidate in target.candidates], dtype=np.int64)
        return Place(target, tokens, taken + 1, candidates)

    def _around(self, target: Target) -> tuple[list[int], list[int]]:
        """The tokens of the context before and after the target.

        They are those of the whole text. Only where a token reaches over the edge of the word ("don" + "'" + "t" for
        the target "do") are both sides cut by themselves.
        """
        start, end = target.start, target.start + len(target.word)
        ids, places = self._encoder.encode_with_offsets(target.context)
        inside = (places[:, 1] > start) & (places[:, 0] < end)
        if inside.any() and places[inside, 0].min() == start and places[inside, 1].max() == end:
            first, last = np.flatnonzero(inside)[[0, -1]]
            return ids[:first].tolist(), ids[last + 1 :].tolist()
        before, after = self._encoder.encode_batch([target.context[:start].rstrip(), target.context[end:]])
        return before.tolist(), after.tolist()
