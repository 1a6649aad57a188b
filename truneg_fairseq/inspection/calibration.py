"""Calibration: does a model that is sure to 70 % predict right in 70 % of the cases?"""

from __future__ import annotations

import torch
from torch import Tensor

BINS = 15
"""Of equal width, as in Guo et al. (ICML 2017)."""


def calibration_bins(confidence: Tensor, right: Tensor) -> Tensor:
    """What the expected calibration error needs of some predictions; those of several batches are added up.

    Args:
        confidence: floating, shape (N,), the probability of each prediction, in [0, 1].
        right: bool, shape (N,).

    Returns:
        float64, shape (3, :data:`BINS`): number, sum of the confidences, number of right ones, of the predictions with
        a confidence in ((i - 1) / BINS, i / BINS].
    """
    columns = torch.stack([torch.ones_like(right), right]).double()
    parts = torch.stack([columns[0], confidence.double(), columns[1]])
    places = (confidence.double() * BINS).ceil().long().sub(1).clamp(0, BINS - 1)
    return parts.new_zeros(len(parts), BINS).index_add_(1, places, parts)


def expected_calibration_error(bins: Tensor) -> float:
    """The mean over predictions of the distance between confidence and accuracy of their bin, as a fraction.

    Args:
        bins: float64, shape (3, :data:`BINS`), of :func:`calibration_bins`.

    Returns:
        In [0, 1]; 0 without predictions.
    """
    number, confidence, right = bins
    return float((confidence - right).abs().sum() / number.sum().clamp(min=1))
