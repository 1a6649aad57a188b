"""Measure checkpoints' loss, accuracy and false negatives on a binarized split, and show some."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import TrueNegError
from ..paths import require_different
from .output import add_color, add_json, file_of, in_color, print_unless_json, write_json_lines
from .parser import add_cpu

if TYPE_CHECKING:
    from ..inspection.measurements import Measurement


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the checkpoints, the data and what to print."""
    parser.add_argument(
        "--checkpoint",
        type=Path,
        nargs="+",
        action="extend",
        metavar="PT",
        help="fairseq checkpoints of masked-LM models",
    )
    parser.add_argument("--data", type=Path, metavar="DATA-BIN", help="folder of binarized data")
    parser.add_argument("--split", default="valid", help="valid, test, train ... (default: valid)")
    parser.add_argument("--batch-size", type=int, default=32, metavar="N", help="sequences per batch (default: 32)")
    add_cpu(parser)
    parser.add_argument(
        "--synonym-table", type=Path, metavar="NPZ", help="default: synonyms.npz beside the data, built when missing"
    )
    parser.add_argument(
        "--tokenization", default="auto", help="auto (detected), wordpiece, sentencepiece, gpt2 or words"
    )
    parser.add_argument(
        "--seed",
        type=int,
        metavar="N",
        help="of the masked positions (default: that of the last checkpoint's training)",
    )
    parser.add_argument(
        "--examples", type=int, default=10, metavar="N", help="false negatives to show, of the last checkpoint (10)"
    )
    parser.add_argument("--csv", type=Path, metavar="CSV", help="also write a row a checkpoint, with intervals")
    parser.add_argument("--picture", type=Path, metavar="SVG", help="also draw Table 2's rates over updates")
    add_json(parser, "a line a checkpoint: values, intervals, the most frequent pairs; examples of the last")
    add_color(parser)
    people = parser.add_argument_group("a sheet for people")
    people.add_argument(
        "--sheet", type=Path, metavar="CSV", help="write mistakes of the last checkpoint for a person to mark"
    )
    people.add_argument(
        "--sources",
        nargs="+",
        action="extend",
        metavar="SOURCE",
        help="of --sheet: who takes a mistake for none: tables (.npz), or embedding:X, a cosine of at least X "
        "(default: the synonym table)",
    )
    people.add_argument("--cases", type=int, metavar="N", help="of --sheet: of each source (50)")
    people.add_argument("--marked", type=Path, metavar="CSV", help="precision by source of a sheet that is marked")


def run(args: argparse.Namespace) -> None:
    """Prints a row a checkpoint (loss in bits; accuracy, calibration error, Table 2 in %), then pairs and examples."""
    from ..inspection.report import Outputs, precision_lines, report
    from ..inspection.sheet import key_path, read_precision
    from ..synonyms.provision import TABLE_NAME

    table = args.synonym_table or (args.data and args.data / TABLE_NAME)
    sources = [path for path in map(Path, args.sources or ()) if table is None or path.resolve() != table.resolve()]
    require_different(
        checkpoint=args.checkpoint,
        synonym_table=table,
        sources=sources,
        marked=args.marked and [args.marked, key_path(args.marked)],
        csv=args.csv,
        picture=args.picture,
        sheet=None if args.sheet is None else [args.sheet, key_path(args.sheet)],
        json=file_of(args),
    )
    say = print_unless_json(args)
    if args.marked is not None:
        for name in ("checkpoint", "data", "csv", "picture", "sheet", "sources", "cases", "synonym_table", "seed"):
            if getattr(args, name) is not None:
                flag = f"--{name.replace('_', '-')}"
                raise TrueNegError(f"{flag}: has no effect with --marked, which reads a sheet alone; leave it out")
        found = read_precision(args.marked)
        for line in precision_lines(found):
            say(line)
        write_json_lines(args, [each.record() for each in found])
        return
    if args.checkpoint is None or args.data is None:
        raise TrueNegError("inspect: expected --checkpoint and --data, or --marked and a sheet")
    for name in ("sources", "cases"):
        if getattr(args, name) is not None and args.sheet is None:
            raise TrueNegError(f"--{name}: has no effect without --sheet; leave it out, or give --sheet CSV")
    cases = Outputs.cases if args.cases is None else args.cases
    outputs = Outputs(args.csv, args.picture, args.sheet, args.sources or (), cases)
    outputs.check()
    measurements: list[Measurement] = []
    lines = report(
        args.checkpoint,
        args.data,
        split=args.split,
        batch_size=args.batch_size,
        synonym_table=args.synonym_table,
        tokenization=args.tokenization,
        seed=args.seed,
        cpu=args.cpu,
        examples=args.examples,
        color=in_color(args),
        outputs=outputs,
        measurements=measurements,
    )
    try:
        for line in lines:
            say(line)
    finally:
        if len(measurements) == len(args.checkpoint):  # a sheet that fails takes no measurement away
            write_json_lines(args, [each.record() for each in measurements])
