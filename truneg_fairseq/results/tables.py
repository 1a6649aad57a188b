"""Comparisons as text: for each group of tasks the values of the models, their differences to the baseline, and what an
experiment says in sentences: which difference is larger than the noise between seeds.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .comparison import ENOUGH_SEEDS, Comparison, Quantity, Summary
from .intervals import CONFIDENCE, holm
from .result import BITS, GENERATED, HELD_OUT, Result

NOT_SIGNIFICANT = "not significant"
_MOST_COLUMNS = 12  # of a table of values; one with more has a row for each quantity
HELD_OUT_NOTE = (
    "held-out text: bits is the loss; ECE the calibration error, how far confidence and accuracy lie apart; Pred. the"
    " share of the mistakes that are synonyms of the original word, Iter. the share of the sequences with such a one."
)
_OVER_ITEMS = (
    "Percent where no unit is given; ↑ higher is better, ↓ lower. [..]: 95 % over items, differences paired by item. "
    "One training each says nothing of other seeds: truneg experiment compares seeds."
)
_LATEX_SIGNS = str.maketrans({"±": r"$\pm$", "Δ": r"$\Delta$", "↑": r"$\uparrow$", "↓": r"$\downarrow$"})
"""What tabulate does not escape."""


@dataclass(frozen=True)
class Table:
    """Rows under headings, for a terminal, a page, Markdown or LaTeX."""

    title: str  # above it
    head: Sequence[str]  # the headings; the first column is text, the others are numbers
    rows: Sequence[Sequence[Any]]  # of as many cells: texts, or a page's cells
    filtered: bool = False  # whether a page has a field to filter it with


def tables(comparison: Comparison) -> list[Table]:
    """The tables that there are results for, each followed by its differences where there are enough seeds."""
    made = []
    for title, quantities in comparison.groups.items():
        made.append(_values(title, comparison, quantities))
        rows = []
        for summary in comparison.summaries(quantities):
            quantity, interval = summary.quantity, summary.interval
            if summary.direction is not None and interval is not None and summary.model not in comparison.controls:
                row = f"{quantity.heading}: {summary.model}", quantity.format(summary.difference or 0.0, "+")
                rows.append((*row, quantity.ends(interval), str(summary.paired_seeds), mark(summary)))
        if rows:
            head = ("", "Δ", "95 % interval", "seeds", "")
            made.append(Table(f"{title}: differences to {comparison.baseline}", head, rows))
    return made


def as_text(comparison: Comparison, style: str = "terminal") -> list[str]:
    """The lines of all tables in a style of :data:`FORMATS`, and of the notes below them."""
    lines = [line for table in tables(comparison) for line in (*FORMATS[style](table), "")]
    below = wrapped(notes(comparison)) if style == "terminal" else notes(comparison)
    return [*lines, *(f"% {note}" if style == "latex" else note for note in below)]


def notes(comparison: Comparison) -> list[str]:
    """Lines below the tables: what they show, and what to know before believing them."""
    if comparison.over_items:
        return [*comparison.notes, _OVER_ITEMS]
    every = [summary for each in comparison.groups.values() for summary in comparison.summaries(each)]
    found = []
    if every:
        several = any(summary.deviation is not None for summary in every)
        of = "mean over seeds ± standard deviation (sample)" if several else "one seed"
        found.append(f"Percent, or the unit in the heading; {of}. ↑ higher is better, ↓ lower is better.")
    if any(summary.direction is not None for summary in every):
        found.append(
            f"Δ to {comparison.baseline}, paired by seed. {NOT_SIGNIFICANT}: the 95 % interval contains 0, the "
            "difference may be noise. "
            + ("Corrected" if comparison.corrected else "Not corrected")
            + " for the number of models."
        )
    few = [each for each in every if each.paired_seeds and each.direction is None]
    if few:
        seeds, least = _counted(min(each.paired_seeds for each in few)), f"at least {ENOUGH_SEEDS} in common are needed"
        found.append(f"{seeds} no evidence for a difference; {least}.")
    if HELD_OUT in comparison.groups:
        found.append(HELD_OUT_NOTE)
    if comparison.other_items:
        found.append(f"Other items, so the intervals are over seeds alone: {'; '.join(comparison.other_items)}")
    return found + [f"Averaged over seeds with different settings: {line}" for line in comparison.mixed]


def _counted(seeds: int) -> str:
    return f"{seeds} {'seed is' if seeds == 1 else 'seeds are'}"


def _values(title: str, comparison: Comparison, quantities: Sequence[Quantity]) -> Table:
    found = {model: [_value(comparison.summary(model, each)) for each in quantities] for model in comparison.models}
    found = {model: cells for model, cells in found.items() if set(cells) != {"-"}}
    heads = [each.heading for each in quantities]
    if len(quantities) > _MOST_COLUMNS or comparison.over_items:
        return Table(title, ("", *found), list(zip(heads, *found.values(), strict=True)))
    return Table(title, ("Model", *heads), [(model, *cells) for model, cells in found.items()])


def _value(summary: Summary | None) -> str:
    if summary is None:
        return "-"
    spread = "" if summary.deviation is None else f" ±{summary.quantity.format(summary.deviation)}"
    if summary.items is not None:
        spread = f" {summary.quantity.ends(summary.items, '')}"
    return summary.quantity.format(summary.mean) + spread


def mark(summary: Summary) -> str:
    """What a difference is, in a word: an arrow says where the value goes."""
    if summary.direction is None:
        return ""
    return {1: "↑ ", -1: "↓ ", 0: ""}[summary.direction] + _word(summary)


def _word(summary: Summary) -> str:
    if not summary.direction:
        return NOT_SIGNIFICANT
    return {True: "better", False: "worse", None: "higher" if summary.direction > 0 else "lower"}[summary.better]


def wrapped(lines: Sequence[str]) -> list[str]:
    """Lines that a terminal of 100 columns shows whole."""
    return [part for line in lines for part in textwrap.wrap(line, 100, break_on_hyphens=False)]


def terminal(table: Table) -> list[str]:
    return [table.title, *_tabulate(table, "simple")]


def markdown(table: Table) -> list[str]:
    """GitHub's tables."""
    escaped = [[str(cell).replace("|", r"\|") for cell in row] for row in (table.head, *table.rows)]
    return [f"**{table.title}**", "", *_tabulate(Table("", escaped[0], escaped[1:]), "github")]


def latex(table: Table) -> list[str]:
    """For the package booktabs, under a comment with the title."""
    text = re.sub(r"(?<![\w.-])-(?=\d)", "$-$", "\n".join(_tabulate(table, "latex_booktabs")))
    return [f"% {table.title}", *text.translate(_LATEX_SIGNS).splitlines()]


def _tabulate(table: Table, style: str) -> list[str]:
    from tabulate import tabulate

    alignment = ("left", *["right"] * (len(table.head) - 1)) if table.rows else None
    drawn = tabulate(table.rows, table.head, style, disable_numparse=True, colalign=alignment)
    return [line.rstrip() for line in drawn.splitlines()]


FORMATS: dict[str, Callable[[Table], list[str]]] = {"terminal": terminal, "markdown": markdown, "latex": latex}
"""How a table is written."""


_NAMES = {BITS: "held-out loss", "ece": "calibration error"}
"""The metrics of held-out text that it is about; lower is better."""
_BOUNDS = ("ceiling", "people", "half of the people")  # controls that a model is not meant to reach
_MOST_NAMED = 2  # metrics in a sentence


def verdict_over_items(comparison: Comparison) -> str:
    """What the tables of ``truneg evaluate`` say, in one sentence: of the other models, or of the only one's controls.

    Better and worse are significant differences, not corrected for the number of metrics.
    """
    first, found = comparison.baseline, dict[str, dict[str, list[str]]]()  # the metrics by model and what it is in them
    for title, quantities in comparison.groups.items():
        for each in comparison.summaries(quantities):
            if each.direction is not None and each.quantity.metric.higher_is_better is not None:
                named = found.setdefault(each.model, {}).setdefault(_word(each), [])
                named.append(f"{each.quantity.title} ({title})")
    parts = []
    for other in [each for each in comparison.models if each != first and each not in comparison.controls]:
        names = found.get(other, {})
        said = [f"{word} in {_some(names[word])}" for word in ("better", "worse") if word in names]
        if open_ := len(names.get(NOT_SIGNIFICANT, ())):
            said.append(f"{NOT_SIGNIFICANT}ly different in {open_} metric{'s' * (open_ > 1)}")
        parts.append(f"{other} against {first}: {'; '.join(said) or 'nothing to compare'}")
    if parts:
        return " | ".join(parts) + "."
    beaten = dict[str, list[str]]()  # the controls by metric
    for control in [each for each in found if each not in _BOUNDS]:
        for name in found[control].get("better", ()):
            beaten.setdefault(name, []).append(control)
    if beaten:
        named = [f"{name} by {' and '.join(owners)}" for name, owners in beaten.items()]
        return f"{first}: better without training in {_some(named)}."
    return f"{first}: no control is significantly better." if found else f"{first}: no other model and no control."


def _some(names: Sequence[str]) -> str:
    """How many, and the two most important ones."""
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"{len(names)} metric{'s' * (len(names) > 1)}: {', '.join(names[:_MOST_NAMED])}{more}"


def verdict(results: Sequence[Result], baseline: str, control: str | None = None) -> list[str]:
    """Sentences on each arm's held-out loss and calibration against the baseline, and against a control arm.

    The first ones are the answer for each arm by its loss: it helps only where it is better than both, after Holm's
    correction for the number of arms. [] without held-out text.
    """
    arms = list(dict.fromkeys(result.model for result in results))
    compared: dict[str, dict[str, dict[str, Summary]]] = {arm: {} for arm in arms}  # by arm, rival and metric
    for rival in [name for name in dict.fromkeys((baseline, control)) if name in arms]:
        comparison = Comparison(results, rival)
        quantities = [*comparison.groups.get(HELD_OUT, ()), *comparison.groups.get(GENERATED, ())]
        for summary in comparison.summaries(each for each in quantities if each.parts[0].metric in _NAMES):
            if summary.differences is not None:
                compared[summary.model].setdefault(rival, {})[summary.quantity.parts[0].metric] = summary
    losses = {
        arm: {rival: metrics[BITS] for rival, metrics in found.items() if BITS in metrics}
        for arm, found in compared.items()
        if arm not in (baseline, control)
    }
    details = [
        f"{arm} against {rival}: {'; '.join(_finding(*each) for each in metrics.items())}."
        for arm, found in compared.items()
        if arm != baseline
        for rival, metrics in found.items()
    ]
    return [*_answers({arm: found for arm, found in losses.items() if found}), *details]


def _answers(losses: Mapping[str, Mapping[str, Summary]]) -> Iterator[str]:
    """Whether each arm helps, by its losses against its rivals."""
    lower, higher = dict[str, float](), dict[str, float]()  # p-values by arm
    for arm, found in losses.items():
        if all(each.direction is not None for each in found.values()):
            signed = [(each.difference or 0.0, each.p_value or 0.0) for each in found.values()]
            # Not lower than that of all rivals; higher than that of any, of which there are several comparisons.
            lower[arm] = max(p if difference < 0 else 1.0 for difference, p in signed)
            higher[arm] = min(1.0, len(signed) * min(p if difference > 0 else 1.0 for difference, p in signed))
    corrected = f" (Holm's correction for {len(lower)} arms)" if len(lower) > 1 else ""
    lower, higher = holm(lower), holm(higher)
    for arm, found in losses.items():
        if arm not in lower:
            shown = ", ".join(f"{_shown(loss)} to {rival}" for rival, loss in found.items())
            seeds = _counted(min(each.paired_seeds for each in found.values()))
            yield f"{arm}: held-out loss {shown}. {seeds} no evidence, at least {ENOUGH_SEEDS} are needed."
        elif lower[arm] <= 1 - CONFIDENCE:
            yield f"{arm} helps: its held-out loss is lower than that of {' and '.join(found)}{corrected}."
        elif higher[arm] <= 1 - CONFIDENCE:
            worse = " and ".join(rival for rival, each in found.items() if (each.direction or 0) > 0)
            yield f"{arm} does not help: its held-out loss is higher than that of {worse}{corrected}."
        else:
            open_ = [rival for rival, each in found.items() if (each.direction or 0) >= 0] or list(found)
            needed = "; ".join(f"{rival}: {_needed(found[rival])}" for rival in open_)
            said = f"the difference in held-out loss to {' and '.join(open_)} is {NOT_SIGNIFICANT}"
            yield f"{arm}: {said}{corrected} ({needed})."


def _finding(metric: str, summary: Summary) -> str:
    if summary.direction is None or summary.interval is None:
        return f"{_NAMES[metric]} {_shown(summary)}"
    return f"{_NAMES[metric]} {_word(summary)} ({_shown(summary)} {summary.quantity.ends(summary.interval)})"


def _shown(summary: Summary) -> str:
    """The difference with its unit."""
    return f"{summary.quantity.format(summary.difference or 0.0, '+')} {summary.quantity.unit}"


def _needed(summary: Summary) -> str:
    if summary.seeds_needed is None:
        return "more than 10,000 seeds would be needed"
    more = max(1, summary.seeds_needed - summary.paired_seeds)
    return f"about {more} more {'seed' if more == 1 else 'seeds'} needed"
