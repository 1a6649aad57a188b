"""Differences between models with their intervals, as charts."""

from __future__ import annotations

from ..errors import TrueNegError
from ..pages.charts import Bar, Chart, interval_chart
from .comparison import Comparison, Quantity


def difference_charts(comparison: Comparison) -> list[Chart]:
    """A chart a table of the paper that some model and the baseline have a seed in common for."""
    return [_chart(f"{title}: differences to {comparison.baseline}", bars) for title, bars in _groups(comparison)]


def difference_chart(comparison: Comparison) -> Chart:
    """All differences in one chart."""
    bars = [
        Bar(f"{title} {bar.label}", bar.value, bar.interval, bar.series)
        for title, group in _groups(comparison)
        for bar in group
    ]
    if not bars:
        raise TrueNegError(
            f"--picture: no model has a task of the tables and a seed in common with the baseline {comparison.baseline}"
        )
    return _chart(f"Differences to {comparison.baseline}", bars)


def _chart(title: str, bars: list[Bar]) -> Chart:
    x_title = "points (bits: bits a token); mean over seeds, 95 % interval; hollow: none"
    return interval_chart(title, bars, x_title=x_title)


def _groups(comparison: Comparison) -> list[tuple[str, list[Bar]]]:
    groups = [(title, _bars(comparison, quantities)) for title, quantities in comparison.groups()]
    return [(title, bars) for title, bars in groups if bars]


def _bars(comparison: Comparison, quantities: list[Quantity]) -> list[Bar]:
    bars = []
    for quantity in quantities:
        for model in comparison.models:
            summary = comparison.summary(model, quantity)
            if summary is None or summary.difference is None:
                continue
            interval = summary.interval
            factor = quantity.factor
            ends = None if interval is None else (factor * interval.low, factor * interval.high)
            bars.append(Bar(quantity.title, factor * summary.difference, ends, model))
    return bars
