"""Models measured on the same items: metrics as ratios of sums over items, with paired bootstrap intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from .intervals import Interval, Ratio
from .tables import Table

WITHIN_NOISE = "~"


class Column(NamedTuple):
    """How a metric is shown."""

    name: str  # of the metric
    title: str
    factor: float = 100.0  # from the value to what is shown
    digits: int = 2


def value_table(
    title: str, scores: Mapping[str, Mapping[str, Ratio]], columns: Sequence[Column], *, items: str
) -> Table:
    """The metrics of models by name, and in the last row how many ``items`` are behind each metric."""
    rows = [(name, *(_shown(found.get(each.name), each) for each in columns)) for name, found in scores.items()]
    first = next(iter(scores.values()))
    counted = [str(first[each.name].items) if each.name in first else "-" for each in columns]
    return Table(title, ("", *(each.title for each in columns)), (*rows, (f"({items})", *counted)))


def difference_table(title: str, scores: Mapping[str, Mapping[str, Ratio]], columns: Sequence[Column]) -> Table:
    """The differences of models to the first one, a row for each metric that they have."""
    (_, baseline), *others = scores.items()
    rows = [
        (
            each.title,
            *(
                shown_interval(found[each.name].interval(baseline[each.name]), each) if each.name in found else "-"
                for _, found in others
            ),
        )
        for each in columns
    ]
    return Table(title, ("", *(name for name, _ in others)), tuple(rows))


def interval_table(title: str, scores: Mapping[str, Mapping[str, Ratio]], columns: Sequence[Column]) -> Table:
    """The metrics of models with their intervals, a row for each metric that the first has."""
    first = next(iter(scores.values()))
    rows = [
        (each.title, *(_with_interval(found[each.name].interval(), each) for found in scores.values()))
        for each in columns
        if each.name in first and first[each.name].items
    ]
    return Table(title, ("", *scores), tuple(rows))


def _with_interval(interval: Interval | None, column: Column) -> str:
    if interval is None:
        return "-"
    mean, low, high = (f"{column.factor * value:.{column.digits}f}" for value in interval)
    return f"{mean} [{low}, {high}]"


def _shown(ratio: Ratio | None, column: Column) -> str:
    return (
        "-"
        if ratio is None or not ratio.items or not np.isfinite(ratio.value)
        else f"{column.factor * ratio.value:.{column.digits}f}"
    )


def shown_interval(interval: Interval | None, column: Column) -> str:
    """A difference with its interval, and a mark where the interval contains 0."""
    if interval is None:
        return "-"
    mark = f" {WITHIN_NOISE}" if interval.contains_zero else ""
    mean, low, high = (f"{column.factor * value:+.{column.digits}f}" for value in interval)
    return f"{mean} [{low}, {high}]{mark}"
