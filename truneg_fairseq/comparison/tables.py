"""Comparisons as text: the paper's Tables 3 to 6, and what the paper leaves out, the noise of every number."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from .comparison import SQUAD, TABLE_2, Comparison, Quantity, Summary
from .statistics import MOST_SEEDS, POWER

WITHIN_NOISE, NO_INTERVAL = "~", "?"
NOTES = (
    "Percent (bits: bits a token); mean over seeds ± standard deviation (sample); Δ to {baseline}, paired by seed; in"
    " Table 5 the change by the attack.",
    f"{WITHIN_NOISE} the 95 % interval of the difference holds 0: it may be noise. {NO_INTERVAL} fewer than two seeds"
    " in common: no interval.",
    f"seeds to tell: pairs at which a paired t test (5 %, power {POWER:.0%}) would find the difference, if Δ and its"
    " spread over seeds are as here.",
)
_LATEX = {
    **{"\\": r"\textbackslash{}", "_": r"\_", "%": r"\%", "&": r"\&", "#": r"\#", "$": r"\$", "{": r"\{", "}": r"\}"},
    **{"±": r"$\pm$", "Δ": r"$\Delta$", "→": r"$\rightarrow$", "↑": r"$\uparrow$", "↓": r"$\downarrow$"},
    **{"~": r"$\sim$", "^": r"\^{}", "<": r"$<$", ">": r"$>$"},
}


@dataclass(frozen=True)
class Table:
    """Cells of text."""

    title: str  # above it
    head: tuple[str, ...]  # the headings; the first column is text, the others are numbers
    rows: tuple[tuple[str, ...], ...]  # of as many cells


def tables(comparison: Comparison) -> list[Table]:
    """The paper's tables that there are results for, each followed by its differences and their intervals."""
    made: list[Table] = []
    if comparison.glue:
        made.append(_glue(comparison))
        made.append(_differences("GLUE", comparison, comparison.glue))
    for task, title in SQUAD.items():
        if quantities := comparison.squad(task):
            made.append(_squad(comparison, f"{title} (Table 4)" if task == "SQuAD" else title, quantities))
            made.append(_differences(title, comparison, quantities))
    for task in comparison.attacks:
        made.append(_attack(comparison, task, quantities := comparison.attack(task)))
        made.append(_differences(task, comparison, quantities))
    others = {TABLE_2: comparison.over_training} if comparison.over_training else {}
    others |= {**comparison.pre_training, **{task: comparison.lexsub(task) for task in comparison.lexsub_tasks}}
    for title, quantities in others.items():
        made.append(_values(title, comparison, quantities))
        made.append(_differences(title, comparison, quantities))
    return made


def _glue(comparison: Comparison) -> Table:
    """Table 3, and of variants Table 6."""
    *_, last = comparison.glue
    average = last if last.title.startswith("Average") else None
    rows = [
        (model, *(_value(summary) for summary in found), *([_delta(found[-1], comparison)] if average else []))
        for model, found in _found(comparison, comparison.glue)
    ]
    head = ("Model", *(quantity.title for quantity in comparison.glue), *(["Δ"] if average else []))
    return Table("GLUE (Tables 3 and 6)", head, tuple(rows))


def _squad(comparison: Comparison, title: str, quantities: list[Quantity]) -> Table:
    rows = [
        (model, *(cell for summary in found for cell in (_value(summary), _delta(summary, comparison))))
        for model, found in _found(comparison, quantities)
    ]
    return Table(title, ("Model", "EM", "Δ EM", "F1", "Δ F1"), tuple(rows))


def _attack(comparison: Comparison, task: str, quantities: list[Quantity]) -> Table:
    rows = []
    for model, found in _found(comparison, quantities):
        cells = []
        for before, after, drop in (found[:3], found[3:]):
            cells += [f"{_short(before)}→{_short(after)}", "-" if drop is None else _arrow(-drop.mean)]
        rows.append((model, *cells))
    head = ("Model", "Exact Match", "Δ EM", "F1 Score", "Δ F1")
    return Table(f"{task}, Ori.→Trans. (Table 5)", head, tuple(rows))


def _values(title: str, comparison: Comparison, quantities: Sequence[Quantity]) -> Table:
    rows = [(model, *map(_value, found)) for model, found in _found(comparison, quantities)]
    return Table(title, ("Model", *(quantity.title for quantity in quantities)), tuple(rows))


def _differences(title: str, comparison: Comparison, quantities: Sequence[Quantity]) -> Table:
    rows = []
    for quantity in quantities:
        for model in comparison.models:
            if (summary := comparison.summary(model, quantity)) is None:
                continue
            rows.append((f"{quantity.title}: {model}", *_described(summary, comparison)))
    head = ("", "seeds", "mean", "median", "std", "Δ", "95 % interval", "pairs", "seeds to tell", "")
    return Table(f"{title}: differences to {comparison.baseline}", head, tuple(rows))


def _described(summary: Summary, comparison: Comparison) -> tuple[str, ...]:
    interval = summary.interval
    return (
        str(len(summary.values)),
        _written(summary, summary.mean),
        _written(summary, summary.median),
        _written(summary, summary.deviation),
        _written(summary, summary.difference, "+"),
        "-"
        if interval is None
        else f"[{_written(summary, interval.low, '+')}, {_written(summary, interval.high, '+')}]",
        str(summary.pairs) if summary.difference is not None else "-",
        _needed(summary),
        "" if summary.model == comparison.baseline else _mark(summary),
    )


def _found(comparison: Comparison, quantities: Sequence[Quantity]) -> Iterator[tuple[str, list[Summary | None]]]:
    """The models with some of these quantities, and their summaries."""
    for model in comparison.models:
        found = [comparison.summary(model, quantity) for quantity in quantities]
        if any(summary is not None for summary in found):
            yield model, found


def _value(summary: Summary | None) -> str:
    if summary is None:
        return "-"
    factor, digits = summary.quantity.factor, summary.quantity.digits - 1
    deviation = summary.deviation
    return f"{factor * summary.mean:.{digits}f}" + ("" if deviation is None else f" ±{factor * deviation:.{digits}f}")


def _short(summary: Summary | None) -> str:
    return "-" if summary is None else _written(summary, summary.mean)


def _delta(summary: Summary | None, comparison: Comparison) -> str:
    if summary is None or summary.difference is None or summary.model == comparison.baseline:
        return "-"
    return " ".join(filter(None, (_arrow(summary.difference, 1), _mark(summary))))


def _arrow(difference: float, digits: int = 2) -> str:
    written = f"{100 * abs(difference):.{digits}f}"
    return written if float(written) == 0 else f"{'↑' if difference > 0 else '↓'}{written}"


def _mark(summary: Summary) -> str:
    if summary.interval is None:
        return NO_INTERVAL
    return WITHIN_NOISE if summary.interval.holds_zero else ""


def _needed(summary: Summary) -> str:
    if summary.interval is None:
        return "-"
    return f">{MOST_SEEDS:,}" if summary.seeds_to_tell is None else f"{summary.seeds_to_tell:,}"


def _written(summary: Summary, value: float | None, sign: str = "") -> str:
    quantity = summary.quantity
    return "-" if value is None else f"{quantity.factor * value:{sign}.{quantity.digits}f}"


def terminal(table: Table) -> list[str]:
    """Columns that stand below each other."""
    lines = [table.head, *table.rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(table.head))]
    drawn = [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    return [table.title, drawn[0], "-" * max(map(len, drawn)), *drawn[1:]]


def markdown(table: Table) -> list[str]:
    """GitHub's tables."""
    rule = "|---|" + "---:|" * (len(table.head) - 1)
    drawn = ["| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in (table.head, *table.rows)]
    return [f"**{table.title}**", "", drawn[0], rule, *drawn[1:]]


def latex(table: Table) -> list[str]:
    """A tabular that needs no package."""
    drawn = [" & ".join(map(_escaped, line)) + r" \\" for line in (table.head, *table.rows)]
    return [
        rf"% {table.title}",
        rf"\begin{{tabular}}{{l{'r' * (len(table.head) - 1)}}}",
        r"\hline",
        *(drawn[0], r"\hline"),
        *(*drawn[1:], r"\hline"),
        r"\end{tabular}",
    ]


def _escaped(cell: str) -> str:
    return "".join(_LATEX.get(character, character) for character in cell)


FORMATS: dict[str, Callable[[Table], list[str]]] = {"terminal": terminal, "markdown": markdown, "latex": latex}
"""How a table is written."""
