"""``truneg report``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..errors import TrueNegError
from ..options import option


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
