"""Masking: counts, shares and independence, against loops and statistics."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.commands import within_four_sigma

from truneg_fairseq.data.masking import Masking, choose_words, example_keys, random_numbers
from truneg_fairseq.vocabulary import WordBoundaries

BOS, PAD, EOS = 0, 1, 2
MASK = 999
ORDINARY = np.arange(4, 900)
ELECTRA = Masking(
    mask=MASK, pad=PAD, mask_prob=0.15, leave_unmasked_prob=0.15, random_token_prob=0.0, random_tokens=ORDINARY
)


def batch(lengths, seed=1):
    """Examples of the given lengths with one segment of random tokens: tokens, is_text, lengths."""
    rng = np.random.default_rng(seed)
    lengths = np.array(lengths)
    columns = np.arange(lengths.max())
    is_text = (columns > 0) & (columns < lengths[:, None] - 1)
    tokens = np.where(is_text, rng.choice(ORDINARY, size=is_text.shape), PAD)
    tokens[:, 0] = BOS
    tokens[np.arange(len(lengths)), lengths - 1] = EOS
    return tokens, is_text, lengths


def keys(count, seed=1, epoch=1):
    return example_keys(seed, epoch, np.arange(count))


def splitmix64(state, count):
    """The published generator, in plain integers."""
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        z = state
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        yield z ^ (z >> 31)


def test_random_numbers_are_splitmix64():
    assert list(splitmix64(1234567, 3)) == [6457827717110365317, 3203168211198807973, 9817491932198370423], "published"
    numbers = random_numbers(np.array([0, 77], dtype=np.uint64), 5, 0)
    assert numbers.tolist() == [list(splitmix64(next(splitmix64(key, 1)), 5)) for key in (0, 77)]


@pytest.mark.parametrize("probability", [0.15, 0.25, 0.01])
def test_every_example_has_its_share_and_specials_never(probability):
    lengths = [2, 3, 4, 5, 10, 17, 64, 127, 128, 128, 200]
    tokens, is_text, lengths = batch(lengths)
    masked, target = replace(ELECTRA, mask_prob=probability).apply(tokens, is_text, lengths, keys(len(lengths)))
    chosen = target != PAD
    expected = [min(n - 2, max(1, round(probability * n))) for n in lengths.tolist()]
    assert chosen.sum(axis=1).tolist() == expected
    assert not (chosen & ~is_text).any()
    assert (target[chosen] == tokens[chosen]).all()
    assert (masked[~chosen] == tokens[~chosen]).all()
    assert np.isin(masked[chosen & (masked != tokens)], [MASK]).all()


def test_shares_over_many_tokens_are_electras():
    """Of 128,000 tokens in 1,000 examples; the bounds are four standard deviations."""
    tokens, is_text, lengths = batch([128] * 1000)
    masked, target = ELECTRA.apply(tokens, is_text, lengths, keys(1000))
    chosen = target != PAD
    assert chosen.sum() == 19 * 1000
    assert within_four_sigma((masked == MASK).sum(), chosen.sum(), 0.85)
    assert (masked == MASK).sum() + ((masked == tokens) & chosen).sum() == chosen.sum(), "masked or kept, none random"
    by_position = chosen.sum(axis=0)[1:-1]
    assert all(within_four_sigma(count, 1000, 19 / 126) for count in by_position)
    kept_by_position = ((masked == tokens) & chosen).sum(axis=0)[1:-1]
    chi_square = ((kept_by_position - 0.15 * by_position) ** 2 / (0.15 * 0.85 * by_position)).sum()
    assert abs(chi_square - 126) <= 4 * math.sqrt(2 * 126), "kept tokens lie where chosen ones do"


def test_random_tokens_are_uniform_over_the_ordinary_ones():
    tokens, is_text, lengths = batch([128] * 1000)
    bert = replace(ELECTRA, leave_unmasked_prob=0.1, random_token_prob=0.6, random_tokens=np.arange(900, 920))
    masked, target = bert.apply(tokens, is_text, lengths, keys(1000))
    chosen = target != PAD
    random_tokens = masked[chosen & np.isin(masked, bert.random_tokens)]
    assert within_four_sigma(len(random_tokens), chosen.sum(), 0.6)
    assert within_four_sigma(((masked == tokens) & chosen).sum(), chosen.sum(), 0.1)
    counts = np.bincount(random_tokens - 900, minlength=20)
    assert all(within_four_sigma(count, len(random_tokens), 1 / 20) for count in counts)


def words_of(eligible, continues):
    """Lists of positions, by a loop."""
    words: list[list[int]] = []
    for position, ok in enumerate(eligible):
        if ok and continues[position] and position and eligible[position - 1]:
            words[-1].append(position)
        elif ok:
            words.append([position])
    return words


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_whole_words_equal_a_loop(data):
    """Several rows at once, of which each is what a loop over its words makes of it."""
    width, rows = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 3))
    flags = st.lists(st.booleans(), min_size=width, max_size=width)
    eligible = np.array([data.draw(flags) for _ in range(rows)])
    continues = np.array([data.draw(flags) for _ in range(rows)])
    budget = np.array([data.draw(st.integers(1, 6)) for _ in range(rows)])
    scores = random_numbers(example_keys(data.draw(st.integers(0, 99)), 1, np.arange(rows)), width, 0)
    chosen = choose_words(scores, eligible, budget, continues)
    for row in range(rows):
        words = words_of(eligible[row], continues[row])
        fitting = [word for word in words if len(word) <= 2 * budget[row]]
        expected: list[int] = []
        for word in sorted(fitting, key=lambda word: scores[row, word[0]]):
            if abs(len(expected) + len(word) - budget[row]) > abs(len(expected) - budget[row]):
                break
            expected += word
        if not fitting:
            expected = sorted(np.flatnonzero(eligible[row]), key=lambda position: scores[row, position])[: budget[row]]
        assert np.flatnonzero(chosen[row]).tolist() == sorted(expected)


def test_whole_words_keep_the_budget_on_average():
    """Words of two pieces in the mean: as many predicted tokens as without."""
    tokens, is_text, lengths = batch([128] * 1000)
    continues = np.zeros(1000, dtype=bool)
    continues[4:500] = True  # of 896
    whole = replace(ELECTRA, words=WordBoundaries(continues))
    masked, target = whole.apply(tokens, is_text, lengths, keys(1000))
    chosen = target != PAD
    assert abs(chosen.sum() / 19_000 - 1) < 0.02
    torn = chosen[:, 1:] != chosen[:, :-1]
    inside = continues[tokens[:, 1:]] & is_text[:, :-1] & is_text[:, 1:]
    assert not (torn & inside).any(), "a word is chosen whole or not at all"
    assert within_four_sigma((masked == MASK).sum(), chosen.sum(), 0.85)
