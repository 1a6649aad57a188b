"""Which predictions are false negatives: whole words that a synonym table lists, or that people would accept.

A detector looks at some of the :data:`~.options.FEATURES`. With "table" among them only pairs of the synonym table are
candidates (hard correction, Eq. 2); without it every other word is. A logistic regression, fitted on judgements of
people by ``truneg synonyms judge --fit``, makes of the features a probability that people accept the candidate; from a
threshold on the candidate is a false negative (docs/explain/false_negatives.md has what each feature is worth).

Antonyms, numbers and other forms of the same word are near in embeddings and hidden states too. Such pairs are never
false negatives of a detector that gives probabilities.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import TrueNegError
from ..files import read_json, replacing_text
from .options import FEATURES, TABLE
from .passes import EncoderPasses, MaskedPredictions, gather_rows

MODELS = Path(__file__).with_name("acceptance_models")
"""The folder of the fitted regressions that come with the package, one JSON a set of features."""

_LAST_KEY = torch.iinfo(torch.int64).max


def pair_keys(gold: Tensor, synonym: Tensor) -> Tensor:
    """The look-up keys of ordered (gold, synonym) pairs of token ids, int64, shape (P,); int64, shape (P + 1,), sorted.

    A pair is one integer, gold * 2^32 + synonym, so that membership of many pairs is one binary search on the device.
    The last key is larger than every pair: the search's answer is always a valid index, for an empty table too.
    """
    keys = torch.sort((gold << 32) + synonym).values
    return torch.cat([keys, keys.new_full((1,), _LAST_KEY)])


def contains_pairs(keys: Tensor, gold: Tensor, synonym: Tensor) -> Tensor:
    """Which (gold, synonym) pairs are among the keys of :func:`pair_keys`; bool, of the ids' shape."""
    wanted = (gold << 32) + synonym
    return keys[torch.searchsorted(keys, wanted)].eq(wanted)


def find_false_negatives(gold: Tensor, prediction: Tensor, whole_word: Tensor, keys: Tensor) -> Tensor:
    """The false negatives of Eq. 2: mistakes whose prediction is a synonym of a gold whole word; bool, shape (N,).

    A prediction that equals the gold word is never one: read literally, Eq. 2 would drop the loss of correct
    predictions, because the paper's own synonym lists (Figure 3) contain the word itself.

    Args:
        gold: int64, shape (N,), the original tokens w_k.
        prediction: int64, shape (N,), the predicted tokens r_k.
        whole_word: bool, shape (N,), where the gold token is a whole word in its sequence.
        keys: of :func:`pair_keys`.
    """
    return contains_pairs(keys, gold, prediction) & whole_word & gold.ne(prediction)


def embedding_cosine(embeddings: Tensor, gold: Tensor, candidate: Tensor) -> Tensor:
    """The cosine of two words' input embeddings, fp32, without gradient; 0 where a vector is zero or not finite.

    ``embeddings`` have the shape (V, E) and any floating type; the words are int64, of shapes that broadcast.
    """
    table = embeddings.detach()
    return _cosine(table[gold], table[candidate])


def context_cosine(gold: Tensor, candidate: Tensor) -> Tensor:
    """The mean over the encoder's layers of the cosine of the states, with the gold word and with the candidate.

    Both are of L layers at N places, shape (L, N, H). Gives fp32, shape (N,), without gradient; where a vector is zero
    or not finite its cosine is 0.
    """
    return _cosine(gold.detach(), candidate.detach()).mean(0)


def _cosine(left: Tensor, right: Tensor) -> Tensor:
    return F.cosine_similarity(left.float(), right.float(), dim=-1).nan_to_num(nan=0.0).clamp(-1.0, 1.0)


@dataclass(frozen=True)
class AcceptanceModel:
    """A logistic regression: P(accepted) = sigmoid(intercept + sum of coefficient x feature)."""

    coefficients: dict[str, float]  # by feature, of :data:`FEATURES`; for the features as they are, not standardised
    intercept: float  # added to them
    # how it was fitted: data with its checksum, checkpoint, settings, measured quality, versions
    provenance: dict[str, Any] = field(default_factory=dict)
    format: Literal["truneg_fairseq.acceptance/1"] = "truneg_fairseq.acceptance/1"  # of its file

    def probability(self, features: Mapping[str, Tensor]) -> Tensor:
        """The probability that people accept each candidate, fp32, shape (N,), without gradient.

        Features without a coefficient are not read. Each has the shape (N,) and any type.
        """
        parts = [value * features[name].detach().float() for name, value in self.coefficients.items()]
        return torch.sigmoid(torch.stack(parts).sum(0) + self.intercept)

    def save(self, path: Path) -> None:
        """Writes the JSON, whole or not at all."""
        with replacing_text(path) as stream:
            json.dump(asdict(self), stream, indent=1)
            stream.write("\n")

    @classmethod
    def load(cls, path: Path) -> AcceptanceModel:
        """Reads what :meth:`save` wrote."""
        return read_json(path, cls, expected="an acceptance model, the JSON that 'truneg synonyms judge --fit' writes")


def acceptance_model(features: Collection[str], path: Path | None = None) -> AcceptanceModel:
    """The regression of exactly these features in a file (``--hc-acceptance-model``), or that of the package."""
    model = AcceptanceModel.load(MODELS / acceptance_file(features) if path is None else path)
    if model.coefficients.keys() != set(features):
        raise TrueNegError(
            f"--hc-acceptance-model {path}: is of {'+'.join(model.coefficients)}, but the detector is "
            f"{'+'.join(sorted(features))}; expected the same; set the detector, or fit another model"
        )
    return model


def acceptance_file(features: Collection[str]) -> str:
    """The file name of the model of a set of features: ``table_embedding.json`` and the like."""
    return f"{'_'.join(name for name in FEATURES if name in features)}.json"


class FalseNegatives(NamedTuple):
    """What a detector says of N tokens in place of the gold words."""

    is_false_negative: Tensor  # bool, shape (N,)
    # fp32, shape (N,), the probability that people accept the token, 0 where it is no false negative; None where the
    # detector is a table alone
    acceptance: Tensor | None


class Detector(nn.Module):
    """Finds false negatives.

    Args:
        features: some of :data:`~.options.FEATURES`.
        threshold: the smallest probability of acceptance, in [0, 1].
        keys: int64, shape (P + 1,), of :func:`pair_keys`; needed where "table" is among the features.
        regression: makes the probability from the features; None for a table alone.
        eligible: bool, shape (V,), the words that can be gold or accepted: no pieces, numbers, stop words; needed where
            there is a regression.
        blocked: int64, shape (P + 1,), of :func:`pair_keys`, of pairs that are never accepted, however near they are:
            antonyms, and other forms of the same word; needed where there is a regression.
    """

    keys: Tensor
    eligible: Tensor
    blocked: Tensor

    def __init__(
        self,
        features: frozenset[str],
        threshold: float,
        keys: Tensor | None = None,
        regression: AcceptanceModel | None = None,
        *,
        eligible: Tensor | None = None,
        blocked: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.features, self.threshold, self.regression = features, threshold, regression
        for name, buffer in (("keys", keys), ("eligible", eligible), ("blocked", blocked)):
            self.register_buffer(name, buffer, persistent=False)

    @torch.no_grad()
    def find(self, predicted: MaskedPredictions, tokens: Tensor, passes: EncoderPasses) -> FalseNegatives:
        """Which tokens, int64, shape (N,), are acceptable in place of the gold words of a batch."""
        assert predicted.whole_word is not None
        gold = predicted.gold
        if TABLE in self.features:
            candidate = find_false_negatives(gold, tokens, predicted.whole_word, self.keys)
        else:
            candidate = predicted.whole_word & gold.ne(tokens)
        if self.regression is None:
            return FalseNegatives(candidate, None)
        features = {TABLE: candidate}
        blocked = contains_pairs(self.blocked, gold, tokens)
        candidate = candidate & self.eligible[gold] & self.eligible[tokens] & ~blocked
        if "embedding" in self.features:
            features["embedding"] = embedding_cosine(passes.embeddings(), gold, tokens)
        if "context" in self.features:
            # In ELECTRA the sentence holds samples: a prediction that was not sampled has no state to look at.
            candidate = candidate & gather_rows(passes.filled()[0], predicted.positions).eq(tokens)
            features["context"] = context_cosine(*passes.hidden_states())
        probability = self.regression.probability(features)
        candidate = candidate & probability.ge(self.threshold)
        return FalseNegatives(candidate, torch.where(candidate, probability, 0.0))
