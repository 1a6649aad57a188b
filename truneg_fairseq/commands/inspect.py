"""Measure checkpoints' loss, accuracy and false negatives on a binarized split, and show some."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import TrueNegError
from ..files import replacing_text

if TYPE_CHECKING:
    from ..inspection.inspector import Inspection

_COLUMNS = (
    ("updates", "{:d}"),
    ("loss", "{:.3f}"),
    ("ppl", "{:.2f}"),
    ("accuracy", "{:.2f}"),
    ("hc_pred", "{:.3f}"),
    ("hc_iter", "{:.2f}"),
)


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
    if args.batch_size < 1 or args.examples < 0:
        raise TrueNegError(
            f"--batch-size {args.batch_size}, --examples {args.examples}: expected at least 1 and at least 0"
        )
    from .. import register

    register()
    from ..inspection.inspector import Inspector
    from ..inspection.sentences import describe

    inspector = Inspector(
        args.data,
        args.split,
        batch_size=args.batch_size,
        synonym_table=args.synonym_table,
        tokenization=args.tokenization,
    )
    # Weights that were converted do not know how long the samples of the training will be: its last checkpoint does.
    inspector.prepare(args.checkpoint[-1])
    inspections: list[Inspection] = []
    print("  ".join(f"{name:>9}" for name, _ in _COLUMNS) + "  checkpoint")
    for checkpoint in args.checkpoint:
        collect = args.examples > 0 and len(inspections) == len(args.checkpoint) - 1
        inspections.append(inspector.inspect(checkpoint, collect=collect))
        print(_row(inspections[-1]), flush=True)
    if args.json is not None:
        _write_json(args.json, inspections)
    if args.examples:
        examples = inspections[-1].sample(args.examples)
        print(f"\n{len(examples)} of {len(inspections[-1].examples)} false negatives of {args.checkpoint[-1]}")
        for example in examples:
            print("  " + describe(example, inspector.vocabulary, color=_in_color(args.color)))


def _record(inspection: Inspection) -> dict[str, object]:
    return {"checkpoint": str(inspection.checkpoint), "updates": inspection.updates, **inspection.values}


def _row(inspection: Inspection) -> str:
    record = _record(inspection)
    return "  ".join(f"{style.format(record[name]):>9}" for name, style in _COLUMNS) + f"  {inspection.checkpoint}"


def _write_json(path: Path, inspections: list[Inspection]) -> None:
    with replacing_text(path) as file:
        file.writelines(json.dumps(_record(inspection)) + "\n" for inspection in inspections)


def _in_color(choice: str) -> bool:
    if choice == "auto":
        return sys.stdout.isatty() and "NO_COLOR" not in os.environ
    return choice == "always"
