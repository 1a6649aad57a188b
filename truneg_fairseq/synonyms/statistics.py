"""Describes a synonym table: coverage, pairs and the lengths of its lists, as text and as a picture.

The picture is an SVG file of a few lines, so that no plotting library is needed: browsers show it, and git shows what
changed in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

import numpy as np

from . import SynonymTable

_LONGEST = 20  # lists longer than this share the last bar
_TEXT_WIDTH = 50  # characters of the longest bar
_PLOT_WIDTH, _PLOT_HEIGHT = 640, 260
_LEFT, _TOP, _BOTTOM = 60, 60, 60
_BAR_COLOR = "#4477aa"


@dataclass(frozen=True)
class TableStatistics:
    """The figures of one table.

    Attributes:
        title: the table's source.
        options: the source's, as JSON.
        tokens: of the dictionary.
        known: tokens that the source lists.
        keys: tokens with at least one usable synonym.
        pairs: ordered (gold, synonym) pairs.
        mutual: pairs whose reverse is a pair too.
        median: of the lists' lengths.
        longest: length of the longest list.
        histogram: number of lists by length, "1" to "20" and "21+".
    """

    title: str
    options: str
    tokens: int
    known: int
    keys: int
    pairs: int
    mutual: int
    median: float
    longest: int
    histogram: dict[str, int]

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

    def picture(self) -> str:
        """The histogram as an SVG document."""
        step = _PLOT_WIDTH / len(self.histogram)
        tallest = max(1, *self.histogram.values())
        base = _TOP + _PLOT_HEIGHT
        shapes = []
        for place, (length, number) in enumerate(self.histogram.items()):
            height = _PLOT_HEIGHT * number / tallest
            left = _LEFT + place * step
            middle = left + step / 2
            shapes.append(
                f'<rect x="{left + 2:.1f}" y="{base - height:.1f}" width="{step - 4:.1f}" height="{height:.1f}" '
                f'fill="{_BAR_COLOR}"/>'
            )
            shapes.append(_label(middle, base - height - 4, str(number), size=10))
            shapes.append(_label(middle, base + 16, length))
        caption = f"{self.pairs:,} pairs over {self.keys:,} of {self.tokens:,} tokens"
        center = _LEFT + _PLOT_WIDTH / 2
        width, height = _PLOT_WIDTH + 2 * _LEFT, base + _BOTTOM
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
                f'width="{width}" height="{height}" font-family="sans-serif">',
                f'<rect width="{width}" height="{height}" fill="white"/>',
                _label(center, 24, self.title, size=16),
                _label(center, 42, caption),
                *shapes,
                f'<path d="M{_LEFT} {base}H{_LEFT + _PLOT_WIDTH}" stroke="black"/>',
                _label(center, base + 40, "synonyms a token"),
                f'<g transform="rotate(-90)">{_label(-(_TOP + _PLOT_HEIGHT / 2), 30, "tokens")}</g>',
                "</svg>",
                "",
            ]
        )


def _label(x: float, y: float, text: str, size: int = 12) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="middle">{escape(text)}</text>'


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / max(1, whole):.2f} %"
