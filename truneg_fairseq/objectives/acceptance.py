"""Whether people would accept a wrong prediction: scores of a word for another, and their logistic regression.

A prediction that is not the gold word may be as good as it. Each score here is a function of the gold word, the
candidate and the sentence that a training step can compute (docs/explain/false_negatives.md has what each is worth). A
logistic regression makes a probability of them, fitted on judgements of people by ``truneg synonyms judge --fit``.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ..errors import TrueNegError
from ..files import read_json, replacing_text

FORMAT = "truneg_fairseq.acceptance/1"
_EXPECTED = "an acceptance model, the JSON that 'truneg synonyms judge --fit' writes"
FEATURES = ("table", "embedding", "context")
"""What a detector looks at: 1 or 0 for a pair of the table, :func:`embedding_cosine`, :func:`context_cosine`."""

MODELS = Path(__file__).with_name("acceptance_models")
"""The folder of the fitted models that come with the package, one JSON a set of features."""


def embedding_cosine(embeddings: Tensor, gold: Tensor, candidate: Tensor) -> Tensor:
    """The cosine of two words' input embeddings.

    Args:
        embeddings: shape (V, E), of any floating type.
        gold: int64, of any shape.
        candidate: int64, of a shape that broadcasts with it.

    Returns:
        float32, of their common shape, without gradient; 0 where a vector is zero or not finite.
    """
    table = embeddings.detach()
    return _cosine(table[gold], table[candidate])


def context_cosine(gold: Tensor, candidate: Tensor) -> Tensor:
    """The mean over the encoder's layers of the cosine of the states, with the gold word and with the candidate.

    Args:
        gold: shape (L, N, H), the states of L layers at N places of unmasked sentences.
        candidate: shape (L, N, H), with the candidates at the places.

    Returns:
        float32, shape (N,), without gradient; where a vector is zero or not finite its cosine is 0.
    """
    return _cosine(gold.detach(), candidate.detach()).mean(0)


def _cosine(left: Tensor, right: Tensor) -> Tensor:
    return functional.cosine_similarity(left.float(), right.float(), dim=-1).nan_to_num(nan=0.0).clamp(-1.0, 1.0)


@dataclass(frozen=True)
class AcceptanceModel:
    """A logistic regression: P(accepted) = sigmoid(intercept + sum of coefficient x feature)."""

    coefficients: dict[str, float]  # by feature, of :data:`FEATURES`; for the features as they are, not standardised
    intercept: float  # added to them
    # how it was fitted: data with its checksum, checkpoint, settings, measured quality, versions
    provenance: dict[str, Any] = field(default_factory=dict)
    format: str = FORMAT  # of its file

    def probability(self, features: Mapping[str, Tensor]) -> Tensor:
        """The probability that people accept each candidate.

        Args:
            features: the values of each of its coefficients, shape (N,), of any type; others are not read.

        Returns:
            float32, shape (N,), in [0, 1], without gradient.

        Raises:
            KeyError: a feature is missing.
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
        model = read_json(path, cls, expected=_EXPECTED)
        if model.format != FORMAT or not model.coefficients or not model.coefficients.keys() <= set(FEATURES):
            raise TrueNegError(
                f"{path}: found format {model.format} with features {sorted(model.coefficients)}; expected {_EXPECTED}"
            )
        return model


def model_of(features: Collection[str], path: Path | None) -> AcceptanceModel:
    """The model of a file (``--hc-acceptance-model``), or the package's own, of exactly these features."""
    if path is None:
        return packaged_model(features)
    model = AcceptanceModel.load(path)
    if model.coefficients.keys() != set(features):
        raise TrueNegError(
            f"--hc-acceptance-model {path}: is of {'+'.join(model.coefficients)}, but the detector is "
            f"{'+'.join(sorted(features))}; expected the same; set the detector, or fit another model"
        )
    return model


def packaged_model(features: Collection[str]) -> AcceptanceModel:
    """The model of exactly these features that comes with the package."""
    path = MODELS / model_name(features)
    if not path.is_file():
        found = ", ".join(sorted(model.stem for model in MODELS.glob("*.json")))
        raise TrueNegError(
            f"detectors {'+'.join(sorted(features))}: no acceptance model comes with the package; it has {found}; fit "
            "one with 'truneg synonyms judge --fit'"
        )
    return AcceptanceModel.load(path)


def model_name(features: Collection[str]) -> str:
    """The file name of the model of a set of features: ``table_embedding.json`` and the like."""
    return f"{'_'.join(name for name in FEATURES if name in features)}.json"
