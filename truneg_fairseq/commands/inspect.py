"""Measure checkpoints' loss, accuracy and false negatives on a binarized split, and show some."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import TrueNegError
from .output import add_color, add_json, print_unless_json, write_json_lines

if TYPE_CHECKING:
    from ..inspection.inspector import Inspector
    from ..inspection.measurements import Measurement

_PAIRS = 10
_COSINE = "embedding:"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the checkpoints, the data and what to print."""
    parser.add_argument(
        "--checkpoint", type=Path, nargs="+", metavar="PT", help="fairseq checkpoints of masked-LM models"
    )
    parser.add_argument("--data", type=Path, metavar="DATA-BIN", help="folder of binarized data")
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
        metavar="SOURCE",
        help="of --sheet: who takes a mistake for none: tables (.npz), or embedding:X, a cosine of at least X "
        "(default: the synonym table)",
    )
    people.add_argument("--cases", type=int, default=50, metavar="N", help="of --sheet: of each source (50)")
    people.add_argument("--marked", type=Path, metavar="CSV", help="precision by source of a sheet that is marked")


def run(args: argparse.Namespace) -> None:
    """Prints one row a checkpoint (loss in bits; accuracy and the rates of Table 2 in %), then pairs and examples."""
    if args.marked is not None:
        _print_precision(args)
        return
    if args.checkpoint is None or args.data is None:
        raise TrueNegError("inspect: expected --checkpoint and --data, or --marked and a sheet")
    if min(args.batch_size, args.cases) < 1 or args.examples < 0:
        raise TrueNegError(
            f"--batch-size {args.batch_size}, --cases {args.cases}, --examples {args.examples}: expected at least 1, "
            "1 and 0"
        )
    from .. import register

    register()
    from ..files import replacing_text
    from ..inspection.inspector import Inspector
    from ..inspection.measurements import COLUMNS, write_csv, write_picture
    from ..inspection.sentences import describe, in_color

    inspector = Inspector(
        args.data,
        args.split,
        batch_size=args.batch_size,
        synonym_table=args.synonym_table,
        tokenization=args.tokenization,
    )
    # Weights that were converted do not know how long the samples of the training will be: its last checkpoint does.
    inspector.prepare(args.checkpoint[-1])
    say = print_unless_json(args)
    say("  ".join(f"{name:>9}" for name, _ in COLUMNS) + "  checkpoint")
    measurements: list[Measurement] = []
    for checkpoint in args.checkpoint:
        last = len(measurements) == len(args.checkpoint) - 1
        measurements.append(inspector.measure(checkpoint, pairs=_PAIRS, examples=args.examples if last else 0))
        say(measurements[-1].row())
    final = measurements[-1]
    if final.pairs:
        say(f"\nthe most frequent corrected pairs of {final.checkpoint}")
        for gold, prediction, count in final.pairs:
            say(f"  {count:6d}  {gold} -> {prediction}")
    if args.examples:
        say(f"\n{len(final.examples)} of {final.false_negatives} false negatives of {final.checkpoint}")
        for example in final.examples:
            say("  " + describe(example, color=in_color(args.color)))
    write_json_lines(args, [each.record() for each in measurements])
    if args.csv is not None:
        with replacing_text(args.csv) as stream:
            write_csv(stream, measurements)
    if args.picture is not None:
        write_picture(args.picture, measurements)
    if args.sheet is not None:
        _write_sheet(args, inspector)


def _write_sheet(args: argparse.Namespace, inspector: Inspector) -> None:
    from ..inspection.sheet import draw, key_path, write_sheet
    from ..synonyms import SynonymTable
    from ..synonyms.provision import TABLE_NAME

    tables, cosines = {}, {}
    for source in args.sources or [str(args.synonym_table or args.data / TABLE_NAME)]:
        if source.startswith(_COSINE):
            cosines[source] = _cosine(source)
        else:
            tables[source] = SynonymTable.load(Path(source))
            tables[source].check_dictionary(inspector.vocabulary.fingerprint, Path(source), str(args.data))
    cases = draw(inspector.cases(args.checkpoint[-1], tables, cosines), [*tables, *cosines], args.cases)
    if not cases:
        raise TrueNegError(f"--sheet: {args.checkpoint[-1]} makes no mistake at a whole word; choose a larger split")
    write_sheet(args.sheet, cases)
    print_unless_json(args)(
        f"\nwrote {args.sheet} ({len(cases)} cases; write yes or no into 'acceptable'; {key_path(args.sheet)}, not for "
        "the marker, has their sources)"
    )


def _cosine(source: str) -> float:
    try:
        least = float(source.removeprefix(_COSINE))
        if -1 <= least <= 1:
            return least
    except ValueError:
        pass
    raise TrueNegError(f"--sources {source}: expected {_COSINE} and a cosine from -1 to 1, as {_COSINE}0.5")


def _print_precision(args: argparse.Namespace) -> None:
    from ..inspection.sheet import read_precision

    found = read_precision(args.marked)
    say = print_unless_json(args)
    say("marked  acceptable  precision, %  95 % interval  source")
    for each in found:
        low, high = each.interval()
        share = f"{100 * each.accepted / each.marked:.1f}" if each.marked else "-"
        say(f"{each.marked:6d}  {each.accepted:10d}  {share:>12}  [{100 * low:4.1f}, {100 * high:5.1f}]  {each.source}")
    write_json_lines(
        args,
        [
            {"source": each.source, "marked": each.marked, "accepted": each.accepted, "interval": each.interval()}
            for each in found
        ],
    )
