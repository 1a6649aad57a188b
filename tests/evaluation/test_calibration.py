"""The expected calibration error against its definition, prediction by prediction."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from truneg_fairseq.evaluation.calibration import BINS, calibration_bins, expected_calibration_error

PREDICTIONS = st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=40)


def by_definition(predictions: list[tuple[float, bool]]) -> float:
    """Guo et al. (2017), equation 3."""
    error = 0.0
    for number in range(BINS):
        inside = [one for one in predictions if max(math.ceil(one[0] * BINS) - 1, 0) == number]
        if inside:
            confidence = math.fsum(p for p, _ in inside) / len(inside)
            accuracy = sum(right for _, right in inside) / len(inside)
            error += len(inside) / len(predictions) * abs(accuracy - confidence)
    return error


@given(PREDICTIONS, PREDICTIONS)
def test_the_error_is_that_of_the_definition(first, second):
    bins = torch.zeros(3, BINS, dtype=torch.float64)
    for batch in (first, second):
        confidence = torch.tensor([p for p, _ in batch], dtype=torch.float64)
        bins += calibration_bins(confidence, torch.tensor([right for _, right in batch], dtype=torch.bool))
    assert expected_calibration_error(bins) == pytest.approx(by_definition(first + second), abs=1e-12)
