"""Which mistakes are false negatives: pairs of a table, or what a score in the sentence says.

A detector looks at some of the features of :mod:`~.acceptance`. With "table" among them only pairs of the synonym table
are candidates, else every other word is. The scores make a probability that people accept the candidate, by a logistic
regression, and a candidate at or above a threshold is a false negative.

Embeddings and states in context are near for antonyms, numbers and other forms of the same word too. Such pairs
(:class:`Exclusions`) are never false negatives of a detector that scores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from .acceptance import AcceptanceModel, context_cosine, embedding_cosine
from .hard_correction import contains_pairs, corrected_predictions, pair_keys
from .passes import Passes
from .predictions import MaskedPredictions, at_positions
from .settings import TABLE


class Acceptance(NamedTuple):
    """What a detector says of N tokens in place of the gold words."""

    accepted: Tensor  # bool, shape (N,), the false negatives
    # fp32, shape (N,), the probability that people accept the token, 0 where it is not a false negative; None where the
    # detector is a table alone
    probability: Tensor | None


class Exclusions(nn.Module):
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
        features: of :data:`~.acceptance.FEATURES`.
        threshold: the smallest probability of acceptance, in [0, 1].
        model: makes the probability of the features; None for a table alone.
        pairs: gives the table's keys (:func:`~.hard_correction.pair_keys`); needed where "table" is among the features.
        exclusions: needed where there is a model.
    """

    def __init__(
        self,
        features: frozenset[str],
        threshold: float,
        model: AcceptanceModel | None = None,
        pairs: Callable[[], Tensor] | None = None,
        exclusions: Exclusions | None = None,
    ) -> None:
        super().__init__()
        self._features = features
        self._threshold = threshold
        self._model = model
        self._pairs = pairs
        self.exclusions = exclusions

    @torch.no_grad()
    def accept(self, predicted: MaskedPredictions, tokens: Tensor, passes: Passes) -> Acceptance:
        """Which tokens are acceptable in place of the gold words.

        Args:
            predicted: the batch.
            tokens: int64, shape (N,), the predictions or other replacements.
            passes: of the model, for the scores.
        """
        assert predicted.whole_word is not None
        gold = predicted.gold
        if TABLE in self._features:
            assert self._pairs is not None
            candidate = corrected_predictions(gold, tokens, predicted.whole_word, self._pairs())
        else:
            candidate = predicted.whole_word & gold.ne(tokens)
        if self._model is None:
            return Acceptance(candidate, None)
        assert self.exclusions is not None
        candidate &= self.exclusions.acceptable(gold, tokens)
        scores = {TABLE: candidate}
        if "embedding" in self._features:
            scores["embedding"] = embedding_cosine(passes.embeddings(), gold, tokens)
        if "context" in self._features:
            # In ELECTRA the sentence holds samples: a prediction that was not sampled has no state to look at.
            candidate &= at_positions(passes.filled()[0], predicted).eq(tokens)
            scores["context"] = context_cosine(*passes.layers())
        probability = self._model.probability(scores)
        candidate &= probability.ge(self._threshold)
        return Acceptance(candidate, torch.where(candidate, probability, 0.0))
