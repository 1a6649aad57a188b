"""Differences between models with their intervals, as charts."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import TrueNegError
from ..results.comparison import Comparison, Quantity
from .charts import Bar, Chart, interval_chart, stacked


def difference_charts(comparison: Comparison) -> list[Chart]:
    """A chart for each table and unit that some model and the baseline have a seed in common for."""
    groups = {title: _bars(comparison, quantities) for title, quantities in comparison.groups.items()}
    return [
        _chart(f"{title}: differences to {comparison.baseline}", bars, unit)
        for title, by_unit in groups.items()
        for unit, bars in by_unit.items()
    ]


def difference_chart(comparison: Comparison) -> Chart:
    """All differences in one picture, an axis for each unit."""
    by_unit: dict[str, list[Bar]] = {}
    for title, group in comparison.groups.items():
        for unit, bars in _bars(comparison, group, prefix=f"{title} ").items():
            by_unit.setdefault(unit, []).extend(bars)
    if not by_unit:
        raise TrueNegError(
            f"--picture: no model has a task of the tables and a seed in common with the baseline {comparison.baseline}"
        )
    title = f"Differences to {comparison.baseline}"
    return stacked(title, [_chart(title, bars, unit) for unit, bars in by_unit.items()])


def _chart(title: str, bars: list[Bar], unit: str) -> Chart:
    return interval_chart(title, bars, x_title=f"{unit or 'difference'}; mean over seeds, 95 % interval")


def _bars(comparison: Comparison, quantities: Sequence[Quantity], prefix: str = "") -> dict[str, list[Bar]]:
    """By unit: a difference of 0.05 bits would not be seen beside one of 2 points."""
    found: dict[str, list[Bar]] = {}
    for quantity in quantities:
        for model in comparison.models:
            summary = comparison.summary(model, quantity)
            if summary is None or summary.difference is None:
                continue
            factor, interval = quantity.factor, None if summary.direction is None else summary.interval
            ends = None if interval is None else (factor * interval.low, factor * interval.high)
            bar = Bar(f"{prefix}{quantity.heading.strip()}", factor * summary.difference, ends, model)
            found.setdefault(quantity.unit, []).append(bar)
    return found
