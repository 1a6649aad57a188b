"""The verdict of an experiment: what the seeds tell apart, and how many more would."""

from __future__ import annotations

from truneg_fairseq.results.comparison import HELD_OUT, Comparison
from truneg_fairseq.results.result import Result
from truneg_fairseq.results.verdict import verdict

NOISE = (0.0, 0.02, 0.05)


def results(**losses: tuple[float, ...]) -> list[Result]:
    """Held-out losses in bits of each arm, by seed."""
    same = {"accuracy": 0.5, "ece": 0.02, "hc_pred": 0.0, "hc_iter": 0.0}
    return [
        Result(model=arm, task=HELD_OUT, seed=seed, metrics={"bits": bits, **same})
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
        "control against baseline: held-out loss better (-0.100 bits [-0.100, -0.100]); calibration error not told "
        "apart (+0.00 points [+0.00, +0.00]; no number of seeds that anybody trains would tell)."
    )


def test_the_verdict_names_how_many_more_seeds_would_tell_an_arm_from_its_control():
    found = results(baseline=NOISE, control=(-0.3, -0.28, -0.25), treatment=(-0.31, -0.28, -0.27))
    (quantity,) = [each for each in Comparison(found).groups[HELD_OUT] if each.title == "bits"]
    summary = Comparison(found, "control").summary("treatment", quantity)
    more = summary.seeds_to_tell - 3
    assert more > 1
    assert verdict(found, "baseline", "control")[0] == (
        "treatment is not told apart from control by its held-out loss "
        f"(control: about {more} more seeds would be needed)."
    )


def test_a_higher_loss_does_not_help():
    found = results(baseline=NOISE, worse=[each + 0.1 for each in NOISE])
    assert verdict(found, "baseline")[0] == "worse does not help: its held-out loss is higher than that of baseline."


def test_two_seeds_say_nothing():
    found = results(baseline=NOISE[:2], other=(-1.0, -1.0))
    assert verdict(found, "baseline") == [
        "other: held-out loss -1.010 bits to baseline. 2 seeds say nothing, at least 3 are needed.",
        "other against baseline: held-out loss -1.010 bits; calibration error +0.00 points.",
    ]


def test_without_held_out_text_there_is_no_verdict():
    found = [Result(model=arm, task="CoLA", seed=1, metrics={"matthews": 0.5}) for arm in ("a", "b")]
    assert verdict(found, "a") == []
