"""Extracts a published corpus to plain text: a paragraph a line, a blank line behind every document.

Killed or failed, it is run again with the same flags and continues.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ...corpora.formats import FORMATS
from ...corpora.text import BROKEN_UTF8
from ..parser import process_count


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the files, their format, the folder and what is held out."""
    parser.add_argument(
        "--format",
        choices=FORMATS,
        required=True,
        help="; ".join(f"{name}: {form.summary}" for name, form in FORMATS.items()),
    )
    for split in ("train", "valid", "test"):
        parser.add_argument(
            f"--{split}",
            type=Path,
            nargs="+",
            action="extend",
            default=[],
            metavar="FILE",
            help="files or folders, also .gz, .bz2, .xz or .zst",
        )
    parser.add_argument("--output-dir", type=Path, required=True, metavar="DIR", help="folder to make")
    parser.add_argument(
        "--valid-every",
        type=int,
        default=0,
        metavar="N",
        help="one training document in N goes to valid, where the corpus has none",
    )
    parser.add_argument("--field", default="text", help="field or column of .jsonl and .parquet (default: text)")
    parser.add_argument(
        "--broken-utf8",
        choices=BROKEN_UTF8,
        default="error",
        help="a line that is not UTF-8: stop, replace what is broken by U+FFFD, or skip the line (default: error)",
    )
    parser.add_argument("--workers", type=process_count, metavar="N", help="processes (default: one per core)")


def run(args: argparse.Namespace) -> None:
    """Extracts and prints what each split holds."""
    from ...corpora.extract import ExtractSettings, extract
    from ...parallel import available_cores

    done = extract(
        {"train": args.train, "valid": args.valid, "test": args.test},
        args.output_dir,
        ExtractSettings(args.format, args.field, args.valid_every, args.broken_utf8),
        available_cores() if args.workers is None else args.workers,
    )
    print(f"{args.output_dir}: {'extracted' if done.made else 'is already there; remove it to extract again'}")
    for split, counts in done.splits.items():
        left = [f"{counts.empty:,} documents without text left out"] if counts.empty else []
        left += [f"{counts.skipped:,} lines skipped (broken UTF-8)"] if counts.skipped else []
        left += [f"{counts.replaced:,} lines repaired (broken UTF-8)"] if counts.replaced else []
        print(", ".join([f"{split}: {counts.documents:,} documents", f"{counts.lines:,} lines", *left]))
    print(f"{done.seconds:.1f} s")
