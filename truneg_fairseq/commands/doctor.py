"""Check the installation, or the folder of a training run, and say what is wrong."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The run's folder."""
    parser.add_argument(
        "run_folder", nargs="?", type=Path, metavar="RUN", help="--save-dir of a training (default: the installation)"
    )


def run(args: argparse.Namespace) -> None:
    """Prints a line for each check; exits with 1 where anything is wrong."""
    from ..doctor import check_installation, check_run

    wrong = 0
    if args.run_folder is not None:
        from .. import register

        register()  # what fairseq's checkpoints hold is safe to load from now on
    for finding in check_installation() if args.run_folder is None else check_run(args.run_folder):
        print(f"{'ok   ' if finding.good else 'WRONG'}  {finding.text}", flush=True)
        wrong += not finding.good
    if wrong:
        print(f"{wrong} {'problem' if wrong == 1 else 'problems'} found")
        sys.exit(1)
