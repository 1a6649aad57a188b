"""The metrics against hand-made cases and against obvious computations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from truneg_fairseq.evaluation.lexsub import (
    f_parts,
    generalized_average_precision,
    precision_at,
    recall_parts,
)
from truneg_fairseq.results.intervals import Ratio


def obvious_gap(gains):
    def total(ordered):
        found = 0.0
        for index, gain in enumerate(ordered):
            if gain > 0:
                found += sum(ordered[: index + 1]) / (index + 1)
        return found

    return total(gains) / total(sorted(gains, reverse=True))


@given(st.lists(st.integers(0, 10), min_size=1, max_size=12).filter(any))
def test_gap_is_the_formula(gains):
    found = generalized_average_precision(np.array(gains, dtype=np.float64))
    assert found == pytest.approx(obvious_gap(gains))
    assert 0 < found <= 1 + 1e-12


def test_gap_by_hand():
    # 0 + (0 + 4) / 2 + (0 + 4 + 2) / 3 over 4 + (4 + 2) / 2
    assert generalized_average_precision(np.array([0.0, 4.0, 2.0])) == pytest.approx((2 + 2) / (4 + 3))
    assert generalized_average_precision(np.array([3.0, 3.0, 0.0])) == 1  # ties in either order
    assert np.isnan(generalized_average_precision(np.zeros(2)))


def test_f_is_the_harmonic_mean_of_sums_over_targets():
    outputs, golds = [[1, 2, 3], list(range(10))], [{1, 9}, set(range(5, 25))]
    parts = [f_parts(output, gold) for output, gold in zip(outputs, golds, strict=True)]
    hits, given_, wanted = 1 + 5, 3 + 10, 2 + 10  # of 20 right words ten count
    precision, recall = hits / given_, hits / wanted
    found = sum(part[0] for part in parts) / sum(part[1] for part in parts)
    assert found == pytest.approx(2 * precision * recall / (precision + recall))


def test_precision_and_recall_at():
    assert precision_at([4, 5, 6], {4, 6}, 1) == 1
    assert precision_at([4, 5, 6], {4, 6}, 3) == pytest.approx(2 / 3)
    assert precision_at([4], {4}, 3) == pytest.approx(1 / 3)
    assert recall_parts(list(range(20)), {9, 10}) == (0.5, 1.0)
    assert recall_parts([1], set()) == (0.0, 0.0)


def test_intervals_are_paired():
    rng = np.random.default_rng(3)
    noise, ones = rng.random(200), np.ones(200)
    low, high = Ratio(noise, ones), Ratio(noise + 0.01, ones)
    apart = high.interval(low)
    assert apart.mean == pytest.approx(0.01)
    assert apart.low == pytest.approx(0.01)
    assert apart.high == pytest.approx(0.01)
    alone = low.interval()
    half = 1.96 * noise.std() / np.sqrt(200)
    assert alone.high - alone.low == pytest.approx(2 * half, rel=0.1)
    assert Ratio(np.zeros(3), np.zeros(3)).value == 0
