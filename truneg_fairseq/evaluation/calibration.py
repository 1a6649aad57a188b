"""Calibration: does a model that is sure to 70 % predict right in 70 % of the cases?"""

from __future__ import annotations

import torch
from torch import Tensor

BINS = 15
"""Of equal width, as in Guo et al. (ICML 2017)."""


def calibration_bins(confidence: Tensor, right: Tensor) -> Tensor:
    """float64, shape (3, :data:`BINS`): number, sum of the confidences, number of right ones, of the predictions with a
    confidence in ((i - 1) / BINS, i / BINS]. Those of several batches are added up.

    ``confidence`` is the probability of each prediction, in [0, 1], floating, shape (N,); ``right`` bool, shape (N,).
    """
    columns = torch.stack([torch.ones_like(right), right]).double()
    parts = torch.stack([columns[0], confidence.double(), columns[1]])
    places = (confidence.double() * BINS).ceil().long().sub(1).clamp(0, BINS - 1)
    return parts.new_zeros(len(parts), BINS).index_add_(1, places, parts)


def expected_calibration_error(bins: Tensor) -> float:
    """The mean over predictions of the distance of confidence and accuracy of their bin (:func:`calibration_bins`),
    in [0, 1]; 0 without predictions.
    """
    number, confidence, right = bins
    return float((confidence - right).abs().sum() / number.sum().clamp(min=1))
