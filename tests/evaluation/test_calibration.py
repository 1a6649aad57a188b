"""The expected calibration error against its definition, prediction by prediction."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from truneg_fairseq.evaluation.held_out import BINS, bin_of, calibration_error

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
    over, masked = [], []
    for sequence in filter(None, (first, second)):
        confidence, right = torch.tensor(sequence, dtype=torch.float64).T
        over.append(
            torch.zeros(BINS, dtype=torch.float64).index_add_(0, bin_of(confidence), confidence - right).numpy()
        )
        masked.append(float(len(sequence)))
    found = calibration_error(np.array(over).reshape(-1, BINS), np.array(masked)).value
    assert found == pytest.approx(by_definition(first + second), abs=1e-12)
