"""Examples of one and two segments: all of the text once, documents apart, split at lines near the middle."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.commands import within_four_sigma

from truneg_fairseq.data.segments import SHORTEST, cut_examples, lay_out

EOS = 2


def stored(line_lengths):
    """A text whose tokens are 3, 4, 5, ..., as it is stored."""
    raw, token = [], 3
    for length in line_lengths:
        raw += [*range(token, token + length), EOS]
        token += length
    return np.array(raw)


def segments(raw, examples):
    """First and second segment of each example, without ``</s>``."""
    for start, split, length in zip(examples.start, examples.split, examples.length, strict=True):
        halves = raw[start : start + split], raw[start + split : start + length]
        yield tuple(half[half != EOS].tolist() for half in halves)


def cut(line_lengths, max_length=20, one=0.1, short=0.05, seed=1):
    sizes = np.array(line_lengths) + 1
    return cut_examples(sizes, max_length=max_length, one_segment_prob=one, short_length_prob=short, seed=seed)


@given(
    lines=st.lists(st.integers(0, 30), max_size=40),
    max_length=st.integers(SHORTEST, 25),
    one=st.sampled_from([0.0, 0.5, 1.0]),
    short=st.sampled_from([0.0, 0.5, 1.0]),
    seed=st.integers(0, 9),
)
@settings(max_examples=40, deadline=None)
def test_examples_hold_the_whole_text_once(lines, max_length, one, short, seed):
    raw = stored(lines)
    examples = cut(lines, max_length, one, short, seed)
    line_ends = set(np.cumsum(lines).tolist())
    documents = {sum(lines[:i]) for i, length in enumerate(lines) if length == 0}
    position = 0
    for size, (first, second) in zip(examples.sizes, segments(raw, examples), strict=True):
        text = first + second
        assert text == list(range(position + 3, position + 3 + len(text))), "nothing is lost, repeated or moved"
        assert first
        assert size == len(text) + 2 + bool(second) <= max_length
        if second:
            assert position + len(first) in line_ends
        assert not any(position < bound < position + len(text) for bound in documents)
        position += len(text)
    assert position == sum(lines)
    assert not (raw[examples.start + examples.length - 1] == EOS).any()
    if one == 1:
        assert (examples.split == examples.length).all()
    again = cut(lines, max_length, one, short, seed)
    assert all((getattr(again, name) == getattr(examples, name)).all() for name in ("start", "split", "length"))


def electra_splits(lines, half):
    """The ends of the first segment that ELECTRA's builder may choose, without and with its coin, by a loop."""
    ends, first = [], 0
    for number, length in enumerate(lines):
        if number and first + length >= half:
            ends = [first, first + length] if first < half else [first]
            break
        first += length
    return ends or [first]


@pytest.mark.parametrize("seed", range(3))
def test_full_examples_split_where_electra_may(seed):
    rng = np.random.default_rng(seed)
    lines = rng.integers(1, 40, size=4000)
    raw = stored(lines)
    ends = np.cumsum(lines)
    capacity, coins = 61, []
    examples = cut(lines, 64, 0.0, 0.0)
    for number, (first, second) in enumerate(segments(raw, examples)):
        start = number * capacity
        inside = ends[(ends > start) & (ends < start + capacity)]
        bounds = [start, *inside, min(start + capacity, ends[-1])]
        assert len(first + second) == bounds[-1] - start, "filled to the length"
        allowed = electra_splits(np.diff(bounds), 30)
        assert len(first) in allowed
        if len(allowed) == 2:
            coins.append(len(first) == allowed[1])
    assert len(coins) > 500
    assert within_four_sigma(sum(coins), len(coins), 0.5)


def test_shares_of_kinds_are_electras():
    """Lines of 5 tokens: an example with one segment is one that was drawn so. Four standard deviations."""
    examples = cut([5] * 400_000, max_length=64)
    one = examples.split == examples.length
    assert within_four_sigma(one.sum(), len(one), 0.1)
    examples = cut([5] * 400_000, max_length=64, one=0)
    sizes = examples.sizes[:-1][(examples.split < examples.length)[:-1]]
    # A target below 13 leaves one segment at most: the middle comes before the first line's end.
    short = sizes[(sizes >= 20) & (sizes < 64)]
    drawn = 0.05 * 44 / 60
    assert within_four_sigma(len(short), len(examples), drawn)
    assert all(within_four_sigma(n, len(short), 1 / 44) for n in np.bincount(short - 20, minlength=44))


@given(shapes=st.lists(st.tuples(st.integers(1, 4), st.integers(0, 4)), min_size=1, max_size=5))
@settings(max_examples=50, deadline=None)
def test_layout_equals_a_loop(shapes):
    text = np.arange(10, 10 + sum(map(sum, shapes)))
    first, second = np.array(shapes).T
    layout = lay_out(text, first, first + second, bos=0, eos=EOS, pad=1)
    rows, position = [], 0
    for one, two in shapes:
        halves = text[position : position + one].tolist(), text[position + one : position + one + two].tolist()
        rows.append([0, *halves[0], EOS, *([*halves[1], EOS] if two else [])])
        position += one + two
    width = max(map(len, rows))
    assert layout.tokens.tolist() == [row + [1] * (width - len(row)) for row in rows]
    assert (layout.is_text == (layout.tokens >= 10)).all()
    assert layout.lengths.tolist() == [len(row) for row in rows]


def test_positions_beyond_2_31_tokens():
    examples = cut(np.full(3, 2**30 + 1, dtype=np.int32), max_length=2**16, one=0, short=0)
    assert examples.start[-1] > 2**31
    assert (np.diff(examples.start) > 0).all()
    text = examples.sizes - 2 - (examples.split < examples.length)
    assert int(text.sum(dtype=np.int64)) == 3 * (2**30 + 1)
