"""Prepares SQuAD 1.1 or 2.0 as sliding windows with the pre-trained model's own tokenizer."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds --train, --valid, --data, --output-dir, --max-length, --doc-stride and --max-query-length."""
    parser.add_argument("--train", type=Path, metavar="JSON", help="SQuAD's questions to train on")
    parser.add_argument(
        "--valid", type=Path, metavar="JSON", help="questions to answer: SQuAD's dev set or an attack's"
    )
    parser.add_argument(
        "--data", type=Path, required=True, metavar="DATA-BIN", help="the pre-trained model's data: dict.txt, tokenizer"
    )
    parser.add_argument("--output-dir", type=Path, required=True, metavar="DIR", help="folder to make")
    parser.add_argument(
        "--max-length", type=int, default=384, metavar="N", help="tokens of a window (default: 384; the paper's: 512)"
    )
    parser.add_argument(
        "--doc-stride", type=int, default=128, metavar="N", help="tokens between window starts (default: 128)"
    )
    parser.add_argument(
        "--max-query-length", type=int, default=64, metavar="N", help="longest question in tokens (default: 64)"
    )


def run(args: argparse.Namespace) -> None:
    """Prepares the splits and prints what each holds."""
    from ...squad.features import WindowSettings, prepare_squad

    settings = WindowSettings(
        max_length=args.max_length, doc_stride=args.doc_stride, max_query_length=args.max_query_length
    )
    files = {name: path for name, path in (("train", args.train), ("valid", args.valid)) if path is not None}
    info, made = prepare_squad(files, args.data, args.output_dir, settings)
    print(f"{args.output_dir}: {'made' if made else 'is already there; remove it to make it again'}")
    for name, split in info["splits"].items():
        longer = ", ".join(f"{count:,} longer than {length}" for length, count in split["longer_than"].items())
        print(
            f"{name}: {split['questions']:,} questions ({split['impossible']:,} impossible; {longer}; "
            f"{split['cut_queries']:,} cut to {args.max_query_length}) on {split['contexts']:,} contexts, "
            f"{split['windows']:,} windows ({split['without_answer']:,} without the answer), "
            f"{split['tokens']:,} tokens, {split['unknown']:,} unknown"
        )
        for reason, ids in split["not_found"].items():
            print(f"{name}: {'skipped' if name == 'train' else 'kept'} {len(ids):,}, {reason} (e.g. {ids[0]})")
