"""GLUE's metrics over a whole set, by scikit-learn and scipy. Values are fractions, not percent."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray


def classification_metrics(predictions: NDArray[Any], labels: NDArray[Any], classes: int) -> dict[str, float]:
    """Accuracy, Matthews correlation and, of two classes, F1 of class 1; class ids have shape (N,), N >= 1.

    Matthews correlation is 0 where all predictions or all labels are the same; F1 is 0 without a true positive.
    """
    from sklearn.metrics import f1_score, matthews_corrcoef

    metrics = {"accuracy": float(np.mean(predictions == labels))}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a single label, for which 0 is documented here
        metrics["matthews"] = float(matthews_corrcoef(labels, predictions))
    if classes == 2:
        metrics["f1"] = float(f1_score(labels, predictions, labels=[0, 1], zero_division=0))
    return metrics


def regression_metrics(predictions: NDArray[Any], scores: NDArray[Any]) -> dict[str, float]:
    """Correlation of Pearson and of Spearman (ties have their mean rank) of predicted and right scores, shape (N,).

    They are 0 where either side is constant, and NaN where a prediction is.
    """
    from scipy.stats import pearsonr, spearmanr

    predictions, scores = predictions.astype(np.float64), scores.astype(np.float64)
    if not np.isfinite(predictions).all():
        return {"pearson": float("nan"), "spearman": float("nan")}
    if np.ptp(predictions) == 0 or np.ptp(scores) == 0:
        return {"pearson": 0.0, "spearman": 0.0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of nearly constant predictions
        return {
            "pearson": float(pearsonr(predictions, scores).statistic),
            "spearman": float(spearmanr(predictions, scores).statistic),
        }
