"""Hard correction (Eq. 2): which predictions are false negatives, because they are synonyms of the gold word."""

from __future__ import annotations

import torch
from torch import Tensor

from .words import WordMarks

ID_BITS = 32
_LAST_KEY = torch.iinfo(torch.int64).max


def pair_keys(gold: Tensor, synonym: Tensor) -> Tensor:
    """The look-up keys of ordered (gold, synonym) pairs, sorted and closed by a sentinel.

    A pair is one integer, gold * 2^32 + synonym, so that membership of many pairs is one binary search on the device.
    The sentinel is larger than every pair: the search's answer is always a valid index, for an empty table too.

    Args:
        gold: int64, shape (P,), token ids >= 0.
        synonym: int64, shape (P,), token ids >= 0.

    Returns:
        int64, shape (P + 1,), ascending.
    """
    keys = torch.sort(_key(gold, synonym)).values
    return torch.cat([keys, keys.new_full((1,), _LAST_KEY)])


def corrected_predictions(gold: Tensor, prediction: Tensor, whole_word: Tensor, keys: Tensor) -> Tensor:
    """The corrected positions: mismatches whose prediction is a synonym of a gold whole word.

    A prediction that equals the gold word is never corrected: read literally, Eq. 2 would drop the loss of correct
    predictions, because the paper's own synonym lists (Figure 3) contain the word itself.

    Args:
        gold: int64, shape (N,), the original tokens w_k.
        prediction: int64, shape (N,), the predicted tokens r_k.
        whole_word: bool, shape (N,), where the gold token is a whole word in its sequence.
        keys: int64, shape (P + 1,), from :func:`pair_keys`.

    Returns:
        bool, shape (N,).
    """
    return contains_pairs(keys, gold, prediction) & whole_word & gold.ne(prediction)


def contains_pairs(keys: Tensor, gold: Tensor, synonym: Tensor) -> Tensor:
    """Which (gold, synonym) pairs are among the keys of :func:`pair_keys`; bool, of the ids' shape."""
    wanted = _key(gold, synonym)
    return keys[torch.searchsorted(keys, wanted)].eq(wanted)


def mark_whole_words(tokens: Tensor, continues: Tensor, unfinished: Tensor | None = None) -> Tensor:
    """Where a token is a whole word, judged on the original sequence (footnote 5).

    Args:
        tokens: int64, shape (B, T), the original tokens (nothing masked), padding included.
        continues: bool, shape (V,), whether a token continues the word of the token before it.
        unfinished: bool, shape (V,), whether the next token continues a token's word (subword-nmt); None for never.

    Returns:
        bool, shape (B, T): the token does not continue a word, and the next token does not continue it.
    """
    continuing = WordMarks(continues, unfinished).inside(tokens)
    continued = torch.zeros_like(continuing) if unfinished is None else unfinished[tokens]
    continued[:, :-1] = continuing[:, 1:]
    return ~(continuing | continued)


def _key(gold: Tensor, synonym: Tensor) -> Tensor:
    return (gold << ID_BITS) + synonym
