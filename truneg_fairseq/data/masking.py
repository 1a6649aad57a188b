"""Choosing the tokens that a masked language model predicts, a batch at a time.

As in ELECTRA, a share of an example's tokens is chosen, specials never, at least one; most of the chosen become
``<mask>``, some stay as they are, and for BERT some become random. The random numbers are a function of (seed, epoch,
example, position), so an example's masks are the same in whatever batch and worker it appears, and others in the next
epoch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..vocabulary import WordBoundaries

# SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): a counter's increment and the two multipliers that mix it.
_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX = ((np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)), (np.uint64(27), np.uint64(0x94D049BB133111EB)))
_LAST_SHIFT = np.uint64(31)
_NEVER = np.uint64(2**64 - 1)
_CHOICE, _REPLACEMENT = range(2)  # what the random numbers are for


@dataclass(frozen=True)
class Masking:
    """How tokens are masked."""

    mask: int  # id of ``<mask>``
    pad: int  # id of the padding, which fills the target where nothing is predicted
    mask_prob: float  # share of an example's tokens that is predicted, in (0, 1)
    leave_unmasked_prob: float  # share of these that stay as they are
    random_token_prob: float  # share of these that become random tokens
    random_tokens: NDArray[np.int64]  # int64, shape (R,), ids of the tokens that random ones are drawn from, uniformly
    words: WordBoundaries | None = None  # given, whole words are masked

    def apply(
        self,
        tokens: NDArray[np.int64],
        is_text: NDArray[np.bool_],
        lengths: NDArray[np.int64],
        keys: NDArray[np.uint64],
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The masked tokens of B examples, and the target: the original token where it was chosen, padding elsewhere.

        Both are int64, shape (B, T), as ``tokens`` are. ``is_text``, shape (B, T), is True at the tokens that may be
        chosen; ``lengths``, shape (B,), has the tokens of each example, specials included, of which a share is chosen;
        ``keys``, shape (B,), are of :func:`example_keys`.
        """
        budget = np.maximum(1, np.rint(self.mask_prob * lengths)).astype(np.int64)
        scores = random_numbers(keys, tokens.shape[1], _CHOICE)
        if self.words is None:
            chosen = choose_tokens(scores, is_text, budget)
        else:
            chosen = choose_words(scores, is_text, budget, self.words.inside(tokens))
        drawn = random_numbers(keys, tokens.shape[1], _REPLACEMENT)[chosen]
        fate = drawn / 2.0**64
        replaced = np.full(len(fate), self.mask)
        kept = fate < self.leave_unmasked_prob
        replaced[kept] = tokens[chosen][kept]
        if self.random_token_prob:
            at_random = (fate >= self.leave_unmasked_prob) & (fate < self.leave_unmasked_prob + self.random_token_prob)
            number = drawn[at_random] % np.uint64(len(self.random_tokens))  # the low digits, free of the fate
            replaced[at_random] = self.random_tokens[number]
        masked = tokens.copy()
        masked[chosen] = replaced
        return masked, np.where(chosen, tokens, self.pad)


def example_keys(seed: int, epoch: int, index: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The keys, uint64, shape (B,), of the random numbers of examples, whose numbers are ``index``, shape (B,)."""
    key = np.zeros(1, dtype=np.uint64)
    for part in (np.array([seed]), np.array([epoch]), index):
        key = _mix(key + (part.astype(np.int64).view(np.uint64) + np.uint64(1)) * _GAMMA)
    return key


def random_numbers(keys: NDArray[np.uint64], width: int, purpose: int) -> NDArray[np.uint64]:
    """SplitMix64's output, uniform over all uint64, shape (B, width): a row for each of the B keys.

    A narrower row is the beginning of a wider one; numbers for different purposes are independent.
    """
    offset = np.array([purpose + 1], dtype=np.uint64) * _GAMMA  # an array: numpy warns of scalars that wrap around
    row = _mix(keys + offset)
    steps = np.arange(1, width + 1, dtype=np.uint64) * _GAMMA
    return _mix(row[:, None] + steps)


def choose_tokens(
    scores: NDArray[np.uint64], eligible: NDArray[np.bool_], budget: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Chooses the ``budget`` eligible tokens of the lowest scores in each row, or all where there are fewer.

    Scores, eligible and the result have the shape (B, T), ``budget`` (B,), >= 1.
    """
    scores = np.where(eligible, scores, _NEVER)
    threshold = np.sort(scores, axis=1)[np.arange(len(scores)), np.minimum(budget, scores.shape[1]) - 1]
    return (scores <= threshold[:, None]) & eligible


def choose_words(
    scores: NDArray[np.uint64], eligible: NDArray[np.bool_], budget: NDArray[np.int64], continues: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Chooses whole words at random in each row, until their tokens are as close to ``budget`` as that order comes.

    Words of more than twice the budget come last. Where none fits, as many of the tokens are chosen one by one. Shapes
    are those of :func:`choose_tokens`; ``continues``, shape (B, T): the token continues the word of the one before it.
    """
    rows, width = scores.shape
    before = np.zeros_like(eligible)
    before[:, 1:] = eligible[:, :-1]
    begins = ~(continues & eligible & before)  # ineligible tokens are words of their own, which come last
    word = np.cumsum(begins, axis=None) - 1
    sizes = np.bincount(word)[word].reshape(rows, width)
    word_scores = scores[begins][word].reshape(rows, width)
    possible = eligible & (sizes <= 2 * budget[:, None])
    order = np.argsort(np.where(possible, word_scores, _NEVER), axis=1, kind="stable")
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.arange(width)[None, :], axis=1)
    first_rank = rank.reshape(-1)[np.flatnonzero(begins)][word].reshape(rows, width)
    chosen = possible & (2 * first_rank + sizes <= 2 * budget[:, None])
    none = ~chosen.any(axis=1, keepdims=True)
    return np.where(none, choose_tokens(scores, eligible, budget), chosen)


def _mix(counter: NDArray[np.uint64]) -> NDArray[np.uint64]:
    for shift, multiplier in _MIX:
        counter = (counter ^ (counter >> shift)) * multiplier
    return counter ^ (counter >> _LAST_SHIFT)
