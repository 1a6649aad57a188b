"""Attack SQuAD's questions, and measure what that does to a model."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import TrueNegError
from ..files import require_writable
from ..options import option
from ..robustness.attack_file import AttackOptions
from .output import JsonOutput, print_unless_json, write_json

if TYPE_CHECKING:
    from ..robustness.measure import Robustness


@dataclass(kw_only=True)
class _ResultOptions(JsonOutput):
    name: str | None = option(None, "of the attack (default: the transformation's, or the data's file name)")
    results: Path | None = option(None, "also add the scores to this result file", metavar="JSONL")
    model: str | None = option(None, "for --results: the model's name in tables", metavar="NAME")
    seed: int | None = option(None, "for --results: the seed of the model's fine-tuning")


@dataclass(kw_only=True)
class ScoreOptions(_ResultOptions):
    pairs: Path = option(help="file of pairs from 'truneg attack squad'", metavar="PAIRS.json", positional=True)
    original: Path = option(help="answers to IN.json, by question id", metavar="ORIGINAL.json", positional=True)
    transformed: Path = option(help="answers to OUT.json", metavar="TRANSFORMED.json", positional=True)


@dataclass(kw_only=True)
class ScoreAdversarialOptions(_ResultOptions):
    data: Path = option(help="original questions and their variants", metavar="DATA.json", positional=True)
    predictions: Path = option(help="answers to all, by question id", metavar="PREDICTIONS.json", positional=True)


def squad(options: AttackOptions) -> None:
    """Transform SQuAD's questions.

    Writes the questions that a transformation applies to, transformed, with their answers at their offsets and their
    ids as they were, and beside them the pairs of original and transformed questions.
    """
    from ..robustness.attack_file import attack_file, describe

    print("\n".join(describe(attack_file(options))))
    print(f"wrote {options.output} and {options.pairs}")


def score(options: ScoreOptions) -> None:
    """Score a model before and after an attack.

    Prints exact match and F1 before and after it (Ori. -> Trans. of Table 5) on the questions that it applies to, with
    the 95 % confidence interval of the drop by bootstrap over the pairs.
    """
    from ..robustness.measure import measure_files

    _report(options, lambda: measure_files(options.pairs, options.original, options.transformed, name=options.name))


def score_adversarial(options: ScoreAdversarialOptions) -> None:
    """Score a model on Jia and Liang's files (AddSent, AddOneSent).

    Prints exact match and F1 of the original questions and, as Jia and Liang have it, of the worst variant of each,
    with the 95 % confidence interval of the drop by bootstrap over the originals.
    """
    from ..robustness.measure import measure_adversarial_files

    name = options.name or options.data.stem
    _report(options, lambda: measure_adversarial_files(name, options.data, options.predictions))


def _report(options: _ResultOptions, measure: Callable[[], Robustness]) -> None:
    from ..results.result import append_result

    if options.results is not None:
        if options.model is None or options.seed is None:
            raise TrueNegError("--results: needs --model and --seed, which a line of a result file has")
        require_writable(options.results, "--results", makes_folders=True)
    measured = measure()
    say = print_unless_json(options)
    for line in measured.lines():
        say(line)
    write_json(options, measured.report())
    if options.results is None:
        return
    assert options.model is not None and options.seed is not None
    if not append_result(options.results, measured.result(options.model, options.seed)):
        print(f"{options.results}: has this result already", file=sys.stderr)


COMMANDS = {"": __doc__, "squad": squad, "score": score, "score-adversarial": score_adversarial}
