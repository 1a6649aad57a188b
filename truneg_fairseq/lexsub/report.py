"""Scores as tables."""

from __future__ import annotations

from collections.abc import Mapping

from ..comparison.statistics import Interval
from ..comparison.tables import WITHIN_NOISE, Table
from .evaluation import CANDIDATES, METRICS, MODES, Scores

CEILING = "ceiling of the vocabulary"
NOTES = (
    "Percent. Fa, Fc: F^10 of accepted and of conceivable words, lenient and strict. p(acc.): the probability that all",
    "forms of accepted words get. [..]: 95 % bootstrap over targets, of differences paired by target. "
    f"{WITHIN_NOISE} the interval holds 0.",
)
_TITLES = {"all": "all candidates", "people": "the people's candidates alone"}


def tables(scores: Mapping[str, Scores], ceiling: Scores) -> list[Table]:
    """The metrics of models by name, and where there are several their differences to the first."""
    made = []
    for mode in MODES:
        for candidates in CANDIDATES:
            rows = [(name, *_row(found, mode, candidates)) for name, found in scores.items()]
            rows.append((CEILING, *_row(ceiling, "ceiling", candidates)))
            made.append(Table(f"Target {mode}, {_TITLES[candidates]}", ("", *METRICS.values()), tuple(rows)))
    if len(scores) > 1:
        made += [_differences(scores, mode, candidates) for mode in MODES for candidates in CANDIDATES]
    return made


def _row(scores: Scores, mode: str, candidates: str) -> list[str]:
    metrics = scores.metrics[mode, candidates]
    return [f"{100 * metrics[name].value:.2f}" for name in METRICS]


def _differences(scores: Mapping[str, Scores], mode: str, candidates: str) -> Table:
    (first, baseline), *others = scores.items()
    rows = [
        (
            title,
            *(
                described(found.metrics[mode, candidates][name].interval(baseline.metrics[mode, candidates][name]))
                for _, found in others
            ),
        )
        for name, title in METRICS.items()
    ]
    title = f"Differences to {first}: target {mode}, {_TITLES[candidates]}"
    return Table(title, ("", *(name for name, _ in others)), tuple(rows))


def described(interval: Interval) -> str:
    """A difference with its interval, in percent."""
    mark = f" {WITHIN_NOISE}" if interval.holds_zero else ""
    return f"{100 * interval.mean:+.2f} [{100 * interval.low:+.2f}, {100 * interval.high:+.2f}]{mark}"
