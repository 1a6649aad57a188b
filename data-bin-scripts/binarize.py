"""Binarizes the pieces of encode_wordpiece.py with fairseq-preprocess."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from truneg_fairseq.commands.main import run_as_script


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds --pieces-dir, --output-dir and --workers."""
    parser.add_argument(
        "--pieces-dir", type=Path, required=True, metavar="DIR", help="the --output-dir of encode_wordpiece.py"
    )
    parser.add_argument("--output-dir", type=Path, required=True, metavar="DATA-BIN", help="folder to make")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="processes (default: 1)")


def run(args: argparse.Namespace) -> None:
    """Binarizes and prints what each split holds."""
    from truneg_fairseq.data.binarize import binarize

    splits, made = binarize(args.pieces_dir, args.output_dir, args.workers)
    print(f"{args.output_dir}: {'binarized' if made else 'is already there; remove it to binarize again'}")
    for split in splits:
        print(
            f"{split.name}: {split.lines:,} lines ({split.blank:,} blank), {split.tokens:,} tokens, "
            f"{split.unknown:,} unknown ({split.unknown / split.tokens:.3%})"
        )


if __name__ == "__main__":
    run_as_script(sys.modules[__name__])
