"""What an experiment says in sentences: which difference is larger than the noise between seeds."""

from __future__ import annotations

from collections.abc import Sequence

from .comparison import ENOUGH_SEEDS, Comparison, Summary
from .intervals import CONFIDENCE, holm
from .result import BITS, GENERATED, HELD_OUT, Result
from .tables import NOT_SIGNIFICANT

_NAMES = {BITS: "held-out loss", "ece": "calibration error"}
"""The metrics of held-out text that it is about; lower is better."""


def verdict(results: Sequence[Result], baseline: str, control: str | None = None) -> list[str]:
    """Sentences on each arm's held-out loss and calibration against the baseline, and against a control arm.

    The first ones are the answer for each arm by its loss: it helps only where it is better than both, after Holm's
    correction for the number of arms. [] without held-out text.
    """
    arms = list(dict.fromkeys(result.model for result in results))
    rivals = [name for name in dict.fromkeys((baseline, control)) if name in arms]
    compared = {rival: _compared(Comparison(results, rival)) for rival in rivals}
    answers, details = list[str](), list[str]()
    losses = {
        arm: {rival: found[arm][BITS] for rival, found in compared.items() if arm in found and BITS in found[arm]}
        for arm in arms
        if arm not in rivals
    }
    losses = {arm: found for arm, found in losses.items() if found}
    enough = {arm: found for arm, found in losses.items() if all(each.direction is not None for each in found.values())}
    lower, higher = (
        holm({arm: _p_lower(found) for arm, found in enough.items()}),
        holm({arm: _p_higher(found) for arm, found in enough.items()}),
    )
    corrected = f" (Holm's correction for {len(enough)} arms)" if len(enough) > 1 else ""
    for arm, found in losses.items():
        names = " and ".join(found)
        if arm not in enough:
            answers.append(_few(arm, found))
        elif lower[arm] <= 1 - CONFIDENCE:
            answers.append(f"{arm} helps: its held-out loss is lower than that of {names}{corrected}.")
        elif higher[arm] <= 1 - CONFIDENCE:
            worse = " and ".join(rival for rival, each in found.items() if (each.direction or 0) > 0)
            answers.append(f"{arm} does not help: its held-out loss is higher than that of {worse}{corrected}.")
        else:
            open_ = [rival for rival, each in found.items() if (each.direction or 0) >= 0] or list(found)
            needed = "; ".join(f"{rival}: {_needed(found[rival])}" for rival in open_)
            said = f"{arm}: the difference in held-out loss to {' and '.join(open_)} is {NOT_SIGNIFICANT}"
            answers.append(f"{said}{corrected} ({needed}).")
    for arm in arms:
        for rival in rivals:
            if arm not in (rival, baseline) and arm in compared[rival]:
                found_of = "; ".join(_finding(name, each) for name, each in compared[rival][arm].items())
                details.append(f"{arm} against {rival}: {found_of}.")
    return [*answers, *details]


def _compared(comparison: Comparison) -> dict[str, dict[str, Summary]]:
    """By arm and metric, the differences to the comparison's baseline."""
    found: dict[str, dict[str, Summary]] = {}
    for quantity in (*comparison.groups.get(HELD_OUT, ()), *comparison.groups.get(GENERATED, ())):
        metric = quantity.parts[0].metric
        for model in comparison.models if metric in _NAMES else ():
            summary = comparison.summary(model, quantity)
            if summary is not None and summary.differences is not None:
                found.setdefault(model, {})[metric] = summary
    return found


def _p_lower(found: dict[str, Summary]) -> float:
    """That an arm's loss is not lower than that of all rivals."""
    return max(each.p_value if (each.difference or 0) < 0 else 1.0 for each in found.values())  # type: ignore[type-var, return-value]


def _p_higher(found: dict[str, Summary]) -> float:
    """That an arm's loss is not higher than that of any rival; there are as many comparisons as rivals."""
    single = [each.p_value if (each.difference or 0) > 0 else 1.0 for each in found.values()]
    return min(1.0, len(single) * min(single))  # type: ignore[type-var, operator]


def _few(arm: str, losses: dict[str, Summary]) -> str:
    shown = ", ".join(f"{_shown(loss)} to {rival}" for rival, loss in losses.items())
    seeds = min(loss.paired_seeds for loss in losses.values())
    said = f"{seeds} {'seed is' if seeds == 1 else 'seeds are'} no evidence, at least {ENOUGH_SEEDS} are needed."
    return f"{arm}: held-out loss {shown}. {said}"


def _finding(metric: str, summary: Summary) -> str:
    quantity, interval = summary.quantity, summary.interval
    if summary.direction is None or interval is None:
        return f"{_NAMES[metric]} {_shown(summary)}"
    ends = f"[{quantity.format(interval.low, '+')}, {quantity.format(interval.high, '+')}]"
    word = {-1: "better", 1: "worse", 0: NOT_SIGNIFICANT}[summary.direction]
    return f"{_NAMES[metric]} {word} ({_shown(summary)} {ends})"


def _shown(summary: Summary) -> str:
    """The difference with its unit."""
    assert summary.difference is not None
    return f"{summary.quantity.format(summary.difference, '+')} {summary.quantity.unit}"


def _needed(summary: Summary) -> str:
    if summary.seeds_needed is None:
        return "more than 10,000 seeds would be needed"
    more = max(1, summary.seeds_needed - summary.paired_seeds)
    return f"about {more} more {'seed' if more == 1 else 'seeds'} needed"
