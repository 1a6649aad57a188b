"""Fits the logistic regression that makes a probability of acceptance of detectors' scores."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from torch import Tensor

from .. import __version__
from ..objectives.acceptance import AcceptanceModel
from .judged_pairs import JudgedPairs

FOLDS = 5


@dataclass(frozen=True)
class Fit:
    """A fitted model, and what it is worth on targets that it was not fitted on."""

    model: AcceptanceModel  # fitted on all pairs
    # float64, shape (N,), each pair's probability by the model of the folds that its target is not in
    out_of_fold: NDArray[np.float64]
    average_precision: tuple[float, ...]  # of each fold


def folds_by_target(pairs: JudgedPairs, *, folds: int = FOLDS, seed: int = 1) -> NDArray[np.int64]:
    """The fold of every pair, int64, shape (N,); a gold word is in one fold only, in all its sentences."""
    words, number = np.unique(pairs.gold, return_inverse=True)
    return (np.random.default_rng(seed).permutation(len(words)) % folds)[number]


def fit_acceptance(pairs: JudgedPairs, features: Mapping[str, Tensor], provenance: Mapping[str, Any]) -> Fit:
    """Fits a logistic regression on the N pairs, with five folds by target word; a feature has the shape (N,).

    The provenance, of data and checkpoint, goes into the model's file beside what is added here.
    """
    names = tuple(features)
    table = np.stack([features[name].double().numpy() for name in names], axis=1)
    accepted, fold = pairs.accepted, folds_by_target(pairs)
    out_of_fold, precision = np.empty(len(pairs)), []
    for number in range(FOLDS):
        held = fold == number
        model = _fit(names, table[~held], accepted[~held])
        out_of_fold[held] = _probability(model, features, held)
        precision.append(float(average_precision_score(accepted[held], out_of_fold[held])))
    whole = _fit(names, table, accepted)
    facts = {
        **provenance,
        "pairs": len(pairs),
        "targets": len(pairs.places),
        "accepted": round(float(accepted.mean()), 4),
        "folds_average_precision": [round(value, 4) for value in precision],
        "command": shlex.join(["truneg", *(Path(word).name for word in sys.argv[1:])]),  # files without their folders
        "versions": {"truneg_fairseq": __version__, "scikit-learn": sklearn.__version__, "torch": torch.__version__},
    }
    return Fit(AcceptanceModel(whole.coefficients, whole.intercept, facts), out_of_fold, tuple(precision))


def _fit(names: tuple[str, ...], table: NDArray[np.float64], accepted: NDArray[np.bool_]) -> AcceptanceModel:
    """A model of features as they are; the regression itself sees them standardised."""
    mean, deviation = table.mean(axis=0), table.std(axis=0)
    deviation[deviation == 0] = 1.0
    fitted = LogisticRegression(max_iter=1000).fit((table - mean) / deviation, accepted)
    coefficients = fitted.coef_[0] / deviation
    intercept = float(fitted.intercept_[0] - (coefficients * mean).sum())
    return AcceptanceModel({name: float(value) for name, value in zip(names, coefficients, strict=True)}, intercept)


def _probability(
    model: AcceptanceModel, features: Mapping[str, Tensor], chosen: NDArray[np.bool_]
) -> NDArray[np.float64]:
    rows = torch.from_numpy(chosen)
    return model.probability({name: value[rows] for name, value in features.items()}).double().numpy()
