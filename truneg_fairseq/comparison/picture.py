"""A picture of differences with their intervals: an SVG file of a few lines, so that no plotting library is needed."""

from __future__ import annotations

import math
from collections.abc import Callable
from html import escape

from ..errors import TrueNegError
from .comparison import ATTACKS, Comparison, Summary

_WIDTH, _LEFT, _RIGHT, _TOP, _ROW = 560, 280, 40, 60, 22
_CLEAR, _WITHIN_NOISE = "#4477aa", "#999999"
_TICKS = 6


def picture(comparison: Comparison) -> str:
    """The differences to the baseline as an SVG document; grey where the interval holds 0, hollow where there is none.

    Raises:
        TrueNegError: no model has a seed in common with the baseline.
    """
    rows = _rows(comparison)
    if not rows:
        raise TrueNegError(
            f"--picture: no model has a task and a seed in common with the baseline {comparison.baseline}"
        )
    reach = max(100 * abs(end) for _, summary in rows for end in _ends(summary)) or 1.0
    step = _nice(2 * reach / _TICKS)
    edge = step * math.ceil(reach / step)
    bottom = _TOP + _ROW * len(rows)
    width, height = _LEFT + _WIDTH + _RIGHT, bottom + 60

    def x_of(value: float) -> float:
        return _LEFT + _WIDTH * (value + edge) / (2 * edge)

    shapes = []
    for index in range(-round(edge / step), round(edge / step) + 1):
        x = x_of(index * step)
        shapes.append(f'<path d="M{x:.1f} {_TOP}V{bottom}" stroke="{"black" if index == 0 else "#dddddd"}"/>')
        shapes.append(_label(x, bottom + 18, f"{index * step:+g}" if index else "0"))
    for place, (title, summary) in enumerate(rows):
        shapes += _drawn(title, summary, _TOP + _ROW * (place + 0.5), x_of)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" font-family="sans-serif">',
            f'<rect width="{width}" height="{height}" fill="white"/>',
            _label(width / 2, 24, f"Differences to {comparison.baseline}", size=16),
            _label(width / 2, 44, "mean over seeds, 95 % interval; grey: holds 0; hollow: no interval"),
            *shapes,
            _label(_LEFT + _WIDTH / 2, bottom + 42, "points"),
            "</svg>",
            "",
        ]
    )


def _rows(comparison: Comparison) -> list[tuple[str, Summary]]:
    """All differences with their labels."""
    groups = [("", comparison.glue), ("SQuAD ", comparison.squad)]
    groups += [(f"{task} ", comparison.attack(task)) for task in ATTACKS]
    rows = []
    for group, quantities in groups:
        for quantity in quantities:
            for model in comparison.models:
                summary = comparison.summary(model, quantity)
                if summary is not None and summary.difference is not None:
                    rows.append((f"{group}{quantity.title}: {model} (n = {summary.pairs})", summary))
    return rows


def _ends(summary: Summary) -> tuple[float, float]:
    assert summary.difference is not None
    interval = summary.interval
    return (summary.difference, summary.difference) if interval is None else (interval.low, interval.high)


def _drawn(title: str, summary: Summary, y: float, x_of: Callable[[float], float]) -> list[str]:
    assert summary.difference is not None
    x = x_of(100 * summary.difference)
    shapes = [_label(_LEFT - 10, y + 4, title, anchor="end")]
    if summary.interval is None:
        return [*shapes, f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="white" stroke="{_WITHIN_NOISE}"/>']
    color = _WITHIN_NOISE if summary.interval.holds_zero else _CLEAR
    low, high = (x_of(100 * end) for end in _ends(summary))
    shapes.append(f'<path d="M{low:.1f} {y:.1f}H{high:.1f}" stroke="{color}" stroke-width="2"/>')
    return [*shapes, f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{color}"/>']


def _nice(step: float) -> float:
    """The next of 1, 2, 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= step * (1 - 1e-9))


def _label(x: float, y: float, text: str, size: int = 12, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}">{escape(text)}</text>'
