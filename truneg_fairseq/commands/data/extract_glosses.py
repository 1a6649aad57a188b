"""Writes WordNet's glosses and examples as train.txt and valid.txt, one synset a line."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds --output-dir and --valid-every."""
    parser.add_argument("--output-dir", type=Path, required=True, metavar="DIR", help="folder for the two files")
    parser.add_argument(
        "--valid-every", type=int, default=100, metavar="N", help="one synset in N goes to valid.txt (default: 100)"
    )


def run(args: argparse.Namespace) -> None:
    """Writes the two files and prints their numbers of lines."""
    from ...corpora.glosses import extract_glosses

    counts = extract_glosses(args.output_dir, args.valid_every)
    print(f"{args.output_dir / 'train.txt'}: {counts.train:,} lines")
    print(f"{args.output_dir / 'valid.txt'}: {counts.valid:,} lines")
