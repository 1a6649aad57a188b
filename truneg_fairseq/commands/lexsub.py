"""Measure checkpoints by lexical substitution: do they put the words first that people accept?"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import TrueNegError
from ..paths import require_writable
from .parser import add_cpu

if TYPE_CHECKING:
    from ..lexsub.evaluation import Benchmark


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the checkpoints, the data, the judgements and where results go."""
    parser.add_argument(
        "checkpoints",
        type=Path,
        nargs="+",
        metavar="CHECKPOINT",
        help="fairseq checkpoints of masked LMs or ELECTRAs; the others are compared with the first",
    )
    parser.add_argument(
        "--data", type=Path, required=True, metavar="DATA-BIN", help="folder of binarized data with its tokenizer"
    )
    parser.add_argument(
        "--judgements", type=Path, required=True, metavar="JSON", help="file of SWORDS's format, plain or gzipped"
    )
    parser.add_argument(
        "--results", type=Path, metavar="JSONL", help="also add the scores to this result file of truneg compare"
    )
    parser.add_argument(
        "--models",
        nargs="+",
        action="extend",
        metavar="NAME",
        help="a name for each checkpoint (default: its folder and file)",
    )
    parser.add_argument(
        "--seeds",
        type=int,
        nargs="+",
        action="extend",
        metavar="N",
        help="of --results: the seed of each checkpoint's training (1)",
    )
    parser.add_argument("--format", choices=("terminal", "markdown", "latex"), default="terminal", help="table format")
    add_cpu(parser)


def run(args: argparse.Namespace) -> None:
    """Prints the metrics with the vocabulary's ceiling, and the differences to the first checkpoint."""
    names = args.models or [f"{path.absolute().parent.name}/{path.stem}" for path in args.checkpoints]
    seeds = args.seeds or [1] * len(args.checkpoints)
    for flag, values in (("--models", names), ("--seeds", seeds)):
        if len(values) != len(args.checkpoints):
            raise TrueNegError(
                f"{flag}: found {len(values)}, expected one for each of {len(args.checkpoints)} checkpoints"
            )
    if len(set(zip(names, seeds, strict=True))) < len(names):
        raise TrueNegError("--models: two checkpoints have the same name and seed; expected different ones")
    if args.results is None and args.seeds is not None:
        raise TrueNegError("--seeds: has no effect without --results")
    if args.results is not None:
        require_writable(args.results, "--results", makes_folders=True)
    from ..finetuning.training import quiet_fairseq, start_fairseq

    start_fairseq()
    from ..comparison.results import append_result
    from ..comparison.tables import FORMATS
    from ..lexsub.evaluation import Benchmark
    from ..lexsub.model import MaskedLm
    from ..lexsub.places import Placer
    from ..lexsub.report import NOTES, tables
    from ..lexsub.swords import read_judgements

    quiet_fairseq()
    judgements = read_judgements(args.judgements)
    benchmark = Benchmark(judgements, Placer(args.data))
    print(_described(benchmark, args.judgements))
    titles = [
        name if seeds.count(seed) == len(seeds) else f"{name} {seed}" for name, seed in zip(names, seeds, strict=True)
    ]
    scores = {}
    clash: TrueNegError | None = None
    for checkpoint, name, seed, title in zip(args.checkpoints, names, seeds, titles, strict=True):
        started = time.monotonic()
        found = benchmark.evaluate(MaskedLm(checkpoint, args.data, cpu=args.cpu))
        scores[title] = found
        print(f"{title}: {time.monotonic() - started:.0f} s", flush=True)
        if args.results is not None:
            settings = {"judgements": args.judgements.name, "sha256": judgements.sha256, "checkpoint": str(checkpoint)}
            try:
                for result in found.results(name, seed, settings):
                    append_result(args.results, result)
            except TrueNegError as error:
                clash = clash or error  # told after the tables, which took the time
    for table in tables(scores, benchmark.ceiling()):
        print("\n".join(["", *FORMATS[args.format](table)]))
    print("\n" + "\n".join(NOTES), flush=True)
    if clash is not None:
        raise clash


def _described(benchmark: Benchmark, path: Path) -> str:
    places = benchmark.places
    if not places:
        raise TrueNegError(
            f"{path}: none of its targets is a token of the dictionary with candidates that are; "
            "expected the language of the model"
        )
    candidates = sum(len(place.candidates) for place in places)
    return (
        f"{path.name}: {len(places)} targets; {benchmark.unknown} are not one token of the dictionary and left out, "
        f"{benchmark.unranked} have no one-token candidate that anybody accepts; GAP ranks "
        f"{candidates - benchmark.several:,} of {candidates:,} candidates, the others are not one token"
    )
