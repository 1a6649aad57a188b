"""The verdict of an experiment: which differences are significant, and how many more seeds are needed."""

from __future__ import annotations

import numpy as np
import pytest

from truneg_fairseq.results.comparison import Comparison
from truneg_fairseq.results.intervals import holm, p_value
from truneg_fairseq.results.result import HELD_OUT, Metric, Result
from truneg_fairseq.results.tables import verdict

NOISE = (0.0, 0.02, 0.05)


def results(**losses: tuple[float, ...]) -> list[Result]:
    """Held-out losses in bits of each arm, by seed."""
    shown = {"bits": Metric("bits", False, "bits"), "ece": Metric("ECE", False)}
    return [
        Result(model=arm, task=HELD_OUT, seed=seed, metrics={"bits": bits, "ece": 0.02}, shown=shown)
        for arm, row in losses.items()
        for seed, bits in enumerate(row, start=1)
    ]


def test_a_lower_loss_than_baseline_and_control_helps():
    found = results(
        baseline=NOISE, control=[each - 0.1 for each in NOISE], treatment=[each - 0.201 for each in (0.0, 0.021, 0.05)]
    )
    answer, *details = verdict(found, "baseline", "control")
    assert answer == "treatment helps: its held-out loss is lower than that of baseline and control."
    against = [line.partition(":")[0] for line in details]
    assert against == ["control against baseline", "treatment against baseline", "treatment against control"]
    assert details[0] == (
        "control against baseline: held-out loss better (-0.100 bits [-0.100, -0.100]); calibration error not "
        "significant (+0.00 points [+0.00, +0.00])."
    )


def test_the_verdict_names_how_many_more_seeds_are_needed():
    found = results(baseline=NOISE, control=(-0.3, -0.28, -0.25), treatment=(-0.31, -0.28, -0.27))
    (quantity,) = [each for each in Comparison(found).groups[HELD_OUT] if each.title == "bits"]
    summary = Comparison(found, "control").summary("treatment", quantity)
    more = summary.seeds_needed - 3
    assert more > 1
    assert verdict(found, "baseline", "control")[0] == (
        f"treatment: the difference in held-out loss to control is not significant (control: about {more} more seeds "
        "needed)."
    )


def test_a_verdict_of_many_arms_is_corrected_for_their_number():
    """Of twelve arms that differ from the baseline by noise alone, one "helps" in one of five experiments."""
    random = np.random.default_rng(1)
    helps = plain = 0
    for _ in range(60):
        base, *arms = random.normal(size=(13, 5))
        found = results(baseline=tuple(base), **{f"a{n}": tuple(row) for n, row in enumerate(arms)})
        helps += any(" helps" in line for line in verdict(found, "baseline"))
        plain += any((row - base).mean() < 0 and p_value(row - base) < 0.05 for row in np.array(arms))
    assert helps <= 3 and plain >= 8
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03}) == pytest.approx({"a": 0.03, "b": 0.06, "c": 0.06})
    arms = {f"a{n}": tuple(each - 1 for each in NOISE[::-1]) for n in range(3)}
    assert "a0 helps: its held-out loss is lower than that of baseline (Holm's correction for 3 arms)." in verdict(
        results(baseline=NOISE, **arms), "baseline"
    )


def test_a_higher_loss_does_not_help():
    found = results(baseline=NOISE, worse=[each + 0.1 for each in NOISE])
    assert verdict(found, "baseline")[0] == "worse does not help: its held-out loss is higher than that of baseline."


def test_two_seeds_say_nothing():
    found = results(baseline=NOISE[:2], other=(-1.0, -1.0))
    assert verdict(found, "baseline") == [
        "other: held-out loss -1.010 bits to baseline. 2 seeds are no evidence, at least 3 are needed.",
        "other against baseline: held-out loss -1.010 bits; calibration error +0.00 points.",
    ]


def test_without_held_out_text_there_is_no_verdict():
    found = [Result(model=arm, task="CoLA", seed=1, metrics={"matthews": 0.5}) for arm in ("a", "b")]
    assert verdict(found, "a") == []
