"""Attack SQuAD's questions, and measure what that does to a model."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import TrueNegError

if TYPE_CHECKING:
    from ..robustness.attacks.transform import Attack, Transform
    from ..robustness.measure import Robustness
    from ..squad.squad_data import Question, SquadData

TRANSFORMS = ("add-sentence-diverse", "swap-syn-wordnet")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the actions squad, score and score-adversarial."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    _add_squad(actions.add_parser("squad", help="transform SQuAD's questions", description=_squad.__doc__))
    _add_score(actions.add_parser("score", help="score a model before and after", description=_score.__doc__))
    _add_score_adversarial(
        actions.add_parser(
            "score-adversarial",
            help="the same of Jia and Liang's files (AddSent, AddOneSent)",
            description=_score_adversarial.__doc__,
        )
    )


def run(args: argparse.Namespace) -> None:
    """Runs the chosen action."""
    args.act(args)


def _add_squad(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--transform", choices=TRANSFORMS, required=True, help="of the paper's Table 5")
    parser.add_argument("--seed", type=int, default=1, help="of random choices, which swap-syn-wordnet makes (1)")
    parser.add_argument(
        "--vectors",
        type=Path,
        metavar="FILE",
        help="of add-sentence-diverse: word vectors (GloVe ...) for nearby words",
    )
    parser.add_argument(
        "--pairs", type=Path, metavar="JSON", help="file of the pairs (default: OUT.pairs.json beside OUT.json)"
    )
    parser.add_argument("--examples", type=int, default=3, metavar="N", help="pairs to show (3)")
    parser.add_argument("data", type=Path, metavar="IN.json", help="in SQuAD's format")
    parser.add_argument("output", type=Path, metavar="OUT.json", help="the transformed questions, in the same format")
    parser.set_defaults(act=_squad)


def _add_score(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pairs", type=Path, metavar="PAIRS.json", help="what 'truneg attack squad' wrote")
    for which, of in (("original", "IN.json"), ("transformed", "OUT.json")):
        parser.add_argument(
            f"--{which}-predictions", type=Path, required=True, metavar="JSON", help=f"answers to {of}, by question id"
        )
    _add_results(parser)
    parser.set_defaults(act=_score)


def _add_score_adversarial(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", type=Path, metavar="DATA.json", help="original questions and their variants")
    parser.add_argument("predictions", type=Path, metavar="PREDICTIONS.json", help="answers to all, by question id")
    parser.add_argument("--name", help="of the attack (default: the data's file name)")
    _add_results(parser)
    parser.set_defaults(act=_score_adversarial)


def _add_results(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--results", type=Path, metavar="JSONL", help="also add the scores to this result file")
    parser.add_argument("--model", metavar="NAME", help="of --results: the model's name in tables")
    parser.add_argument("--seed", type=int, metavar="N", help="of --results: the seed of the model's fine-tuning")


def _squad(args: argparse.Namespace) -> None:
    """Writes the questions that a transformation applies to, transformed, with their answers at their offsets and their
    ids as they were, and beside them the pairs of original and transformed questions.
    """
    from ..robustness.attacks.transform import attack, write_pairs
    from ..squad.squad_data import read_squad, write_squad

    if args.vectors is not None and args.transform != "add-sentence-diverse":
        raise TrueNegError(f"--vectors: --transform {args.transform} uses none; expected add-sentence-diverse")
    pairs = args.pairs or args.output.with_name(f"{args.output.stem}.pairs.json")
    if len({args.data.absolute(), args.output.absolute(), pairs.absolute()}) < 3:
        raise TrueNegError(f"{args.data}, {args.output}, {pairs}: expected three different files")
    data = read_squad(args.data)
    questions = [question.require_legal(str(args.data)) for question in data.questions]
    result = attack(_with_progress(questions), _transform(args, questions), args.seed)
    if not result.pairs:
        raise TrueNegError(f"{args.data}: {result.transform} applies to none of its {result.questions} questions")
    write_pairs(pairs, result)
    write_squad(args.output, result.transformed(data.version))
    _print_attack(result, data, args.examples)
    print(f"wrote {args.output} and {pairs}")


def _transform(args: argparse.Namespace, questions: list[Question]) -> Transform:
    if args.transform == "swap-syn-wordnet":
        from ..robustness.attacks.swap_synonyms import SwapSynWordNet

        return SwapSynWordNet()
    from ..robustness.attacks.add_sentence import AddSentenceDiverse

    return AddSentenceDiverse(args.vectors, questions)


def _with_progress(questions: list[Question]) -> Iterator[Question]:
    from ..progress import Progress

    yield from Progress(questions, desc="attacking", unit=" questions", leave=False, disable=None)


def _print_attack(result: Attack, data: SquadData, examples: int) -> None:
    share = 100 * len(result.pairs) / len(data.questions)
    print(f"{result.transform} applies to {len(result.pairs)} of {len(data.questions)} questions ({share:.1f} %)")
    for name, value in result.options.items():
        print(f"  {name}: {value}")
    for reason, count in result.skipped.items():
        print(f"  not applied to {count}: {reason}")
    step = max(1, len(result.pairs) // max(1, examples))
    for pair in result.pairs[::step][:examples]:
        print(f"\n{pair.original.text}  [{pair.original.answers[0].text}]")
        for name, value in pair.details.items():
            print(f"  {name}: {json.dumps(value, ensure_ascii=False)}")


def _score(args: argparse.Namespace) -> None:
    """Prints exact match and F1 before and after an attack (Ori. -> Trans. of Table 5) on the questions that it applies
    to, with the 95 % confidence interval of the drop by bootstrap over the pairs.
    """
    from ..robustness.attacks.transform import read_pairs
    from ..robustness.measure import measure
    from ..squad.squad_data import read_predictions

    _check_results(args)
    before, after = (read_predictions(path) for path in (args.original_predictions, args.transformed_predictions))
    _report(args, measure(read_pairs(args.pairs), before, after))


def _score_adversarial(args: argparse.Namespace) -> None:
    """Prints exact match and F1 of the original questions and, as Jia and Liang have it, of the worst variant of each,
    with the 95 % confidence interval of the drop by bootstrap over the originals.
    """
    from ..robustness.measure import measure_adversarial
    from ..squad.squad_data import read_predictions, read_squad

    _check_results(args)
    data = read_squad(args.data)
    if data.unanswerable:
        raise TrueNegError(f"{args.data}: is SQuAD 2.0; expected 1.1, as Jia and Liang's files are")
    _report(args, measure_adversarial(args.name or args.data.stem, data, read_predictions(args.predictions)))


def _check_results(args: argparse.Namespace) -> None:
    if args.results is not None and (args.model is None or args.seed is None):
        raise TrueNegError("--results: needs --model and --seed, which a line of a result file has")


def _report(args: argparse.Namespace, scores: Robustness) -> None:
    from ..comparison.results import append_result
    from ..robustness.measure import METRICS

    report: dict[str, object] = {"transform": scores.transform, "pairs": len(scores.ids)}
    for metric in METRICS:
        drop = scores.drop(metric)
        report[metric] = {
            "original": 100 * float(scores.original[metric].mean()),
            "transformed": 100 * float(scores.transformed[metric].mean()),
            "drop": 100 * drop.mean,
            "interval": [100 * drop.low, 100 * drop.high],
        }
    print(json.dumps(report))
    if args.results is not None:
        append_result(args.results, scores.result(args.model, args.seed))
