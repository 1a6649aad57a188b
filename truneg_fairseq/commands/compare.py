"""``truneg compare``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..errors import refuse
from ..files import replacing_text, split_name
from ..flags import option
from .parser import JsonOutput, next_step, print_unless_json, write_json_lines


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

    picture, html = options.picture, options.html
    not_svg = picture is not None and picture.suffix.lower() != ".svg"
    refuse((not_svg, f"--picture {picture}: expected a file name that ends with .svg"))
    folders = [each for each in options.results if split_name(each)[1].is_dir()]
    files = [each for each in options.results if each not in folders]
    runs = find_runs(folders)
    found = read_results(files)
    results = select(found or [each for run in runs for each in run.results], options.tasks, options.models)
    nothing = not results and (html is None or not runs)
    refuse((nothing, f"{options.results[0]}: has no results to compare; expected a line for each run"))
    say, comparison = print_unless_json(options), None
    if results:
        comparison = Comparison(results, options.baseline, corrected=options.bonferroni)
        say("\n".join(as_text(comparison, options.format)))
        write_json_lines(options, list(comparison.records()))
        if picture is not None:
            charts = difference_charts(comparison)
            common = f"a task of the tables and a seed in common with the baseline {comparison.baseline}"
            refuse((not charts, f"--picture: no model has {common}"))
            with replacing_text(picture) as stream:
                stream.write(stacked("", charts).file())
    if html is not None:
        report_page(comparison, runs, title="Pre-training runs" if runs else "Comparison").write(html)
        say(f"wrote {html}; next: open it in a browser")
    elif options.format == "terminal":  # the others are for a document
        say(next_step("truneg", "compare", *options.results, "--html", "page.html"))
