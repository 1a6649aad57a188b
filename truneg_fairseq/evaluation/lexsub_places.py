"""Targets as places in token sequences, and their candidates as tokens."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import TrueNegError
from .scorer import WINDOW, Query
from .swords import Target
from .tokens import Tokens


@dataclass(frozen=True)
class Place:
    """A target that is one token."""

    target: Target
    # int64, shape (T,), T <= WINDOW, its context between the vocabulary's first and last token
    tokens: NDArray[np.int64]
    position: int  # of the target's token in ``tokens``
    # int64, shape (C,), the token of each of the target's candidates; -1 where it is not one token
    candidates: NDArray[np.int64]

    @property
    def gold(self) -> int:
        """The token of the target itself."""
        return int(self.tokens[self.position])

    def query(self, mask: int | None = None) -> Query:
        """The sequence, with the token ``mask`` in the target's place; None keeps the target."""
        tokens = self.tokens.copy()
        if mask is not None:
            tokens[self.position] = mask
        return Query(tokens, self.position)


def place_target(target: Target, tokens: Tokens) -> Place | None:
    """The target in a model's tokens; None where the vocabulary has no token for it."""
    gold = tokens.token(target.word)
    if gold < 0:
        return None
    before, after = _around(target, tokens)
    room = WINDOW - 3
    taken = min(len(before), max(room // 2, room - len(after)))
    sequence = tokens.framed([*before[len(before) - taken :], gold, *after[: room - taken]])
    candidates = np.array([tokens.token(candidate.word) for candidate in target.candidates], dtype=np.int64)
    return Place(target, sequence, taken + 1, candidates)


def _around(target: Target, tokens: Tokens) -> tuple[list[int], list[int]]:
    """The tokens of the context before and after the target.

    They are those of the whole text. Only where a token reaches over the edge of the word ("don" + "'" + "t" for
    the target "do") are both sides cut by themselves.
    """
    start, end = target.start, target.start + len(target.word)
    ids, places = tokens.encode_with_offsets(target.context)
    inside = (places[:, 1] > start) & (places[:, 0] < end)
    if inside.any() and places[inside, 0].min() == start and places[inside, 1].max() == end:
        first, last = np.flatnonzero(inside)[[0, -1]]
        return ids[:first].tolist(), ids[last + 1 :].tolist()
    before, after = tokens.encode_batch([target.context[:start].rstrip(), target.context[end:]])
    return before.tolist(), after.tolist()


def require_some(places: Sized, path: Path) -> None:
    """Refuses a file of which no target can be measured."""
    if not places:
        raise TrueNegError(
            f"{path}: none of its targets is a token of the dictionary with candidates that are; expected the language "
            "of the model"
        )
