"""Prepares GLUE's official files for fairseq's sentence_prediction task with the pre-trained model's own tokenizer."""

from __future__ import annotations

import argparse
from pathlib import Path

from ...glue.files import TASKS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds --glue-dir, --data, --output-dir, --tasks and --swap-pairs."""
    parser.add_argument(
        "--glue-dir", type=Path, required=True, metavar="DIR", help="folder with a folder of official files per task"
    )
    parser.add_argument(
        "--data", type=Path, required=True, metavar="DATA-BIN", help="the pre-trained model's data: dict.txt, tokenizer"
    )
    parser.add_argument("--output-dir", type=Path, required=True, metavar="DIR", help="folder to write")
    parser.add_argument(
        "--tasks", nargs="+", action="extend", choices=list(TASKS), metavar="TASK", help="default: all eight"
    )
    parser.add_argument(
        "--swap-pairs",
        action="store_true",
        help="double the training pairs of MRPC and STS-B by swapping the sentences, as ELECTRA does",
    )


def run(args: argparse.Namespace) -> None:
    """Prepares the tasks and prints what each holds."""
    from ...glue.prepare import prepare_glue

    prepared = prepare_glue(
        args.glue_dir, args.data, args.output_dir, list(dict.fromkeys(args.tasks or TASKS)), args.swap_pairs
    )
    for folder, info, made in prepared:
        print(f"{folder}: {'made' if made else 'is already there; remove it to make it again'}")
        for name, split in info["splits"].items():
            longer = ", ".join(f"{count:,} longer than {length}" for length, count in split["longer_than"].items())
            print(
                f"{name}: {split['examples']:,} examples, {split['tokens']:,} tokens, {split['unknown']:,} unknown "
                f"({split['unknown'] / split['tokens']:.3%}), {longer}, {split['empty']:,} with an empty sentence, "
                f"{split['skipped']:,} broken lines skipped"
            )
        files = dict(TASKS[info["task"]].files)
        absent = [name for name in files if name not in info["splits"]]
        if absent:
            print(f"no {', '.join(absent)}: {', '.join(files[name] for name in absent)} not there")
