"""``truneg lexsub``: do checkpoints put the words first that people accept?"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from ..errors import TrueNegError
from ..options import option
from ..paths import require_writable


@dataclass(frozen=True, kw_only=True)
class JudgementsOptions:
    """What every measurement against people's judgements needs."""

    data: Path = option(help="folder of binarized data with its tokenizer", metavar="DATA-BIN")
    judgements: Path = option(help="file of SWORDS's format, plain or gzipped", metavar="JSON")
    cpu: bool = option(False, help="use the CPU only")


@dataclass(frozen=True, kw_only=True)
class LexsubOptions(JudgementsOptions):
    checkpoints: list[Path] = option(
        help="fairseq checkpoints of masked LMs or ELECTRAs; the others are compared with the first",
        positional=True,
        metavar="CHECKPOINT",
    )
    results: Path | None = option(
        None, help="also add the scores to this result file of truneg compare", metavar="JSONL"
    )
    models: list[str] = option(
        help="a name for each checkpoint (default: its folder and file)", default_factory=list, metavar="NAME"
    )
    seeds: list[int] = option(
        help="of --results: the seed of each checkpoint's training (1)", default_factory=list, metavar="N"
    )


def lexsub(options: LexsubOptions) -> None:
    """Measure checkpoints by lexical substitution: do they put the words first that people accept?

    Prints the metrics with the vocabulary's ceiling, and the differences to the first checkpoint.
    """
    paths = options.checkpoints
    names = options.models or [f"{path.absolute().parent.name}/{path.stem}" for path in paths]
    seeds = options.seeds or [1] * len(paths)
    for flag, values in (("--models", names), ("--seeds", seeds)):
        if len(values) != len(paths):
            raise TrueNegError(f"{flag}: found {len(values)}, expected one for each of {len(paths)} checkpoints")
    if len(set(zip(names, seeds, strict=True))) < len(names):
        raise TrueNegError("--models: two checkpoints have the same name and seed; expected different ones")
    if options.results is not None:
        require_writable(options.results, "--results", makes_folders=True)
    from .. import register
    from ..finetuning.run import quiet_fairseq

    register()
    from ..comparison.results import append_result
    from ..comparison.tables import terminal
    from ..lexsub.evaluation import Benchmark
    from ..lexsub.model import MaskedLm
    from ..lexsub.places import Placer
    from ..lexsub.report import NOTES, tables
    from ..lexsub.swords import read_judgements

    quiet_fairseq()
    judgements = read_judgements(options.judgements)
    benchmark = Benchmark(judgements, Placer(options.data))
    if not benchmark.places:
        raise TrueNegError(
            f"{options.judgements}: none of its targets is a token of the dictionary with candidates that are; "
            "expected the language of the model"
        )
    print(benchmark.described(options.judgements.name))
    scores, results = {}, []
    for checkpoint, name, seed in zip(paths, names, seeds, strict=True):
        started = time.monotonic()
        title = name if len(set(seeds)) == 1 else f"{name} {seed}"
        found = scores[title] = benchmark.evaluate(MaskedLm(checkpoint, options.data, cpu=options.cpu))
        print(f"{title}: {time.monotonic() - started:.0f} s", flush=True)
        about = {"judgements": options.judgements.name, "sha256": judgements.sha256, "checkpoint": str(checkpoint)}
        results += found.results(name, seed, about)
    for table in tables(scores, benchmark.ceiling()):
        print("\n".join(["", *terminal(table)]))
    print("\n" + "\n".join(NOTES), flush=True)
    if options.results is not None:
        for result in results:
            append_result(options.results, result)
