"""``truneg compare``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..errors import TrueNegError
from ..files import replacing_text, require_different, split_name
from ..flags import option
from .parser import JsonOutput, print_unless_json, write_json_lines


@dataclass(kw_only=True)
class CompareOptions(JsonOutput):
    results: list[str] = option(
        help="result files (JSON lines), or the --save-dir of trainings, in which held-out results are found; NAME= "
        "names the models of a file, or a training",
        metavar="[NAME=]PATH",
        positional=True,
    )
    tasks: list[str] = option(default_factory=list, help="only these, such as 'lexsub*' (default: all)", metavar="TASK")
    models: list[str] = option(
        default_factory=list, help="only these, in this order, such as 'corpus*' (default: all)", metavar="NAME"
    )
    baseline: str | None = option(None, "model that the others are compared with (default: the first)", metavar="NAME")
    bonferroni: bool = option(False, "correct the intervals for the number of models compared (Bonferroni)")
    picture: Path | None = option(None, "also draw a chart", metavar="SVG")
    html: Path | None = option(
        None, "also write one page; of trainings it has curves, what was run, and examples", metavar="PAGE"
    )
    format: str = option("terminal", "table format", choices=("terminal", "markdown", "latex"))


def compare(options: CompareOptions) -> None:
    """Compare models over seeds, and trainings: tables with intervals of the differences, or one HTML page."""
    from ..results.charts import difference_charts, stacked
    from ..results.comparison import Comparison, select
    from ..results.page import report_page
    from ..results.result import read_results
    from ..results.tables import as_text
    from ..results.training_facts import find_runs

    if options.picture is not None and options.picture.suffix.lower() != ".svg":
        raise TrueNegError(f"--picture {options.picture}: expected a file name that ends with .svg")
    folders = [each for each in options.results if split_name(each)[1].is_dir()]
    files = [each for each in options.results if each not in folders]
    outputs = {"json": None if str(options.json) == "-" else options.json, "picture": options.picture}
    require_different(RESULTS=[split_name(each)[1] for each in files], html=options.html, **outputs)
    runs = find_runs(folders)
    found = read_results(files)
    results = select(found or [each for run in runs for each in run.results], options.tasks, options.models)
    if not results and (options.html is None or not runs):
        raise TrueNegError(f"{options.results[0]}: has no results to compare; expected a line for each run")
    say, comparison = print_unless_json(options), None
    if results:
        comparison = Comparison(results, options.baseline, corrected=options.bonferroni)
        say("\n".join(as_text(comparison, options.format)))
        write_json_lines(options, list(comparison.records()))
        if options.picture is not None:
            if not (charts := difference_charts(comparison)):
                expected = "a task of the tables and a seed in common with the baseline"
                raise TrueNegError(f"--picture: no model has {expected} {comparison.baseline}")
            with replacing_text(options.picture) as stream:
                stream.write(stacked("", charts).file())
    if options.html is not None:
        report_page(comparison, runs).write(options.html)
        say(f"wrote {options.html}; next: open it in a browser")
    elif options.format == "terminal":  # the others are for a document
        say(f"next: truneg compare {' '.join(options.results)} --html page.html")
