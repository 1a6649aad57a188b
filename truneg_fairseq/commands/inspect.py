"""Measure checkpoints' loss, accuracy and false negatives on a binarized split, and show some."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the checkpoints, the data and what to print."""
    parser.add_argument(
        "--checkpoint",
        type=Path,
        nargs="+",
        required=True,
        metavar="PT",
        help="fairseq checkpoints of masked-LM models",
    )
    parser.add_argument("--data", type=Path, required=True, metavar="DATA-BIN", help="folder of binarized data")
    parser.add_argument("--split", default="valid", help="valid, test, train ... (default: valid)")
    parser.add_argument("--batch-size", type=int, default=32, metavar="N", help="sequences a batch (default: 32)")
    parser.add_argument(
        "--synonym-table", type=Path, metavar="NPZ", help="default: synonyms.npz beside the data, built when missing"
    )
    parser.add_argument(
        "--tokenization", default="auto", help="auto (detected), wordpiece, sentencepiece, gpt2 or words"
    )
    parser.add_argument(
        "--examples", type=int, default=10, metavar="N", help="false negatives to show, of the last checkpoint (10)"
    )
    parser.add_argument("--json", type=Path, metavar="JSONL", help="also write one JSON line a checkpoint to this file")
    parser.add_argument("--color", choices=("auto", "always", "never"), default="auto", help="default: on a terminal")


def run(args: argparse.Namespace) -> None:
    """Prints one row a checkpoint (loss in bits; accuracy and the rates of Table 2 in %), then the examples."""
    from ..inspection.report import report

    lines = report(
        args.checkpoint,
        args.data,
        split=args.split,
        batch_size=args.batch_size,
        synonym_table=args.synonym_table,
        tokenization=args.tokenization,
        examples=args.examples,
        json_file=args.json,
        color=sys.stdout.isatty() and "NO_COLOR" not in os.environ if args.color == "auto" else args.color == "always",
    )
    for line in lines:
        print(line, flush=True)
