"""Compare models over seeds: the paper's tables, with intervals of the differences."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..paths import require_different
from .output import add_json, file_of, print_unless_json, write_json_lines


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the result files and what to print."""
    parser.add_argument("results", type=Path, nargs="+", metavar="RESULTS.jsonl", help="result files (JSON lines)")
    parser.add_argument(
        "--baseline", metavar="NAME", help="model that the others are compared with (default: the first)"
    )
    parser.add_argument(
        "--bonferroni",
        action="store_true",
        help="intervals so wide that those of all models hold at once, column by column",
    )
    parser.add_argument("--format", choices=("terminal", "markdown", "latex"), default="terminal", help="table format")
    parser.add_argument("--picture", type=Path, metavar="SVG", help="also draw the differences with their intervals")
    add_json(parser, "a line a model and number of the tables, as fractions")


def run(args: argparse.Namespace) -> None:
    """Prints the tables that there are results for, and what their marks mean."""
    from ..comparison.charts import difference_chart
    from ..comparison.comparison import Comparison
    from ..comparison.results import read_results
    from ..comparison.tables import FORMATS, NOTES, tables

    require_different(RESULTS=args.results, json=file_of(args), picture=args.picture)
    comparison = Comparison(read_results(args.results), args.baseline, together=args.bonferroni)
    made, say = tables(comparison), print_unless_json(args)
    for table in made:
        say("\n".join([*FORMATS[args.format](table), ""]))
    prefix = "% " if args.format == "latex" else ""
    for note in NOTES if made else ():
        say(prefix + note.format(baseline=comparison.baseline))
    if args.bonferroni:
        say(f"{prefix}The intervals are wider (Bonferroni): for any number those of all models hold at once in 95 %.")
    if comparison.other_tasks:
        say(f"{prefix}Not in the paper's tables: {', '.join(comparison.other_tasks)}")
    write_json_lines(args, list(comparison.records()))
    if args.picture is not None:
        difference_chart(comparison).write(args.picture)
