"""``truneg compare``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..errors import TrueNegError
from ..options import option
from .output import JsonOutput, print_unless_json, write_json_lines


@dataclass(kw_only=True)
class CompareOptions(JsonOutput):
    results: list[Path] = option(help="result files (JSON lines)", metavar="RESULTS.jsonl", positional=True)
    picture: Path | None = option(None, "also draw a chart", metavar="SVG")
    baseline: str | None = option(None, "model that the others are compared with (default: the first)", metavar="NAME")
    bonferroni: bool = option(
        False, "intervals so wide that those of all models hold at once, for each column of the tables"
    )
    format: str = option("terminal", "table format", choices=("terminal", "markdown", "latex"))


def compare(options: CompareOptions) -> None:
    """Compare models over seeds: the paper's tables, with intervals of the differences."""
    from ..report.differences import difference_chart
    from ..results.comparison import Comparison
    from ..results.result import read_results
    from ..results.tables import FORMATS, notes, tables, wrapped

    if options.picture is not None and options.picture.suffix.lower() != ".svg":
        raise TrueNegError(f"--picture {options.picture}: expected a file name that ends with .svg")
    results = read_results(options.results)
    if not results:
        raise TrueNegError(f"{options.results[0]}: has no results to compare; expected a line for each run")
    comparison = Comparison(results, options.baseline, together=options.bonferroni)
    say = print_unless_json(options)
    for table in tables(comparison):
        say("\n".join([*FORMATS[options.format](table), ""]))
    prefix = "% " if options.format == "latex" else ""
    for note in notes(comparison) if options.format != "terminal" else wrapped(notes(comparison)):
        say(prefix + note)
    write_json_lines(options, list(comparison.records()))
    if options.picture is not None:
        difference_chart(comparison).write(options.picture)
