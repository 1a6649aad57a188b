"""``truneg compare`` and ``truneg report``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..errors import TrueNegError
from ..files import require_different, split_name
from ..options import option
from .parser import JsonOutput, print_unless_json, write_json_lines


@dataclass(kw_only=True)
class CompareOptions(JsonOutput):
    results: list[str] = option(
        help="result files (JSON lines); NAME=FILE names the file's models",
        metavar="[NAME=]RESULTS.jsonl",
        positional=True,
    )
    tasks: list[str] = option(default_factory=list, help="only these, such as 'lexsub*' (default: all)", metavar="TASK")
    models: list[str] = option(
        default_factory=list, help="only these, in this order, such as 'corpus*' (default: all)", metavar="NAME"
    )
    baseline: str | None = option(None, "model that the others are compared with (default: the first)", metavar="NAME")
    bonferroni: bool = option(False, "correct the intervals for the number of models compared (Bonferroni)")
    picture: Path | None = option(None, "also draw a chart", metavar="SVG")
    format: str = option("terminal", "table format", choices=("terminal", "markdown", "latex"))


def compare(options: CompareOptions) -> None:
    """Compare models over seeds: the paper's tables, with intervals of the differences."""
    from ..report.charts import difference_chart
    from ..results.comparison import Comparison, select
    from ..results.result import read_results
    from ..results.tables import FORMATS, notes, tables, wrapped

    if options.picture is not None and options.picture.suffix.lower() != ".svg":
        raise TrueNegError(f"--picture {options.picture}: expected a file name that ends with .svg")
    files = [split_name(argument)[1] for argument in options.results]
    require_different(RESULTS=files, json=None if str(options.json) == "-" else options.json, picture=options.picture)
    results = select(read_results(options.results), options.tasks, options.models)
    if not results:
        raise TrueNegError(f"{options.results[0]}: has no results to compare; expected a line for each run")
    comparison = Comparison(results, options.baseline, corrected=options.bonferroni)
    say = print_unless_json(options)
    for table in tables(comparison):
        say("\n".join([*FORMATS[options.format](table), ""]))
    prefix = "% " if options.format == "latex" else ""
    for note in notes(comparison) if options.format != "terminal" else wrapped(notes(comparison)):
        say(prefix + note)
    write_json_lines(options, list(comparison.records()))
    if options.picture is not None:
        difference_chart(comparison).write(options.picture)
    if options.format == "terminal":  # the others are for a document
        given = " ".join(options.results)
        picture = f"truneg compare {given} --picture picture.svg"
        say("next: " + (picture if options.picture is None else f"truneg report RUN --results {given}"))


@dataclass(kw_only=True)
class ReportOptions:
    runs: list[str] = option(
        help="a training's --save-dir (held-out results in it are found too); NAME=RUN names it; the baseline first",
        metavar="[NAME=]RUN",
        positional=True,
    )
    results: list[str] = option(help="as compare's", default_factory=list, metavar="[NAME=]RESULTS.jsonl")
    baseline: str | None = option(None, "model of --results that others are compared with", metavar="NAME")
    output: Path = option(Path("report.html"), "the page", metavar="HTML")


def report(options: ReportOptions) -> None:
    """Report pre-training runs in one HTML page.

    It has curves, Table 2, downstream results, what was run, and examples.
    """
    from ..files import replacing_text, require_writable
    from ..report.page import report_page
    from ..report.run import find_runs
    from ..results.result import read_results

    require_writable(options.output, "--output")
    runs = find_runs(options.runs)
    results = read_results(options.results)
    page = report_page(runs, results, baseline=options.baseline)
    if page.is_of_something_else(options.output):
        raise TrueNegError(f"--output {options.output}: has the page of other runs; name another file, or remove it")
    html = page.render()
    with replacing_text(options.output) as stream:
        stream.write(html)
    for each in runs:
        for sentence in each.missing:
            print(f"{each.name}: {sentence}")
    print(f"wrote {options.output} ({len(html.encode()) / 1e6:.2f} MB); next: open it in a browser")
