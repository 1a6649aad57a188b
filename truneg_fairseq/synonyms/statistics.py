"""Describes a synonym table: coverage, pairs and the lengths of its lists, as text and as a chart."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from . import SynonymTable

_LONGEST = 20  # lists longer than this share the last bar
_TEXT_WIDTH = 50  # characters of the longest bar


@dataclass(frozen=True)
class TableStatistics:
    """The figures of one table."""

    title: str  # the table's source
    options: str  # the source's, as JSON
    tokens: int  # of the dictionary
    known: int  # tokens that the source lists
    keys: int  # tokens with at least one usable synonym
    pairs: int  # ordered (gold, synonym) pairs
    mutual: int  # pairs whose reverse is a pair too
    median: float  # of the lists' lengths
    longest: int  # length of the longest list
    histogram: dict[str, int]  # number of lists by length, "1" to "20" and "21+"

    @classmethod
    def of(cls, table: SynonymTable) -> TableStatistics:
        """The figures of a table; of an empty one zeros."""
        lengths = np.unique(table.gold, return_counts=True)[1]
        bars = np.bincount(np.minimum(lengths, _LONGEST + 1), minlength=_LONGEST + 2)
        gold, synonym = table.gold.astype(np.int64), table.synonym.astype(np.int64)
        size = table.vocabulary_size
        return cls(
            title=table.source,
            options=json.dumps(table.options, sort_keys=True),
            tokens=size,
            known=table.known_words,
            keys=len(lengths),
            pairs=len(table),
            mutual=int(np.isin(synonym * size + gold, gold * size + synonym).sum()),
            median=float(np.median(lengths)) if len(lengths) else 0.0,
            longest=int(lengths.max(initial=0)),
            histogram={
                **{str(length): int(bars[length]) for length in range(1, _LONGEST + 1)},
                f"{_LONGEST + 1}+": int(bars[_LONGEST + 1]),
            },
        )

    def lines(self) -> Iterator[str]:
        """The figures, and the histogram as bars of text."""
        yield f"source    {self.title} {self.options}"
        yield f"coverage  {self.known} of {self.tokens} tokens are listed ({_percent(self.known, self.tokens)})"
        yield f"keys      {self.keys} tokens have a usable synonym ({_percent(self.keys, self.tokens)})"
        yield f"pairs     {self.pairs}, of which {self.mutual} are mutual ({_percent(self.mutual, self.pairs)})"
        yield (
            f"lists     mean {self.pairs / max(1, self.keys):.1f}, median {self.median:.0f}, at most {self.longest} "
            "synonyms"
        )
        tallest = max(1, *self.histogram.values())
        for length, number in self.histogram.items():
            yield f"{length:>8}  {'#' * round(_TEXT_WIDTH * number / tallest)} {number}".rstrip()


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / max(1, whole):.2f} %"
