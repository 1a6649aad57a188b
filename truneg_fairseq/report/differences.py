"""Differences between models with their intervals, as charts."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import TrueNegError
from ..results.comparison import Comparison, Quantity
from .charts import Bar, Chart, interval_chart


def difference_charts(comparison: Comparison) -> list[Chart]:
    """A chart for each of the paper's tables that some model and the baseline have a seed in common for."""
    groups = {title: _bars(comparison, quantities) for title, quantities in comparison.groups.items()}
    return [_chart(f"{title}: differences to {comparison.baseline}", bars) for title, bars in groups.items() if bars]


def difference_chart(comparison: Comparison) -> Chart:
    """All differences in one chart."""
    bars = [bar for title, group in comparison.groups.items() for bar in _bars(comparison, group, prefix=f"{title} ")]
    if not bars:
        raise TrueNegError(
            f"--picture: no model has a task of the tables and a seed in common with the baseline {comparison.baseline}"
        )
    return _chart(f"Differences to {comparison.baseline}", bars)


def _chart(title: str, bars: list[Bar]) -> Chart:
    return interval_chart(title, bars, x_title="points (bits: bits per token); mean over seeds, 95 % interval")


def _bars(comparison: Comparison, quantities: Sequence[Quantity], prefix: str = "") -> list[Bar]:
    bars = []
    for quantity in quantities:
        for model in comparison.models:
            summary = comparison.summary(model, quantity)
            if summary is None or summary.difference is None:
                continue
            factor, interval = quantity.factor, None if summary.direction is None else summary.interval
            ends = None if interval is None else (factor * interval.low, factor * interval.high)
            bars.append(Bar(f"{prefix}{quantity.title}", factor * summary.difference, ends, model))
    return bars
