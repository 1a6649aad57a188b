"""Sources of synonyms side by side, and two tables against each other."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import TrueNegError
from .table import SynonymTable

_MARK = "x"


def name_grid(names: Sequence[str], columns: Mapping[str, Collection[str]]) -> Iterator[str]:
    """Lines of a grid: a row per name, a column per set of names, a mark where the set has the name."""
    width = max(map(len, names), default=0)
    yield " ".join([" " * width, *columns]).rstrip()
    for name in names:
        marks = (f"{_MARK if name in column else '':^{len(heading)}}" for heading, column in columns.items())
        yield " ".join([f"{name:<{width}}", *marks]).rstrip()


@dataclass(frozen=True)
class TableComparison:
    """The pairs of two tables of one dictionary."""

    both: NDArray[np.int32]  # int32, shape (P, 2), the (gold, synonym) pairs that both tables have, ascending
    only_left: NDArray[np.int32]  # likewise, those that the first table alone has
    only_right: NDArray[np.int32]  # likewise, those that the second table alone has

    @classmethod
    def of(cls, left: SynonymTable, right: SynonymTable, left_path: Path, right_path: Path) -> TableComparison:
        """Compares two tables."""
        right.check_dictionary(left.fingerprint, right_path, str(left_path))
        if left.tokenization != right.tokenization:
            raise TrueNegError(
                f"{right_path}: was built for {right.tokenization} tokens, but {left_path} for {left.tokenization}; "
                "expected the same; build one of them again with --tokenization"
            )
        left_keys, right_keys = _keys(left), _keys(right)
        size = left.vocabulary_size
        return cls(
            both=_pairs(np.intersect1d(left_keys, right_keys, assume_unique=True), size),
            only_left=_pairs(np.setdiff1d(left_keys, right_keys, assume_unique=True), size),
            only_right=_pairs(np.setdiff1d(right_keys, left_keys, assume_unique=True), size),
        )


def sample_pairs(pairs: NDArray[np.int32], count: int, seed: int) -> NDArray[np.int32]:
    """A random sample of pairs, shape (min(count, P), 2) of (P, 2), in their order."""
    chosen = random.Random(seed).sample(range(len(pairs)), min(count, len(pairs)))
    return pairs[sorted(chosen)]


def _keys(table: SynonymTable) -> NDArray[np.int64]:
    return table.gold.astype(np.int64) * table.vocabulary_size + table.synonym


def _pairs(keys: NDArray[np.int64], size: int) -> NDArray[np.int32]:
    return np.stack(np.divmod(keys, size), axis=1).astype(np.int32)
