"""Binarizes text for fairseq: a line is an item, a blank line keeps documents apart.

Killed or failed, it is run again with the same flags and continues. On many machines that share a folder, each runs
--shard i/n first; the run without --shard does what is missing and puts everything together.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ...corpora.text import BROKEN_UTF8
from ...data.tokenizer_flags import add_tokenizer_arguments
from ..parser import process_count


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the text, the folder, the tokenizer and how the work is shared."""
    for split in ("train", "valid", "test"):
        parser.add_argument(
            f"--{split}",
            type=Path,
            nargs="+",
            action="extend",
            default=[],
            metavar="TEXT",
            help="UTF-8 text files, or folders of *.txt",
        )
    parser.add_argument("--output-dir", type=Path, required=True, metavar="DATA-BIN", help="folder to make")
    add_tokenizer_arguments(parser)
    parser.add_argument(
        "--dict",
        type=Path,
        metavar="FILE",
        help="a dict.txt with an order of its own, such as that of fairseq's RoBERTa (default: the tokenizer's order)",
    )
    parser.add_argument("--workers", type=process_count, metavar="N", help="processes (default: one per core)")
    parser.add_argument("--shard", metavar="i/n", help="do only this part of the work, for one of n machines")
    parser.add_argument(
        "--data-shards",
        type=int,
        default=1,
        metavar="N",
        help="training data in N folders, for fairseq-train DATA-BIN/0:DATA-BIN/1:... (default: 1)",
    )
    parser.add_argument(
        "--broken-utf8",
        choices=BROKEN_UTF8,
        default="error",
        help="a line that is not UTF-8: stop, replace what is broken by U+FFFD, or skip the line (default: error)",
    )
    parser.add_argument(
        "--chunk-bytes",
        type=int,
        default=16 << 20,
        metavar="N",
        help="size of the chunks of text; an interruption loses at most one per process (default: 16 MiB)",
    )


def run(args: argparse.Namespace) -> None:
    """Binarizes and prints what each split holds."""
    from ...data.binarize import Shard, binarize
    from ...data.tokenizer_flags import tokenizer_from_arguments
    from ...parallel import available_cores

    dictionary = args.dict
    if dictionary is None and args.tokenizer_dir is not None:
        dictionary = args.tokenizer_dir / "dict.txt"
    done = binarize(
        {"train": args.train, "valid": args.valid, "test": args.test},
        tokenizer_from_arguments(args),
        args.output_dir,
        dictionary=dictionary,
        workers=available_cores() if args.workers is None else args.workers,
        shard=None if args.shard is None else Shard.parse(args.shard),
        data_shards=args.data_shards,
        broken_utf8=args.broken_utf8,
        chunk_bytes=args.chunk_bytes,
    )
    if args.shard is not None:
        print(f"{args.output_dir}: shard {args.shard} is done; a run without --shard puts all together")
    else:
        print(f"{args.output_dir}: {'binarized' if done.made else 'is already there; remove it to binarize again'}")
    for split, counts in done.splits.items():
        broken = [
            f"{n:,} lines {what}" for n, what in ((counts.skipped, "skipped"), (counts.replaced, "repaired")) if n
        ]
        print(
            f"{split}: {counts.documents:,} documents, {counts.lines:,} lines ({counts.blank:,} blank), "
            f"{counts.tokens:,} tokens, {counts.unknown:,} unknown ({counts.unknown / max(1, counts.tokens):.3%})"
            + "".join(f", {text} (broken UTF-8)" for text in broken)
        )
    print(f"{done.seconds:.1f} s")
    if len(done.folders) > 1:
        print(f"fairseq-train {':'.join(map(str, done.folders))}")
