"""Score answers to SQuAD's questions."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import TrueNegError

if TYPE_CHECKING:
    from ..evaluation.squad_data import SquadData


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the action score."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    _add_score(actions.add_parser("score", help="score a file of predictions", description=_score.__doc__))


def run(args: argparse.Namespace) -> None:
    """Runs the chosen action."""
    args.act(args)


def _add_score(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", type=Path, metavar="DATA.json", help="in SQuAD's format")
    parser.add_argument("predictions", type=Path, metavar="PREDICTIONS.json", help="answer texts by question id")
    parser.add_argument(
        "--na-prob-file", type=Path, metavar="JSON", help="SQuAD 2.0: the probability of no answer by question id"
    )
    parser.add_argument(
        "--na-prob-thresh", type=float, metavar="P", help="SQuAD 2.0: a larger probability is no answer (default: 1)"
    )
    parser.add_argument(
        "--adversarial",
        action="store_true",
        help="Jia and Liang's files: each original question counts by the worst of its variants",
    )
    parser.set_defaults(act=_score)


def _score(args: argparse.Namespace) -> None:
    """Prints exact match and F1 in percent as the official script of the data's version does, as JSON in full
    precision: exact_match and f1 for SQuAD 1.1, exact, f1, HasAns_*, NoAns_* and best_* for 2.0.
    """
    from ..evaluation import squad_score
    from ..evaluation.squad_data import read_no_answer_probabilities, read_predictions, read_squad

    data, predictions = read_squad(args.data), read_predictions(args.predictions)
    if data.unanswerable and args.adversarial:
        raise TrueNegError(f"--adversarial: {args.data} is SQuAD 2.0; expected 1.1, as Jia and Liang's files are")
    if data.unanswerable:
        na_probabilities = read_no_answer_probabilities(args.na_prob_file) if args.na_prob_file else None
        if na_probabilities is None and args.na_prob_thresh is not None:
            raise TrueNegError("--na-prob-thresh: needs --na-prob-file, the probabilities it is compared with")
        threshold = 1.0 if args.na_prob_thresh is None else args.na_prob_thresh
        print(json.dumps(squad_score.score_v2(data, predictions, na_probabilities, threshold), indent=2))
        return
    if args.na_prob_file or args.na_prob_thresh is not None:
        flag = "--na-prob-file" if args.na_prob_file else "--na-prob-thresh"
        raise TrueNegError(f"{flag}: {args.data} is SQuAD 1.1, where every question has an answer; leave the flag out")
    _report_unanswered(data, predictions)
    score = squad_score.score_adversarial if args.adversarial else squad_score.score_v1
    print(json.dumps(score(data, predictions)))


def _report_unanswered(data: SquadData, predictions: dict[str, str]) -> None:
    for question in data.questions:
        if question.id not in predictions:
            print(f"Unanswered question {question.id} will receive score 0.", file=sys.stderr)
