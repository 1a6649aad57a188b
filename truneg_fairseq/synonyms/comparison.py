"""Two tables of one dictionary against each other."""

from __future__ import annotations

import random

import numpy as np
from numpy.typing import NDArray

from .table import SynonymTable


def compare_tables(left: SynonymTable, right: SynonymTable) -> list[NDArray[np.int32]]:
    """The (gold, synonym) pairs of both tables, of the first one alone and of the second one alone.

    Each int32, shape (P, 2), ascending.
    """
    size = left.vocabulary_size
    a, b = (table.gold.astype(np.int64) * size + table.synonym for table in (left, right))
    found = (np.intersect1d(a, b), np.setdiff1d(a, b), np.setdiff1d(b, a))
    return [np.stack(np.divmod(each, size), axis=1).astype(np.int32) for each in found]


def sample_pairs(pairs: NDArray[np.int32], count: int, seed: int) -> NDArray[np.int32]:
    """A random sample of pairs, shape (min(count, P), 2) of (P, 2), in their order."""
    chosen = random.Random(seed).sample(range(len(pairs)), min(count, len(pairs)))
    return pairs[sorted(chosen)]
