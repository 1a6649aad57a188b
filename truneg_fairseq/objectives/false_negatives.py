"""Which predictions are false negatives: whole words that a synonym table lists, or that people would accept.

A detector looks at some of the features of :mod:`~.acceptance`. With "table" among them only pairs of the synonym table
are candidates (hard correction, Eq. 2); without it every other word is. The features make a probability that people
accept the candidate, by a logistic regression; from a threshold on the candidate is a false negative.

Antonyms, numbers and other forms of the same word are near in embeddings and hidden states too. Such pairs
(:class:`BlockedPairs`) are never false negatives of a detector that gives probabilities.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from .acceptance import AcceptanceModel, context_cosine, embedding_cosine
from .options import TABLE
from .passes import MaskedPredictions, Passes, gather_rows

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


def contains_pairs(keys: Tensor, gold: Tensor, synonym: Tensor) -> Tensor:
    """Which (gold, synonym) pairs are among the keys of :func:`pair_keys`; bool, of the ids' shape."""
    wanted = _key(gold, synonym)
    return keys[torch.searchsorted(keys, wanted)].eq(wanted)


def corrected_predictions(gold: Tensor, prediction: Tensor, whole_word: Tensor, keys: Tensor) -> Tensor:
    """The corrected positions (Eq. 2): mismatches whose prediction is a synonym of a gold whole word.

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


class Acceptance(NamedTuple):
    """What a detector says of N tokens in place of the gold words."""

    accepted: Tensor  # bool, shape (N,), the false negatives
    # fp32, shape (N,), the probability that people accept the token, 0 where it is no false negative; None where the
    # detector is a table alone
    probability: Tensor | None


class BlockedPairs(nn.Module):
    """Pairs that a detector must never accept, however near they are.

    Args:
        eligible: bool, shape (V,), the words that can be gold or accepted: no pieces, numbers, stop words.
        gold: int64, shape (P,), of ordered pairs: antonyms, and other forms of the same word.
        other: int64, shape (P,).
    """

    eligible: Tensor
    keys: Tensor

    def __init__(self, eligible: Tensor, gold: Tensor, other: Tensor) -> None:
        super().__init__()
        self.register_buffer("eligible", eligible, persistent=False)
        self.register_buffer("keys", pair_keys(gold, other), persistent=False)

    def acceptable(self, gold: Tensor, token: Tensor) -> Tensor:
        """Whether a detector may accept each token in place of each gold word, bool, shape (N,)."""
        return self.eligible[gold] & self.eligible[token] & ~contains_pairs(self.keys, gold, token)


class Detector(nn.Module):
    """Finds false negatives.

    Args:
        features: some of :data:`~.acceptance.FEATURES`.
        threshold: the smallest probability of acceptance, in [0, 1].
        keys: int64, shape (P + 1,), of :func:`pair_keys`; needed where "table" is among the features.
        regression: makes the probability from the features; None for a table alone.
        blocked: needed where there is a regression.
    """

    keys: Tensor | None

    def __init__(
        self,
        features: frozenset[str],
        threshold: float,
        keys: Tensor | None = None,
        regression: AcceptanceModel | None = None,
        blocked: BlockedPairs | None = None,
    ) -> None:
        super().__init__()
        self.features, self.threshold = features, threshold
        self.regression, self.blocked = regression, blocked
        self.register_buffer("keys", keys, persistent=False)

    @torch.no_grad()
    def accept(self, predicted: MaskedPredictions, tokens: Tensor, passes: Passes) -> Acceptance:
        """Which tokens are acceptable in place of the gold words.

        Args:
            predicted: the batch.
            tokens: int64, shape (N,), the predictions or other replacements.
            passes: of the model, for the features.
        """
        assert predicted.whole_word is not None
        gold = predicted.gold
        if TABLE in self.features:
            assert self.keys is not None
            candidate = corrected_predictions(gold, tokens, predicted.whole_word, self.keys)
        else:
            candidate = predicted.whole_word & gold.ne(tokens)
        if self.regression is None:
            return Acceptance(candidate, None)
        assert self.blocked is not None
        features = {TABLE: candidate}
        candidate = candidate & self.blocked.acceptable(gold, tokens)
        if "embedding" in self.features:
            features["embedding"] = embedding_cosine(passes.embeddings(), gold, tokens)
        if "context" in self.features:
            # In ELECTRA the sentence holds samples: a prediction that was not sampled has no state to look at.
            candidate = candidate & gather_rows(passes.filled()[0], predicted.positions).eq(tokens)
            features["context"] = context_cosine(*passes.hidden_states())
        probability = self.regression.probability(features)
        candidate = candidate & probability.ge(self.threshold)
        return Acceptance(candidate, torch.where(candidate, probability, 0.0))


def _key(gold: Tensor, synonym: Tensor) -> Tensor:
    return (gold << ID_BITS) + synonym
