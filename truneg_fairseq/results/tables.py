"""Comparisons as text: the paper's Tables 2 to 6, each with its differences and their intervals."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .comparison import CURVE, HELD_OUT, SQUAD, Comparison, Quantity, Summary
from .intervals import MOST_SEEDS, POWER

WITHIN_NOISE, NO_EVIDENCE = "~", "?"
ENOUGH_PAIRS = 3
"""With fewer seeds in common, two that agree by chance would look like proof."""
_NOTES = (
    "Percent (bits: bits per token); mean over seeds ± standard deviation (sample); Δ to {baseline}, paired by seed.",
    f"{WITHIN_NOISE} the 95 % interval of the difference holds 0: it may be noise. {NO_EVIDENCE} fewer than"
    f" {ENOUGH_PAIRS} seeds in common: no evidence.",
    f"seeds to tell: pairs at which a paired t test (5 %, power {POWER:.0%}) would find the difference, if Δ and its"
    " spread over seeds are as here.",
)
_HELD_OUT_NOTE = (
    "held-out text: bits is the loss; ECE the calibration error, how far confidence and accuracy lie apart; Pred. the"
    " share of the mistakes that are synonyms of the original word, Iter. the share of the sequences with such a one."
)
_LATEX_SIGNS = str.maketrans(
    {"±": r"$\pm$", "Δ": r"$\Delta$", "→": r"$\rightarrow$", "↑": r"$\uparrow$", "↓": r"$\downarrow$"}
)
"""What tabulate does not escape."""


@dataclass(frozen=True)
class Table:
    """Cells of text."""

    title: str  # above it
    head: tuple[str, ...]  # the headings; the first column is text, the others are numbers
    rows: tuple[tuple[str, ...], ...]  # of as many cells


def tables(comparison: Comparison) -> list[Table]:
    """The paper's tables that there are results for, each followed by its differences and their intervals."""
    made = []
    for title, quantities in comparison.groups.items():
        if title == "GLUE":
            made.append(_glue(comparison, quantities))
        elif title in SQUAD.values():
            made.append(_squad(title, comparison, quantities))
        elif title in comparison.attacks:
            made.append(_attack(title, comparison, quantities))
        elif title == CURVE:
            made.append(_curve(comparison, quantities))
        else:
            rows = [(model, *map(_value, found)) for model, found in _summaries(comparison, quantities)]
            made.append(Table(title, ("Model", *(quantity.title for quantity in quantities)), tuple(rows)))
        made.append(_differences(title, comparison, quantities))
    return made


def notes(comparison: Comparison) -> list[str]:
    """Lines below the tables: what they show, and what to know before believing them."""
    found = [note.format(baseline=comparison.baseline) for note in (_NOTES if comparison.groups else ())]
    if HELD_OUT in comparison.groups:
        found.append(_HELD_OUT_NOTE)
    if comparison.attacks:
        found.append("In Table 5, Δ is the change by the attack.")
    if comparison.together:
        found.append("The intervals are wider (Bonferroni): for any number those of all models hold at once in 95 %.")
    if comparison.other_tasks:
        found.append(f"Not in the paper's tables: {', '.join(comparison.other_tasks)}")
    return found + [f"Averaged over seeds with different settings: {line}" for line in comparison.mixed]


def _glue(comparison: Comparison, quantities: Sequence[Quantity]) -> Table:
    """Table 3; Table 6 if the models are variants."""
    has_average = quantities[-1].title.startswith("Average")
    rows = [
        (model, *map(_value, found), *([_delta(found[-1], comparison)] if has_average else []))
        for model, found in _summaries(comparison, quantities)
    ]
    head = ("Model", *(quantity.title for quantity in quantities), *(["Δ"] if has_average else []))
    return Table("GLUE (Tables 3 and 6)", head, tuple(rows))


def _squad(title: str, comparison: Comparison, quantities: Sequence[Quantity]) -> Table:
    rows = [
        (model, *(cell for summary in found for cell in (_value(summary), _delta(summary, comparison))))
        for model, found in _summaries(comparison, quantities)
    ]
    table_4 = " (Table 4)" if title == SQUAD["SQuAD"] else ""
    return Table(f"{title}{table_4}", ("Model", "EM", "Δ EM", "F1", "Δ F1"), tuple(rows))


def _attack(task: str, comparison: Comparison, quantities: Sequence[Quantity]) -> Table:
    rows = []
    for model, found in _summaries(comparison, quantities):
        cells: list[str] = []
        for before, after, drop in (found[:3], found[3:]):
            cells += [f"{_mean(before)}→{_mean(after)}", "-" if drop is None else _arrow(-drop.mean, 2)]
        rows.append((model, *cells))
    head = ("Model", "Exact Match", "Δ EM", "F1 Score", "Δ F1")
    return Table(f"{task}, Ori.→Trans. (Table 5)", head, tuple(rows))


def _curve(comparison: Comparison, quantities: Sequence[Quantity]) -> Table:
    rows = []
    for model, found in _summaries(comparison, quantities):
        seeds = comparison.reached(model)
        shares = [share for share in seeds if share is not None]
        never = f"{len(seeds) - len(shares)} of {len(seeds)} seeds never"
        mean = f"{sum(shares) / len(shares):.0f} %" if shares else "-"
        rows.append((model, *map(_value, found), mean if shares == seeds else never))
    head = ("Model", *(quantity.title for quantity in quantities), f"{comparison.baseline}'s last after")
    return Table(CURVE, head, tuple(rows))


def _differences(title: str, comparison: Comparison, quantities: Sequence[Quantity]) -> Table:
    rows = [
        (f"{quantity.title}: {model}", *_difference(summary, comparison))
        for quantity in quantities
        for model in comparison.models
        if (summary := comparison.summary(model, quantity)) is not None
    ]
    head = ("", "seeds", "mean", "median", "std", "Δ", "95 % interval", "pairs", "seeds to tell", "")
    return Table(f"{title}: differences to {comparison.baseline}", head, tuple(rows))


def _difference(summary: Summary, comparison: Comparison) -> tuple[str, ...]:
    def shown(value: float | None, sign: str = "") -> str:
        return "-" if value is None else summary.quantity.shown(value, sign)

    interval, needed = summary.interval, summary.seeds_to_tell
    statistics = (shown(summary.mean), shown(summary.median), shown(summary.deviation), shown(summary.difference, "+"))
    pairs = "-" if summary.difference is None else str(summary.pairs)
    mark = "" if summary.model == comparison.baseline else _mark(summary)
    if interval is None:
        return (str(len(summary.values)), *statistics, "-", pairs, "-", mark)
    ends = f"[{shown(interval.low, '+')}, {shown(interval.high, '+')}]"
    enough = f">{MOST_SEEDS:,}" if needed is None else f"{needed:,}"
    enough = enough if summary.pairs >= ENOUGH_PAIRS else "-"
    return (str(len(summary.values)), *statistics, ends, pairs, enough, mark)


def _summaries(comparison: Comparison, quantities: Sequence[Quantity]) -> list[tuple[str, list[Summary | None]]]:
    """The models with some of these quantities, and their summaries."""
    found = [(model, [comparison.summary(model, each) for each in quantities]) for model in comparison.models]
    return [(model, summaries) for model, summaries in found if any(summaries)]


def _value(summary: Summary | None) -> str:
    if summary is None:
        return "-"
    quantity = summary.quantity
    spread = "" if summary.deviation is None else f" ±{quantity.shown(summary.deviation, digits=quantity.digits - 1)}"
    return quantity.shown(summary.mean, digits=quantity.digits - 1) + spread


def _mean(summary: Summary | None) -> str:
    return "-" if summary is None else summary.quantity.shown(summary.mean)


def _delta(summary: Summary | None, comparison: Comparison) -> str:
    if summary is None or summary.difference is None or summary.model == comparison.baseline:
        return "-"
    return f"{_arrow(summary.difference, 1)} {_mark(summary)}".rstrip()


def _arrow(difference: float, digits: int) -> str:
    written = f"{100 * abs(difference):.{digits}f}"
    return written if float(written) == 0 else f"{'↑' if difference > 0 else '↓'}{written}"


def _mark(summary: Summary) -> str:
    if summary.interval is None or summary.pairs < ENOUGH_PAIRS:
        return NO_EVIDENCE
    return WITHIN_NOISE if summary.interval.holds_zero else ""


def terminal(table: Table) -> list[str]:
    return [table.title, *_tabulate(table, "simple")]


def wrapped(lines: Sequence[str]) -> list[str]:
    """Lines that a terminal of 100 columns shows whole."""
    return [part for line in lines for part in textwrap.wrap(line, 100, break_on_hyphens=False)]


def markdown(table: Table) -> list[str]:
    """GitHub's tables."""
    rule = "|---|" + "---:|" * (len(table.head) - 1)
    head, *rows = (
        "| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in (table.head, *table.rows)
    )
    return [f"**{table.title}**", "", head, rule, *rows]


def latex(table: Table) -> list[str]:
    """A table with a caption, for the package booktabs."""
    from tabulate import LATEX_ESCAPE_RULES

    caption = table.title.translate(str.maketrans(LATEX_ESCAPE_RULES))
    drawn = [r"\begin{table}", r"\centering", rf"\caption{{{caption}}}", *_tabulate(table, "latex_booktabs")]
    text = re.sub(r"(?<![\w.-])-(?=\d)", "$-$", "\n".join([*drawn, r"\end{table}"]))
    return text.translate(_LATEX_SIGNS).splitlines()


def _tabulate(table: Table, style: str) -> list[str]:
    from tabulate import tabulate

    alignment = ("left", *["right"] * (len(table.head) - 1))
    drawn = tabulate(table.rows, table.head, style, disable_numparse=True, colalign=alignment if table.rows else None)
    return [line.rstrip() for line in drawn.splitlines()]


FORMATS: dict[str, Callable[[Table], list[str]]] = {"terminal": terminal, "markdown": markdown, "latex": latex}
"""How a table is written."""
