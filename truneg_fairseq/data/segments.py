"""Cutting a text into ELECTRA's training examples: ``<s> first </s> second </s>``.

As in ELECTRA's example builder, consecutive lines fill an example up to its length, documents do not mix, most examples
have two segments that meet at the end of a line near the middle, some have one, and some are shorter. Two things
differ, so that no text is lost: what does not fit any more, be it the end of a sentence or the rest of a line of
megabytes, begins the next example (ELECTRA drops it); and a segment is always of consecutive lines.

A text is known here by the sizes of its lines alone. *Raw* positions count its tokens as they are stored, with the
``</s>`` at the end of each line; *text* positions count them without. A line that holds only ``</s>`` ends a document.
Nothing loops over lines: ten million take seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

SHORTEST = 5
"""The least number of tokens a short example aims at: two segments of a token each, and the three specials."""

# Lengths are drawn for this many examples and used again by those after; each document begins at a random one.
_PERIOD = 1 << 20


@dataclass(frozen=True)
class Examples:
    """Where N examples lie in a text."""

    start: NDArray[np.int64]  # int64, shape (N,), raw position of the first token
    # int32, shape (N,), raw tokens before the second segment; all of them where there is one segment
    split: NDArray[np.int32]
    length: NDArray[np.int32]  # int32, shape (N,), raw tokens
    sizes: NDArray[np.int32]  # int32, shape (N,), tokens of the example, its ``<s>`` and ``</s>`` included

    def __len__(self) -> int:
        return len(self.start)

    def moved(self, by: int) -> Examples:
        """The same examples in a text that stands ``by`` raw tokens after the beginning of another."""
        return Examples(self.start + by, self.split, self.length, self.sizes)


def concatenate(parts: list[Examples]) -> Examples:
    """The examples of several texts, one text after the other."""
    return Examples(*(np.concatenate([getattr(p, name) for p in parts]) for name in Examples.__dataclass_fields__))


def cut_examples(
    line_sizes: NDArray[np.integer], *, max_length: int, one_segment_prob: float, short_length_prob: float, seed: int
) -> Examples:
    """Cuts a text into examples; the same for the same arguments.

    An example of target length t takes t - 3 tokens of text, or t - 2 if it is drawn to have one segment. Its first
    segment takes its first line and further ones as long as they end before the middle, and half of the time the one
    that crosses it. An example without a line's end near the middle has one segment.

    ``line_sizes``, shape (L,), has the tokens of each line, its ``</s>`` included (>= 1); ``max_length``, at least
    :data:`SHORTEST`, is the most tokens of an example, specials included. A share ``one_segment_prob`` of the examples
    is drawn to have one segment; of a share ``short_length_prob`` the target length is uniform in [:data:`SHORTEST`,
    max_length]. The examples are in the order of the text; together they hold each of its tokens once.
    """
    rng = np.random.default_rng(seed)
    # Of _PERIOD examples, shapes (_PERIOD,)
    short = rng.random(_PERIOD) < short_length_prob
    target = np.where(short, rng.integers(SHORTEST, max_length, size=_PERIOD, endpoint=True), max_length)
    one_segment = rng.random(_PERIOD) < one_segment_prob
    crosses = rng.random(_PERIOD) < 0.5
    ends = np.cumsum(line_sizes, dtype=np.int64)
    ends -= np.arange(1, len(ends) + 1)  # of the lines, in text positions
    # Text positions between which the documents lie, shape (documents + 1,); no document is empty.
    bounds = np.unique(np.concatenate([[0], ends[line_sizes == 1], ends[-1:]]))
    start, end, which = _tile_documents(bounds, target - np.where(one_segment, 2, 3), rng)
    split = _split_near_middle(ends, start, start + (target[which] - 3) // 2, crosses[which])
    split = np.where(one_segment[which], end, np.minimum(split, end))
    two_segments = split < end
    raw_start = _raw_position(ends, start)
    raw_end = _raw_position(ends, end - 1) + 1
    raw_split = np.where(two_segments, _raw_position(ends, np.minimum(split, end - 1)), raw_end)
    return Examples(
        start=raw_start,
        split=(raw_split - raw_start).astype(np.int32),
        length=(raw_end - raw_start).astype(np.int32),
        sizes=(end - start + 2 + two_segments).astype(np.int32),
    )


class Layout(NamedTuple):
    """A batch of B examples, T tokens wide."""

    tokens: NDArray[np.int64]  # int64, shape (B, T), ``<s> first </s> second </s>`` and padding
    is_text: NDArray[np.bool_]  # bool, shape (B, T), True at the tokens of the text
    lengths: NDArray[np.int64]  # int64, shape (B,), tokens of each example, specials included


def lay_out(
    text: NDArray[np.int64], first: NDArray[np.int64], total: NDArray[np.int64], *, bos: int, eos: int, pad: int
) -> Layout:
    """Puts segments between their special tokens, whose ids are ``bos``, ``eos`` and ``pad``.

    ``text``, shape (sum of total,), has the tokens of all examples, one after the other; ``first`` and ``total``, shape
    (B,), are how many the first segment and both have: the same where there is one segment.
    """
    lengths = total + 2 + (first < total)
    columns = np.arange(lengths.max())
    rows = np.arange(len(lengths))
    is_text = columns < (lengths - 1)[:, None]
    is_text[:, 0] = False
    is_text[rows, first + 1] = False
    tokens = np.full(is_text.shape, pad, dtype=np.int64)
    tokens[:, 0] = bos
    tokens[rows, first + 1] = eos
    tokens[rows, lengths - 1] = eos
    tokens[is_text] = text
    return Layout(tokens, is_text, lengths)


def _tile_documents(
    bounds: NDArray[np.int64], capacity: NDArray[np.int64], rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Cuts each document into pieces of the drawn capacities, the last one being what is left.

    Start and end of each example in text positions, and which of the drawn lengths it has; each of shape (N,).
    """
    filled = np.concatenate([[0], np.cumsum(capacity)])  # by the first i drawn lengths
    period, per_period = len(capacity), int(filled[-1])

    def fill(count: NDArray[np.int64]) -> NDArray[np.int64]:
        return (count // period) * per_period + filled[count % period]

    begin = rng.integers(period, size=len(bounds) - 1)
    periods, rest = np.divmod(fill(begin) + np.diff(bounds), per_period)
    counts = periods * period + np.searchsorted(filled, rest, side="left") - begin
    document = np.repeat(np.arange(len(counts)), counts)
    number = np.arange(len(document)) - np.repeat(np.cumsum(counts) - counts, counts) + begin[document]
    origin = bounds[document] - fill(begin)[document]
    return origin + fill(number), np.minimum(origin + fill(number + 1), bounds[document + 1]), number % period


def _split_near_middle(
    ends: NDArray[np.int64], start: NDArray[np.int64], middle: NDArray[np.int64], crosses: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Text position of the second segment of each example, shape (N,); it may lie beyond the example's end."""
    before = np.searchsorted(ends, middle, side="left") - 1
    split = np.where(before >= 0, ends[before], 0)
    first_line = ends[np.searchsorted(ends, start, side="right")]
    split = np.where(split > start, split, first_line)
    last = len(ends) - 1
    next_line = ends[np.minimum(np.searchsorted(ends, split, side="right"), last)]
    return np.where(crosses & (split < middle), next_line, split)


def _raw_position(ends: NDArray[np.int64], text: NDArray[np.int64]) -> NDArray[np.int64]:
    """Raw positions of tokens at text positions: a ``</s>`` stands after each line that ends before them."""
    return text + np.searchsorted(ends, text, side="right")
