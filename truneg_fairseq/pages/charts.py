"""Charts as SVG, drawn by Vega-Lite (vl-convert): lines over updates, intervals, bars.

Colours alone never tell two series apart: they differ in dashes and points too. The colours are Okabe and Ito's (safe
for the colour-blind), darkened or lightened until they stand out from the page (3 : 1).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import TrueNegError
from ..files import replacing_text

LIGHT = ("#0072b2", "#c04f00", "#00795a", "#a3487f", "#8a6100", "#3c7fa8")
DARK = ("#56b4e9", "#ff9e4a", "#3fd0a4", "#e79ac7", "#e6b93c", "#9cc9e6")
_DASHES: tuple[list[int], ...] = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3])
_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
_WIDTH, _HEIGHT, _ROW, _GAP = 290, 170, 20, 6
_MOST_POINTS = 300
_NOT_XML = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
# Vega-Lite looks names up in JavaScript objects, which have these already.
_OF_ALL_OBJECTS = frozenset(
    "__proto__ constructor hasOwnProperty isPrototypeOf propertyIsEnumerable toLocaleString toString valueOf".split()
)
_SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"


def require_svg(path: Path) -> None:
    """Refuses a picture of another format."""
    if path.suffix.lower() != ".svg":
        raise TrueNegError(f"--picture {path}: expected a file name that ends with .svg")


@dataclass(frozen=True)
class Line:
    """A series over updates."""

    name: str  # in the legend
    points: Sequence[tuple[float, float]]  # (x, y); those that are not finite are left out
    band: Sequence[tuple[float, float, float]] = ()  # (x, low, high) of intervals
    marked: bool = False  # whether the single points are drawn too


@dataclass(frozen=True)
class Bar:
    """A number with its interval, a row of a chart."""

    label: str  # of the quantity
    value: float  # where the point is
    interval: tuple[float, float] | None = None  # its ends; None where it is not known
    series: str = ""  # whose number it is


@dataclass(frozen=True)
class Chart:
    """A chart, not yet drawn."""

    title: str  # what it shows, as a sentence without its point
    spec: dict[str, Any]  # of Vega-Lite, without colours
    series: tuple[str, ...] = ()  # the names that colours stand for, in their order

    def inline(self) -> str:
        """SVG for a page, whose colours are the page's CSS variables ``--series-0`` ... and ``--ink``."""
        colors = [f"var(--series-{index})" for index in range(len(LIGHT))]
        return self._draw(colors, ink="currentColor", rule="var(--rule)", extra={"background": None})

    def file(self) -> str:
        """An SVG file of its own: title, white background, dark ink."""
        extra = {"background": "white", "title": {"text": self.title, "anchor": "start"}}
        return self._draw(list(LIGHT), ink="#222222", rule="#dddddd", extra=extra)

    def write(self, path: Path) -> None:
        """Writes :meth:`file`."""
        require_svg(path)
        drawn = self.file()
        with replacing_text(path) as stream:
            stream.write(drawn)

    def _draw(self, colors: list[str], *, ink: str, rule: str, extra: dict[str, Any]) -> str:
        converter = _converter()
        config = {
            "font": "sans-serif",
            "view": {"stroke": None},
            "axis": {
                **{"labelColor": ink, "titleColor": ink, "domainColor": ink, "tickColor": ink, "gridColor": rule},
                **{"titleFontWeight": "normal", "labelFontSize": 11, "titleFontSize": 12, "labelLimit": 260},
            },
            "legend": {
                **{"labelColor": ink, "title": None, "orient": "top", "labelLimit": 270, "labelFontSize": 12},
                **{"columns": 1, "symbolStrokeWidth": 2, "symbolSize": 60, "symbolOpacity": 1, "symbolType": "stroke"},
            },
            "header": {"labelColor": ink},
            "rule": {"color": ink},
            "text": {"color": ink},
            "title": {"color": ink, "fontSize": 14, "fontWeight": "bold", "offset": 12},
            "range": {"category": [colors[index % len(colors)] for index in range(max(1, len(self.series)))]},
        }
        drawn: str = converter.vegalite_to_svg(_drawable({"$schema": _SCHEMA, **self.spec, **extra, "config": config}))
        return drawn


def line_chart(
    title: str, lines: Sequence[Line], *, y_title: str, x_title: str = "updates", series: Sequence[str] = ()
) -> Chart:
    """Series over updates; bands where they have intervals.

    Args:
        title: of the chart.
        lines: at least one of them with a finite point; a name that occurs twice is one series.
        y_title: the quantity with its unit.
        x_title: the other quantity.
        series: the names of this chart and its neighbours, so that a name has the same colour in all; none for its own.
    """
    present = list(dict.fromkeys(line.name for line in lines))
    names = tuple(series or present)
    color = _by_series(names, present)
    dashes = {"scale": {"domain": list(names), "range": _cycled(_DASHES, len(names))}}
    scales = {"color": color, "strokeDash": {**color, **dashes}}
    position = {
        "x": {"field": "x", "type": "quantitative", "title": x_title, "axis": {"tickCount": 5}},
        "y": {"field": "y", "type": "quantitative", "title": y_title, "scale": {"zero": False}},
    }
    layers: list[dict[str, Any]] = []
    bands = [row for line in lines for row in _band_rows(line)]
    if bands:
        ends = {
            "y": {"field": "low", "type": "quantitative", "title": y_title, "scale": {"zero": False}},
            "y2": {"field": "high"},
        }
        layers.append(
            {
                "data": {"values": bands},
                "mark": {"type": "area", "opacity": 0.18},
                "encoding": {"x": position["x"], **ends, "color": color},
            }
        )
    layers.append(
        {
            "data": {"values": [row for line in lines for row in _line_rows(line)]},
            "mark": {"type": "line", "strokeWidth": 1.8},
            "encoding": {**position, **scales},
        }
    )
    marked = [row for line in lines if line.marked for row in _line_rows(line)]
    if marked:
        shape = {**color, "scale": {"domain": list(names), "range": _cycled(_SHAPES, len(names))}}
        layers.append(
            {
                "data": {"values": marked},
                "mark": {"type": "point", "filled": True, "size": 45, "opacity": 1},
                "encoding": {**position, "color": color, "shape": shape},
            }
        )
    return Chart(title, {"width": _WIDTH, "height": _HEIGHT, "layer": layers}, names)


def interval_chart(title: str, bars: Sequence[Bar], *, x_title: str, zero: bool = True) -> Chart:
    """Rows of points with their intervals; hollow points have none.

    Args:
        title: of the chart.
        bars: the rows, from the top; those of one label stand together, named by their series where there are several.
        x_title: the quantity with its unit.
        zero: draw a line at 0, where differences end.
    """
    rows = [
        {
            **{"label": bar.label, "value": bar.value, "series": bar.series, "known": bar.interval is not None},
            **({} if bar.interval is None else {"low": bar.interval[0], "high": bar.interval[1]}),
        }
        for bar in bars
        if math.isfinite(bar.value)
    ]
    labels = list(dict.fromkeys(bar.label for bar in bars))
    alone = len({bar.series for bar in bars}) == 1
    row = {"field": "label" if alone else "series", "type": "nominal", "sort": None, "title": None}
    quantity: dict[str, Any] = {"type": "quantitative", "title": x_title, "scale": {"zero": zero}}
    color = {"datum": "", "type": "nominal", "legend": None}
    layers: list[dict[str, Any]] = [
        {
            "transform": [{"filter": "datum.known"}],
            "mark": {"type": "rule", "strokeWidth": 2},
            "encoding": {"y": row, "x": {"field": "low", **quantity}, "x2": {"field": "high"}, "color": color},
        },
        {
            "mark": {"type": "point", "size": 55, "opacity": 1, "strokeWidth": 1.5},
            "encoding": {
                **{"y": row, "x": {"field": "value", **quantity}, "color": color, "fill": color},
                "fillOpacity": {"condition": {"test": "datum.known", "value": 1}, "value": 0},
            },
        },
    ]
    if zero:
        layers.insert(
            0, {"data": {"values": [{"zero": 0}]}, "mark": "rule", "encoding": {"x": {"field": "zero", **quantity}}}
        )
    spec: dict[str, Any] = {"width": _WIDTH, "height": {"step": _ROW}, "layer": layers}
    if not alone:
        header = {"title": None, "labelOrient": "top", "labelAnchor": "start", "labelFontSize": 12}
        facet = {"row": {"field": "label", "type": "nominal", "sort": labels, "header": header}}
        spec = {"facet": facet, "spec": spec, "resolve": {"scale": {"y": "independent"}}, "spacing": _GAP}
    return Chart(title, {"data": {"values": rows}, **spec}, ("",))


def bar_chart(title: str, bars: Iterable[tuple[str, int]], *, x_title: str, y_title: str) -> Chart:
    """A histogram: counts over classes, each with its number above it."""
    rows = [{"x": name, "y": count} for name, count in bars]
    encoding = {
        "x": {"field": "x", "type": "ordinal", "sort": None, "title": x_title, "axis": {"labelAngle": 0}},
        "y": {"field": "y", "type": "quantitative", "title": y_title},
    }
    layers: list[dict[str, Any]] = [
        {"mark": "bar", "encoding": {**encoding, "color": {"datum": "", "type": "nominal", "legend": None}}},
        {
            "mark": {"type": "text", "dy": -_GAP, "fontSize": 9},
            "encoding": {**encoding, "text": {"field": "y"}},
        },
    ]
    width = max(_WIDTH, 30 * len(rows))
    return Chart(title, {"width": width, "height": 240, "data": {"values": rows}, "layer": layers}, ("",))


def thinned(points: Sequence[tuple[float, float]], most: int = _MOST_POINTS) -> list[tuple[float, float]]:
    """At most that many points: the means of equal numbers of neighbours; those that are not finite are left out."""
    finite = [(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y)]
    size = math.ceil(len(finite) / most)
    if size <= 1:
        return finite
    groups = [finite[start : start + size] for start in range(0, len(finite), size)]
    return [(sum(x for x, _ in group) / len(group), sum(y for _, y in group) / len(group)) for group in groups]


def _drawable(value: Any) -> Any:
    """The same with names that can be drawn: without characters that XML has not, which would end the process."""
    if isinstance(value, str):
        seen = _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", value)
        return f"{seen}\N{ZERO WIDTH SPACE}" if seen in _OF_ALL_OBJECTS else seen
    if isinstance(value, dict):
        return {_drawable(name): _drawable(entry) for name, entry in value.items()}
    return [_drawable(entry) for entry in value] if isinstance(value, list | tuple) else value


def _converter() -> Any:
    try:
        import vl_convert
    except ImportError:
        raise TrueNegError(
            "charts: the package vl-convert-python is not installed; expected it; pip install 'truneg_fairseq[report]'"
        ) from None
    return vl_convert


def _by_series(names: tuple[str, ...], present: Sequence[str]) -> dict[str, Any]:
    scale, legend = {"domain": list(names)}, {"values": list(present)}
    return {"field": "series", "type": "nominal", "scale": scale, "legend": legend}


def _cycled(values: Sequence[Any], count: int) -> list[Any]:
    return [values[index % len(values)] for index in range(count)]


def _line_rows(line: Line) -> list[dict[str, Any]]:
    return [{"x": x, "y": y, "series": line.name} for x, y in thinned(line.points)]


def _band_rows(line: Line) -> list[dict[str, Any]]:
    return [
        {"x": x, "low": low, "high": high, "series": line.name}
        for x, low, high in line.band
        if all(map(math.isfinite, (x, low, high)))
    ]
