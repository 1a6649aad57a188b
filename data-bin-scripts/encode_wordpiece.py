"""Encodes text files to BERT's WordPiece pieces, and writes the fairseq dictionary that goes with them."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from truneg_fairseq.commands.main import run_as_script


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds --vocab, --inputs, --output-dir, --cased and --workers."""
    parser.add_argument("--vocab", type=Path, required=True, metavar="FILE", help="BERT's vocab.txt")
    parser.add_argument(
        "--inputs",
        type=Path,
        nargs="+",
        required=True,
        metavar="FILE",
        help="UTF-8 text; NAME.txt becomes NAME.pieces, and binarize.py expects the names train, valid and test",
    )
    parser.add_argument("--output-dir", type=Path, required=True, metavar="DIR", help="folder for the pieces")
    parser.add_argument("--cased", action="store_true", help="keep upper case and accents (a cased vocabulary)")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="threads (default: 1)")


def run(args: argparse.Namespace) -> None:
    """Encodes the files and prints what each became."""
    from truneg_fairseq.data.wordpiece import encode_files
    from truneg_fairseq.errors import TrueNegError

    if args.workers < 1:
        raise TrueNegError(f"--workers {args.workers}: expected 1 or more")
    os.environ["RAYON_NUM_THREADS"] = str(args.workers)  # read by tokenizers when it encodes for the first time
    for file in encode_files(args.vocab, args.inputs, args.output_dir, args.cased):
        print(
            f"{file.path}: {file.lines:,} lines ({file.blank:,} blank), {file.pieces:,} pieces, "
            f"{file.unknown:,} unknown ({file.unknown / file.pieces:.3%})"
        )


if __name__ == "__main__":
    run_as_script(sys.modules[__name__])
