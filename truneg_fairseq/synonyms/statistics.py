"""Describes a synonym table: coverage, pairs and the lengths of its lists."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np

from .table import SynonymTable

_LONGEST = 20  # lists longer than this share the last bar
_WIDTH = 50  # characters of the longest bar


def describe(table: SynonymTable) -> Iterator[str]:
    """The figures of a table, and a histogram of the lists' lengths."""
    lengths = np.unique(table.gold, return_counts=True)[1]
    size, keys, pairs = table.vocabulary_size, len(lengths), len(table)
    gold, synonym = table.gold.astype(np.int64), table.synonym.astype(np.int64)
    mutual = int(np.isin(synonym * size + gold, gold * size + synonym).sum())
    median = np.median(lengths) if keys else 0
    yield f"source    {table.source} {json.dumps(table.options, sort_keys=True)}"
    yield f"coverage  {table.known_words} of {size} tokens are listed ({_percent(table.known_words, size)})"
    yield f"keys      {keys} tokens have a usable synonym ({_percent(keys, size)})"
    yield f"pairs     {pairs}, of which {mutual} are mutual ({_percent(mutual, pairs)})"
    yield f"lists     mean {pairs / max(1, keys):.1f}, median {median:.0f}, at most {lengths.max(initial=0)} synonyms"
    bars = np.bincount(np.minimum(lengths, _LONGEST + 1), minlength=_LONGEST + 2)
    for length, number in enumerate(bars[1:].tolist(), start=1):
        title = f"{length}+" if length > _LONGEST else str(length)
        yield f"{title:>8}  {'#' * round(_WIDTH * number / max(1, bars.max()))} {number}".rstrip()


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / max(1, whole):.2f} %"
