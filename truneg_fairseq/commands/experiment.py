"""Train arms over seeds as a file says, evaluate every model the same way, and compare them.

The same command continues what was interrupted, skips what is done, and refuses a file that asks for another training
of the same name. Arms, seeds and evaluations may be added to the file.
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from ..errors import TrueNegError
from .parser import add_cpu, process_count


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the file, the folder and how the work is shared."""
    parser.add_argument("file", type=Path, metavar="FILE.yaml", help="the experiment; see docs/experiments.md")
    parser.add_argument(
        "--set",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME=VALUE",
        help="in place of the file's values, such as paths.data=DATA-BIN",
    )
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="folder of the runs and results")
    parser.add_argument(
        "--jobs", type=process_count, default=1, metavar="N", help="trainings at a time, one GPU each (default: 1)"
    )
    parser.add_argument(
        "--only", nargs="+", action="extend", default=[], metavar="ARM", help="this time only these arms"
    )
    parser.add_argument("--dry-run", action="store_true", help="print what is done and what is not, and do nothing")
    add_cpu(parser)


def run(args: argparse.Namespace) -> None:
    """Prints what is done, does the rest, and says where the tables are."""
    from ..extras import require

    require("fairseq", "omegaconf", extra="fairseq")
    require("jinja2", extra="report")
    from ..experiments.outcome import PAGE_NAME, TABLES_NAME
    from ..experiments.run import Options, Runner
    from ..experiments.settings import read_experiment
    from ..finetuning.process import exit_on_signal
    from ..finetuning.run import RESULTS_NAME

    runner = Runner(
        read_experiment(args.file, args.set),
        Options(file=args.file, output=args.output, only=args.only, jobs=args.jobs, cpu=args.cpu),
    )
    if args.dry_run:
        runner.check()
        print("\n".join(runner.table()))
        return
    with exit_on_signal(signal.SIGTERM), exit_on_signal(signal.SIGHUP):
        try:
            failed = runner.execute()
        except (KeyboardInterrupt, SystemExit):
            results = args.output / RESULTS_NAME
            so_far = f"; results so far: {results}" if results.exists() else ""
            print(f"stopped; the same command continues{so_far}", file=sys.stderr)
            raise
    print("\n".join(runner.table()))
    for path in (args.output / TABLES_NAME, args.output / PAGE_NAME):
        if path.exists():
            print(f"wrote {path}")
    if failed:
        raise TrueNegError(f"{len(failed)} failed, the first: {failed[0]}")
