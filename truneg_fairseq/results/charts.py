"""Charts as SVG, drawn by Altair: lines over updates, differences between models with their intervals.

Colours alone never tell two series apart: they differ in dashes and points too. The colours are Okabe and Ito's (safe
for the colour-blind), darkened or lightened until they stand out from the page (3 : 1).
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .comparison import Comparison

LIGHT = ("#0072b2", "#c04f00", "#00795a", "#a3487f", "#8a6100", "#3c7fa8")
DARK = ("#56b4e9", "#ff9e4a", "#3fd0a4", "#e79ac7", "#e6b93c", "#9cc9e6")
_INK, _RULE = "#222222", "#dddddd"
# Five of each beside the six colours: only after 30 series two look the same.
_DASHES = [[1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [12, 4]]
_SHAPES = ["circle", "square", "triangle-up", "diamond", "cross"]
_SYMBOLS = {True: {"symbolSize": 70, "symbolStrokeWidth": 0}, False: {"symbolSize": 400}}  # of points, of lines alone
_WIDTH, _HEIGHT = 290, 170
_MOST_POINTS, _MOST_MARKED = 300, 40
_TEXTS, _WIDER = re.compile(r'"(?:label|series|text|title)": "((?:[^"\\]|\\.)*)"'), 1.7  # pixels per character
_NOT_XML = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


class Bar(NamedTuple):
    """A number with its interval, a row of a chart."""

    label: str  # of the quantity
    value: float  # where the point is
    interval: tuple[float, float] | None = None  # its ends; None where it is not known
    series: str = ""  # whose number it is


@dataclass(frozen=True)
class Chart:
    """A chart, not yet drawn."""

    title: str
    drawing: Any  # a chart of Altair, without title

    @property
    def titled(self) -> Any:
        return self.drawing.properties(title=_shown(self.title))

    def file(self) -> str:
        """An SVG file of its own: title, white background, dark ink."""
        return _svg(self.titled, background="white")

    def inline(self) -> str:
        """SVG for a page, whose colours are the page's CSS variables ``--series-0`` ... and ``--rule``."""
        svg = _svg(self.drawing, background="transparent").replace(_INK, "currentColor").replace(_RULE, "var(--rule)")
        for number, color in enumerate(LIGHT):
            svg = svg.replace(color, f"var(--series-{number})")
        return svg


def line_chart(
    title: str, lines: Mapping[str, Sequence[tuple[float, ...]]], *, y_title: str, series: Sequence[str] = ()
) -> Chart:
    """Series over updates by their names: (x, y), or (x, y, low, high) with an interval; one has a finite point.

    ``series`` are the names of this chart and its neighbours, so that a name has the same colour in all; none for its
    own. The single points are drawn where a line has few.
    """
    import altair as alt

    names = list(map(_shown, series or lines))
    rows = [
        {"series": _shown(name), **dict(zip(("x", "y", "low", "high"), point, strict=False))}
        for name, points in lines.items()
        for point in thinned(points)
    ]

    marked = min(map(len, lines.values())) <= _MOST_MARKED
    legend = {"values": list(map(_shown, lines)), **_SYMBOLS[marked]}

    def by_series(channel: Any, values: Sequence[Any], legend: Any = legend) -> Any:
        scale = alt.Scale(domain=names, range=[values[number % len(values)] for number in range(len(names))])
        return channel("series:N", scale=scale, legend=legend)

    x = alt.X("x:Q", title="updates", axis=alt.Axis(tickCount=5))
    quantity, color = {"title": _shown(y_title), "scale": alt.Scale(zero=False)}, by_series(alt.Color, LIGHT)
    chart = alt.Chart(alt.Data(values=rows)).encode(x, color)
    curves = chart.encode(alt.Y("y:Q", **quantity)).mark_line(strokeWidth=1.8)
    layers = [curves.encode(by_series(alt.StrokeDash, _DASHES, None if marked else legend))]
    if marked:
        layers.append(curves.mark_point(filled=True, size=45, opacity=1).encode(by_series(alt.Shape, _SHAPES)))
    if any("low" in row for row in rows):
        area = chart.transform_filter("isValid(datum.low)").mark_area(opacity=0.18)
        layers.insert(0, area.encode(alt.Y("low:Q", **quantity), alt.Y2("high")))
    return Chart(title, alt.layer(*layers).properties(width=_WIDTH, height=_HEIGHT))


def interval_chart(title: str, bars: Sequence[Bar], *, x_title: str) -> Chart:
    """Rows of points with their intervals, around a line at 0; hollow points have none.

    The bars are the rows, from the top; those of one label stand together, named by their series if there are several.
    """
    import altair as alt

    rows = []
    for bar in bars:
        low, high = bar.interval or (bar.value, bar.value)
        row = {"label": _shown(bar.label), "series": _shown(bar.series), "value": bar.value, "low": low, "high": high}
        rows.append(row | {"known": bar.interval is not None, "zero": 0})
    several = len({bar.series for bar in bars}) > 1
    x = {"title": x_title, "axis": alt.Axis(grid=True)}
    y = alt.Y("series:N" if several else "label:N", sort=None, title=None)
    chart = alt.Chart(alt.Data(values=rows))
    filled = alt.condition("datum.known", alt.value(LIGHT[0]), alt.value("transparent"))
    drawing = alt.layer(
        chart.mark_rule(color=_INK).encode(alt.X("min(zero):Q", **x)),
        chart.transform_filter("datum.known")
        .mark_rule(strokeWidth=2, color=LIGHT[0])
        .encode(alt.X("low:Q", **x), alt.X2("high"), y),
        chart.mark_point(size=55, opacity=1, strokeWidth=1.5, color=LIGHT[0]).encode(
            alt.X("value:Q", **x), y, fill=filled
        ),
    ).properties(width=_WIDTH, height=alt.Step(20))
    if several:
        labels = list(dict.fromkeys(row["label"] for row in rows))
        header = alt.Header(title=None, labelOrient="top", labelAnchor="start", labelFontSize=12)
        drawing = drawing.facet(row=alt.Row("label:N", sort=labels, header=header), spacing=6)
        drawing = drawing.resolve_scale(y="independent")
    return Chart(title, drawing)


def stacked(title: str, charts: Sequence[Chart]) -> Chart:
    """Charts below each other, with titles and axes of their own."""
    import altair as alt

    return Chart(title, alt.vconcat(*(chart.titled for chart in charts)).resolve_scale(x="independent"))


def difference_charts(comparison: Comparison) -> list[Chart]:
    """A chart for each table and unit that some model and the baseline have a seed in common for: a difference of 0.05
    bits would not be seen beside one of 2 points.
    """
    found: dict[tuple[str, str], list[Bar]] = {}
    for title, quantities in comparison.groups.items():
        for summary in comparison.summaries(quantities):
            quantity, interval = summary.quantity, None if summary.direction is None else summary.interval
            if summary.difference is not None:
                ends = None if interval is None else (quantity.factor * interval.low, quantity.factor * interval.high)
                bar = Bar(quantity.heading, quantity.factor * summary.difference, ends, summary.model)
                found.setdefault((title, quantity.unit), []).append(bar)
    several = Counter(title for title, _ in found)  # two charts of a page have different titles
    return [
        interval_chart(
            f"{title}: differences to {comparison.baseline}" + (f", {unit}" if several[title] > 1 else ""),
            bars,
            x_title=f"{unit or 'difference'}; mean over seeds, 95 % interval",
        )
        for (title, unit), bars in found.items()
    ]


def thinned(points: Sequence[tuple[float, ...]]) -> list[list[float]]:
    """At most 300 points: the means of equal numbers of neighbours; those that are not finite are left out."""
    finite = [point for point in points if np.isfinite(point[:2]).all()]
    size = max(1, math.ceil(len(finite) / _MOST_POINTS))
    return [np.mean(finite[start : start + size], axis=0).tolist() for start in range(0, len(finite), size)]


def _shown(text: str) -> str:
    """Without characters that XML does not have: at them the converter would end the process."""
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)


def _svg(drawing: Any, *, background: str) -> str:
    import vl_convert

    ink = {f"{part}Color": _INK for part in ("label", "title", "domain", "tick")}
    legend = {"labelColor": _INK, "title": None, "orient": "top", "columns": 1, "labelLimit": 270, "symbolOpacity": 1}
    drawing = drawing.configure(
        background=background,
        font="sans-serif",
        axis={**ink, "gridColor": _RULE, "titleFontWeight": "normal", "labelFontSize": 11, "labelLimit": 260},
        legend=legend,
        header={"labelColor": _INK},
        title={"color": _INK, "fontSize": 14, "anchor": "start", "offset": 12},
        view={"stroke": None},
    )
    specification = drawing.to_dict()
    texts = _TEXTS.findall(json.dumps(specification, ensure_ascii=False))
    # Texts are measured in Arial: in DejaVu Sans, which most Linux browsers have for sans-serif, they are wider.
    room = 5 + _WIDER * max(map(len, texts), default=0)
    specification["padding"] = {"left": room, "right": room, "top": 5, "bottom": 5}
    drawn: str = vl_convert.vegalite_to_svg(json.dumps(specification))
    return drawn
