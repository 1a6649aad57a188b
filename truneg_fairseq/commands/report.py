"""Report pre-training runs in one HTML page: curves, Table 2, downstream results, speed, what was run, examples."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..errors import TrueNegError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the runs, the result files and the page."""
    parser.add_argument(
        "runs",
        nargs="+",
        metavar="RUN",
        help="a training's folder (its logs, TensorBoard's files and 'truneg inspect --json' files in it are found) or "
        "its log; NAME=RUN names it; the baseline first",
    )
    parser.add_argument(
        "--results",
        type=Path,
        nargs="+",
        action="extend",
        default=[],
        metavar="RESULTS.jsonl",
        help="of fine-tuning, as compare's",
    )
    parser.add_argument("--baseline", metavar="NAME", help="model of --results that others are compared with")
    parser.add_argument("--title", default="Pre-training runs", help="of the page")
    parser.add_argument("--output", type=Path, default=Path("report.html"), metavar="HTML", help="default: report.html")


def run(args: argparse.Namespace) -> None:
    """Writes the page and says what it is missing."""
    from ..comparison.results import read_results
    from ..files import replacing_text
    from ..paths import require_different, require_writable
    from ..report.page import report_page
    from ..report.run import find_runs

    if args.baseline is not None and not args.results:
        raise TrueNegError(f"--baseline {args.baseline}: has no effect without --results; leave it out, or give them")
    require_writable(args.output, "--output")
    require_different(results=args.results, output=args.output)
    runs = find_runs(args.runs)
    require_different(RUN=[path for each in runs for path in each.files], output=args.output)
    html = report_page(runs, read_results(args.results), title=args.title, baseline=args.baseline).render()
    with replacing_text(args.output) as stream:
        stream.write(html)
    for each in runs:
        for sentence in each.missing:
            print(f"{each.name}: {sentence}")
    print(f"wrote {args.output} ({len(html.encode()) / 1e6:.2f} MB)")
