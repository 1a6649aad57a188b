"""What an experiment says in sentences: which difference is larger than the noise between seeds."""

from __future__ import annotations

from collections.abc import Sequence

from .comparison import GENERATED, HELD_OUT, Comparison, Summary
from .result import BITS, Result
from .tables import ENOUGH_PAIRS

_YARDSTICKS = {BITS: ("held-out loss", "bits"), "ece": ("calibration error", "points")}
"""Metrics of held-out text with their names and units; lower is better."""


def verdict(results: Sequence[Result], baseline: str, control: str | None = None) -> list[str]:
    """Sentences on each arm's held-out loss and calibration against the baseline, and against a control arm.

    The first ones are the answer for each arm by its loss: it helps only where it is better than both. [] without
    held-out text.
    """
    answers, details = [], []
    models = {each.model for each in results}
    rivals = [name for name in dict.fromkeys((baseline, control)) if name in models]
    compared = {rival: _compared(Comparison(results, rival)) for rival in rivals}
    for arm in dict.fromkeys(result.model for result in results):
        if arm in rivals and arm != control:
            continue
        against = [rival for rival in rivals if rival != arm and arm in compared[rival]]
        losses = {rival: compared[rival][arm][BITS] for rival in against if BITS in compared[rival][arm]}
        if losses and arm != control:
            answers.append(_answer(arm, losses))
        details += [
            f"{arm} against {rival}: {'; '.join(map(_finding, compared[rival][arm].values()))}." for rival in against
        ]
    return [*answers, *details]


def _compared(comparison: Comparison) -> dict[str, dict[str, Summary]]:
    """By arm and metric, the differences to the comparison's baseline."""
    found: dict[str, dict[str, Summary]] = {}
    for quantity in (*comparison.groups.get(HELD_OUT, ()), *comparison.groups.get(GENERATED, ())):
        metric = quantity.parts[0].metric
        for model in comparison.models if metric in _YARDSTICKS else ():
            summary = comparison.summary(model, quantity)
            if summary is not None and summary.difference is not None:
                found.setdefault(model, {})[metric] = summary
    return {model: dict(sorted(metrics.items())) for model, metrics in found.items()}


def _answer(arm: str, losses: dict[str, Summary]) -> str:
    few = [f"{_shown(loss)} to {rival}" for rival, loss in losses.items() if loss.pairs < ENOUGH_PAIRS]
    if few:
        seeds = min(loss.pairs for loss in losses.values())
        return (
            f"{arm}: held-out loss {', '.join(few)}. {seeds} {'seed says' if seeds == 1 else 'seeds say'} nothing, at "
            f"least {ENOUGH_PAIRS} are needed."
        )
    worse = [rival for rival, loss in losses.items() if _direction(loss) > 0]
    open_ = [rival for rival, loss in losses.items() if _direction(loss) == 0]
    if worse:
        return f"{arm} does not help: its held-out loss is higher than that of {' and '.join(worse)}."
    if open_:
        needed = "; ".join(f"{rival}: {_needed(losses[rival])}" for rival in open_)
        return f"{arm} is not told apart from {' and '.join(open_)} by its held-out loss ({needed})."
    return f"{arm} helps: its held-out loss is lower than that of {' and '.join(losses)}."


def _finding(summary: Summary) -> str:
    quantity = summary.quantity
    name, _ = _YARDSTICKS[quantity.parts[0].metric]
    if summary.interval is None or summary.pairs < ENOUGH_PAIRS:
        return f"{name} {_shown(summary)}"
    ends = f"[{quantity.shown(summary.interval.low, '+')}, {quantity.shown(summary.interval.high, '+')}]"
    told = {-1: "better", 1: "worse", 0: "not told apart"}[_direction(summary)]
    return f"{name} {told} ({_shown(summary)} {ends}" + (f"; {_needed(summary)})" if told == "not told apart" else ")")


def _shown(summary: Summary) -> str:
    """The difference with its unit."""
    assert summary.difference is not None
    return f"{summary.quantity.shown(summary.difference, '+')} {_YARDSTICKS[summary.quantity.parts[0].metric][1]}"


def _direction(summary: Summary) -> int:
    """-1 for a lower value, 1 for a higher one, 0 where seeds differ as much."""
    if summary.interval is None or summary.pairs < ENOUGH_PAIRS or summary.interval.holds_zero:
        return 0
    return -1 if summary.interval.mean < 0 else 1


def _needed(summary: Summary) -> str:
    if summary.seeds_to_tell is None:
        return "no number of seeds that anybody trains would tell"
    more = max(1, summary.seeds_to_tell - summary.pairs)
    return f"about {more} more {'seed' if more == 1 else 'seeds'} would be needed"
