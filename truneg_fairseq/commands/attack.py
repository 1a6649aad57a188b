"""Attack SQuAD's questions, and measure what that does to a model."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import TrueNegError
from ..robustness.attack_file import TRANSFORMS

if TYPE_CHECKING:
    from ..robustness.measure import Robustness


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the actions squad, score and score-adversarial."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    _add_squad(actions.add_parser("squad", help="transform SQuAD's questions", description=_squad.__doc__))
    _add_score(actions.add_parser("score", help="score a model before and after", description=_score.__doc__))
    _add_score_adversarial(
        actions.add_parser(
            "score-adversarial",
            help="the same for Jia and Liang's files (AddSent, AddOneSent)",
            description=_score_adversarial.__doc__,
        )
    )


def run(args: argparse.Namespace) -> None:
    """Runs the chosen action."""
    args.act(args)


def _add_squad(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--transform", choices=TRANSFORMS, required=True, help="attack of the paper's Table 5")
    parser.add_argument("--seed", type=int, default=1, help="seed of the random choices of swap-syn-wordnet (1)")
    parser.add_argument(
        "--vectors",
        type=Path,
        metavar="FILE",
        help="for add-sentence-diverse: word vectors (GloVe ...) for nearby words",
    )
    parser.add_argument("--examples", type=int, default=3, metavar="N", help="pairs to show (3)")
    parser.add_argument("data", type=Path, metavar="IN.json", help="in SQuAD's format")
    parser.add_argument("output", type=Path, metavar="OUT.json", help="the transformed questions, in the same format")
    parser.set_defaults(act=_squad)


def _add_score(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pairs", type=Path, metavar="PAIRS.json", help="file of pairs from 'truneg attack squad'")
    for which, of in (("original", "IN.json"), ("transformed", "OUT.json")):
        parser.add_argument(
            f"--{which}-predictions", type=Path, required=True, metavar="JSON", help=f"answers to {of}, by question id"
        )
    parser.add_argument("--name", help="name of the attack (default: the transformation's)")
    _add_results(parser)
    parser.set_defaults(act=_score)


def _add_score_adversarial(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", type=Path, metavar="DATA.json", help="original questions and their variants")
    parser.add_argument("predictions", type=Path, metavar="PREDICTIONS.json", help="answers to all, by question id")
    parser.add_argument("--name", help="name of the attack (default: the data's file name)")
    _add_results(parser)
    parser.set_defaults(act=_score_adversarial)


def _add_results(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--results", type=Path, metavar="JSONL", help="also add the scores to this result file")
    parser.add_argument("--model", metavar="NAME", help="for --results: the model's name in tables")
    parser.add_argument("--seed", type=int, metavar="N", help="for --results: the seed of the model's fine-tuning")


def _squad(args: argparse.Namespace) -> None:
    """Writes the questions that a transformation applies to, transformed, with their answers at their offsets and their
    ids as they were, and beside them the pairs of original and transformed questions.
    """
    from ..robustness.attack_file import attack_file, describe, pairs_file

    result = attack_file(args.transform, args.data, args.output, seed=args.seed, vectors=args.vectors)
    print("\n".join(describe(result, args.examples)))
    print(f"wrote {args.output} and {pairs_file(args.output)}")


def _score(args: argparse.Namespace) -> None:
    """Prints exact match and F1 before and after an attack (Ori. -> Trans. of Table 5) on the questions that it applies
    to, with the 95 % confidence interval of the drop by bootstrap over the pairs.
    """
    from ..robustness.measure import measure_files

    files = (args.pairs, args.original_predictions, args.transformed_predictions)
    _report(args, lambda: measure_files(*files, name=args.name))


def _score_adversarial(args: argparse.Namespace) -> None:
    """Prints exact match and F1 of the original questions and, as Jia and Liang have it, of the worst variant of each,
    with the 95 % confidence interval of the drop by bootstrap over the originals.
    """
    from ..robustness.measure import measure_adversarial_files

    _report(args, lambda: measure_adversarial_files(args.name or args.data.stem, args.data, args.predictions))


def _report(args: argparse.Namespace, measured: Callable[[], Robustness]) -> None:
    from ..comparison.results import append_result
    from ..paths import require_writable

    if args.results is not None:
        if args.model is None or args.seed is None:
            raise TrueNegError("--results: needs --model and --seed, which a line of a result file has")
        require_writable(args.results, "--results", makes_folders=True)
    scores = measured()
    print(json.dumps(scores.report()))
    if args.results is not None and not append_result(args.results, scores.result(args.model, args.seed)):
        print(f"{args.results}: has this result already", file=sys.stderr)
