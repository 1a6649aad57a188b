"""Intervals: their coverage on simulated runs, and what they must not depend on."""

from __future__ import annotations

import runpy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from support.commands import REPOSITORY

from truneg_fairseq.results.intervals import Ratio, p_value, seed_interval, seeds_needed

GAIN = 0.02
VALUES = st.lists(st.floats(-1, 1), min_size=2, max_size=8)


def coverage(intervals) -> float:
    return float(np.mean([interval.low <= GAIN <= interval.high for interval in intervals]))


@pytest.mark.parametrize(("of_seeds", "of_examples"), [(0.03, 0.5), (0.1, 0.1), (0.0, 0.5)])
def test_over_seeds_and_examples_too(of_seeds, of_examples):
    rng = np.random.default_rng(7)
    intervals = []
    for _ in range(300):
        table = GAIN + of_seeds * rng.normal(size=(5, 1)) + of_examples * rng.normal(size=(1, 120))
        table = table + 0.3 * rng.normal(size=(5, 120))
        intervals.append(seed_interval(table))
    assert 0.92 < coverage(intervals) < 0.995
    # Examples alone, or seeds alone, would be sure of themselves too often.
    width = np.median([interval.high - interval.low for interval in intervals])
    ideal = 2 * 1.96 * np.sqrt(of_seeds**2 / 5 + of_examples**2 / 120 + 0.3**2 / 600)
    assert ideal * 0.9 < width < ideal * 1.7


@pytest.mark.parametrize(("seeds", "ratio", "items"), [(2, 1, 100), (2, 4, 30), (2, 10, 100), (1, 0, 3), (1, 0, 10)])
def test_few_seeds_that_agree_by_chance_and_few_items_are_not_trusted(seeds, ratio, items):
    """With one t for both parts (Welch and Satterthwaite's) two seeds hold the truth in 88 to 91 %; with the variance
    over N in place of N - 1 three items do in 91.6 %.
    """
    measured = runpy.run_path(str(REPOSITORY / "benchmarks" / "interval_coverage.py"))["coverage"]
    # 95 % of 1,500 with a standard error of 0.6 %.
    assert measured(seeds, ratio, 1500, items) > 0.938


@given(values=VALUES)
@settings(max_examples=40, deadline=None)
def test_seeds_alone_give_the_paired_t_interval(values):
    values = np.array(values)
    interval = seed_interval(values)
    reach = stats.t.ppf(0.975, len(values) - 1) * stats.sem(values)
    assert interval.mean == pytest.approx(values.mean(), abs=1e-12)
    assert interval.high - interval.mean == pytest.approx(reach, rel=1e-9, abs=1e-12)
    assert interval.mean - interval.low == pytest.approx(interval.high - interval.mean)


@given(values=st.lists(st.integers(-(10**9), 10**9), min_size=2, max_size=8, unique=True))
@settings(max_examples=30, deadline=None)
def test_the_p_value_is_where_the_interval_begins_to_contain_zero(values):
    values = np.array(values) / 1e9  # the square of a number below 1e-154 would be 0
    level = p_value(values)
    if 1e-6 < level < 0.9:
        assert seed_interval(values, confidence=1 - 0.99 * level).contains_zero
        assert not seed_interval(values, confidence=1 - 1.01 * level).contains_zero
        assert level == pytest.approx(stats.ttest_1samp(values, 0).pvalue, rel=1e-4)


def test_one_seed_has_no_interval_and_equal_runs_a_point():
    assert seed_interval(np.array([0.1])) is None
    assert seed_interval(np.full((1, 50), 0.1)) == (pytest.approx(0.1),) * 3, "of one seed over its items"
    interval = seed_interval(np.full((3, 4), 0.25))
    assert interval == (0.25, 0.25, 0.25) and not interval.contains_zero
    assert seed_interval(np.zeros(3)).contains_zero


@pytest.mark.parametrize("share", [0.1, 0.5, 0.95])
@pytest.mark.parametrize("items", [3, 10, 30])
def test_an_interval_of_a_share_holds_the_truth_as_often_as_stated_within_0_and_1(items, share):
    by_right = [Ratio(np.r_[np.ones(right), np.zeros(items - right)], np.ones(items)) for right in range(items + 1)]
    intervals = [ratio.interval() for ratio in by_right]
    assert all(0 <= each.low <= each.mean <= each.high <= 1 for each in intervals)
    assert intervals[0].high > 0.05 and intervals[-1].low < 0.95, "all right is not sure"
    held = [each.low <= share <= each.high for each in intervals]
    assert stats.binom.pmf(np.arange(items + 1), items, share) @ held > 0.945


@pytest.mark.parametrize("items", [3, 10, 30])
def test_an_interval_of_a_ratio_covers_the_true_rate_in_95_percent(items):
    rng, intervals = np.random.default_rng(5), []
    for _ in range(600):
        mistakes = rng.integers(1, 12, size=items)
        corrected = rng.binomial(mistakes, GAIN * 10).astype(float)
        ratio = Ratio(corrected, mistakes.astype(float))
        assert ratio.interval().mean == ratio.value == corrected.sum() / mistakes.sum()
        intervals.append(ratio.interval())
    assert 0.935 < float(np.mean([each.low <= GAIN * 10 <= each.high for each in intervals])) < 0.99


def test_items_that_a_metric_is_not_defined_on_are_no_items():
    assert Ratio(np.zeros(5), np.zeros(5)).interval() is None
    assert Ratio(np.ones(1), np.ones(1)).interval() is None
    assert Ratio(np.zeros(3), np.zeros(3)).value == 0
    few = np.array([0.2, 0.9, 0.4, 0.6])
    padded = Ratio(np.r_[few, np.zeros(90)], np.r_[np.ones(4), np.zeros(90)])
    assert padded.interval() == pytest.approx(Ratio(few, np.ones(4)).interval())
    assert Ratio(0.9 * np.ones(2), np.ones(2)).interval() == pytest.approx((0.9, 0.9, 0.9))


def test_how_many_seeds_tell_a_difference():
    """The known sample sizes of the two-sided paired t test at 5 % with power 80 %."""
    for effect, seeds in ((2, 5), (1, 10), (0.5, 34), (0.2, 199)):
        differences = np.array([effect - 1 / 2**0.5, effect + 1 / 2**0.5])  # their standard deviation is 1
        assert seeds_needed(differences) == seeds_needed(-3 * differences) == seeds
    for open_ in ([0.5], [-1.0, 1.0], [-0.99, 1.0]):  # the last would need more than it looks for
        assert seeds_needed(np.array(open_)) is None
    for second in (0.5, 0.5 + 1e-15):  # where the noncentral t of scipy is NaN
        assert seeds_needed(np.array([0.5, second])) == 2
