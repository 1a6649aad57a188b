"""Trains a BERT WordPiece vocabulary (vocab.txt) on text files, for models that start from scratch."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds --inputs, --output, --vocab-size and --cased."""
    parser.add_argument(
        "--inputs", type=Path, nargs="+", action="extend", required=True, metavar="FILE", help="UTF-8 text"
    )
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="vocab.txt to write")
    parser.add_argument(
        "--vocab-size", type=int, default=30_522, metavar="N", help="most entries (default: 30522, as in BERT)"
    )
    parser.add_argument("--cased", action="store_true", help="keep upper case and accents")


def run(args: argparse.Namespace) -> None:
    """Trains and prints how many entries there are."""
    from ...data.train_wordpiece import train_wordpiece

    entries = train_wordpiece(args.inputs, args.output, args.vocab_size, args.cased)
    print(f"{args.output}: {entries:,} entries")
