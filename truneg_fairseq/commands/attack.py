"""Attack SQuAD's questions, and measure what that does to a model."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from ..errors import TrueNegError
from ..files import require_writable
from ..options import option
from ..robustness.attack import AttackOptions
from .output import JsonOutput, print_unless_json, write_json


@dataclass(kw_only=True)
class ScoreOptions(JsonOutput):
    file: Path = option(
        help="OUT.pairs.json of 'truneg attack squad', or a file of Jia and Liang (AddSent, AddOneSent)",
        metavar="FILE.json",
        positional=True,
    )
    answers: Path = option(
        help="a model's answers to IN.json by question id, or to all questions of Jia and Liang's file",
        metavar="ANSWERS.json",
        positional=True,
    )
    transformed: Path | None = option(None, "answers to OUT.json", metavar="TRANSFORMED.json", positional=True)
    name: str | None = option(None, "of the attack (default: the transformation's, or FILE's)")
    results: Path | None = option(None, "also add the scores to this result file", metavar="JSONL")
    model: str | None = option(None, "for --results: the model's name in tables", metavar="NAME")
    seed: int | None = option(None, "for --results: the seed of the model's fine-tuning")


def squad(options: AttackOptions) -> None:
    """Swap words of SQuAD's paragraphs for synonyms of WordNet (SwapSynWordNet).

    Writes the questions that it applies to, transformed, with their answers at their offsets and their ids as they
    were, and beside them the pairs of original and transformed questions.
    """
    from ..robustness.attack import SwapSynWordNet, attack_file

    print("\n".join(attack_file(options, lambda questions: SwapSynWordNet())))


def score(options: ScoreOptions) -> None:
    """Score a model before and after an attack.

    Prints exact match and F1 before and after it (Ori. -> Trans. of Table 5) on the questions that it applies to, with
    the 95 % confidence interval of the drop by bootstrap over them. In a file of Jia and Liang the worst variant of
    each original question counts.
    """
    from ..results.result import append_result
    from ..robustness.attack import measure_files

    if options.results is not None:
        if options.model is None or options.seed is None:
            raise TrueNegError("--results: needs --model and --seed, which a line of a result file has")
        require_writable(options.results, "--results", makes_folders=True)
    measured = measure_files(options.file, options.answers, options.transformed, name=options.name)
    say = print_unless_json(options)
    for line in measured.lines():
        say(line)
    write_json(options, measured.report())
    if options.results is None:
        return
    assert options.model is not None and options.seed is not None
    if not append_result(options.results, measured.result(options.model, options.seed)):
        print(f"{options.results}: has this result already", file=sys.stderr)


COMMANDS = {"": __doc__, "squad": squad, "score": score}
