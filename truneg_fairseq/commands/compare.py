"""Compare models over seeds: the paper's tables, with intervals of the differences."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..files import replacing_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the result files and what to print."""
    parser.add_argument("results", type=Path, nargs="+", metavar="RESULTS.jsonl", help="result files (JSON lines)")
    parser.add_argument(
        "--baseline", metavar="NAME", help="model that the others are compared with (default: the first)"
    )
    parser.add_argument("--format", choices=("terminal", "markdown", "latex"), default="terminal", help="table format")
    parser.add_argument("--picture", type=Path, metavar="SVG", help="also draw the differences with their intervals")


def run(args: argparse.Namespace) -> None:
    """Prints the tables that there are results for, and what their marks mean."""
    from ..comparison.comparison import Comparison
    from ..comparison.picture import picture
    from ..comparison.results import read_results
    from ..comparison.tables import FORMATS, NOTES, tables

    comparison = Comparison(read_results(args.results), args.baseline)
    made = tables(comparison)
    for table in made:
        print("\n".join([*FORMATS[args.format](table), ""]))
    prefix = "% " if args.format == "latex" else ""
    for note in NOTES if made else ():
        print(prefix + note.format(baseline=comparison.baseline))
    if comparison.other_tasks:
        print(f"{prefix}Not in the paper's tables: {', '.join(comparison.other_tasks)}")
    if args.picture is not None:
        drawn = picture(comparison)
        with replacing_text(args.picture) as file:
            file.write(drawn)
