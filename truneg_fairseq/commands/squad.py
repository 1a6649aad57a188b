"""Fine-tune on SQuAD, answer its questions, score answers."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import TrueNegError

if TYPE_CHECKING:
    from ..squad.squad_data import SquadData


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the actions train, predict and score."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    _add_train(actions.add_parser("train", help="fine-tune a checkpoint", description=_train.__doc__))
    _add_predict(actions.add_parser("predict", help="answer the questions of a file", description=_predict.__doc__))
    _add_score(actions.add_parser("score", help="score a file of predictions", description=_score.__doc__))


def run(args: argparse.Namespace) -> None:
    """Runs the chosen action."""
    args.act(args)


def _add_train(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--checkpoint", type=Path, required=True, metavar="CKPT.pt", help="pre-trained bert or electra")
    parser.add_argument(
        "--data", type=Path, required=True, metavar="DIR", help="features made by 'truneg data prepare-squad'"
    )
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="folder of the run")
    parser.add_argument("--name", help="of the model in result files (default: the checkpoint's or its folder's)")
    parser.add_argument("--results", type=Path, metavar="JSONL", help="default: results.jsonl in the run's folder")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="default: 1")
    parser.add_argument("--lr", type=float, metavar="LR", help="default: 1e-4; 5e-5 for large models")
    parser.add_argument("--layer-lr-decay", type=float, metavar="D", help="default: 0.8; 0.9 for large models")
    parser.add_argument("--weight-decay", type=float, default=0.01, metavar="W", help="default: 0.01")
    parser.add_argument("--epochs", type=int, default=2, metavar="N", help="default: 2")
    parser.add_argument("--batch-size", type=int, default=32, metavar="N", help="windows of an update (default: 32)")
    parser.add_argument(
        "--update-freq", type=int, default=1, metavar="N", help="parts in which a batch is computed, to save memory"
    )
    parser.add_argument(
        "--head", choices=("linear", "joint"), default="linear", help="BERT's and Hugging Face's, or ELECTRA's"
    )
    parser.add_argument("--precision", choices=("fp32", "fp16", "bf16"), default="fp32", help="default: fp32")
    parser.add_argument("--save-interval", type=int, default=1000, metavar="N", help="updates (default: 1000)")
    parser.add_argument("--num-workers", type=int, default=1, metavar="N", help="that make batches (default: 1)")
    parser.add_argument("--cpu", action="store_true", help="keep off the GPU")
    parser.set_defaults(act=_train)


def _train(args: argparse.Namespace) -> None:
    """Fine-tunes a checkpoint with fairseq-train and ELECTRA's settings, answers the validation questions with the last
    checkpoint, and appends exact match and F1 to a result file. A run that was interrupted goes on where it was.
    """
    from ..squad.train import finetune

    score = finetune(args)
    if score is not None:
        print(json.dumps(score))


def _add_predict(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--checkpoint", type=Path, required=True, metavar="CKPT.pt", help="of truneg squad train")
    parser.add_argument("--data", type=Path, required=True, metavar="DATA.json", help="in SQuAD's format")
    parser.add_argument("--output", type=Path, required=True, metavar="JSON", help="answer texts by question id")
    parser.add_argument("--nbest", type=Path, metavar="JSON", help="also write the best candidates of each question")
    parser.add_argument(
        "--na-probs", type=Path, metavar="JSON", help="also write the probability of no answer by question id"
    )
    parser.add_argument(
        "--no-answer-threshold",
        type=float,
        metavar="P",
        help="of models for SQuAD 2.0: a larger probability is no answer (default: that of the training)",
    )
    parser.add_argument(
        "--features", type=Path, metavar="DIR", help="data of the training, for tokenizer and windows, if moved"
    )
    parser.add_argument("--batch-size", type=int, default=32, metavar="N", help="windows (default: 32)")
    parser.add_argument("--cpu", action="store_true", help="keep off the GPU")
    parser.set_defaults(act=_predict)


def _predict(args: argparse.Namespace) -> None:
    """Answers the questions of a file and writes the answers in SQuAD's official format."""
    from ..squad import predict as squad_predict

    if args.batch_size < 1:
        raise TrueNegError(f"--batch-size {args.batch_size}: expected 1 or more")
    squad_predict.quiet_fairseq()
    answerer = squad_predict.load_answerer(args.checkpoint, args.features, cpu=args.cpu)
    features = squad_predict.read_questions(answerer, args.data)
    predictions = squad_predict.predict(
        answerer, features, batch_size=args.batch_size, threshold=args.no_answer_threshold
    )
    if args.na_probs:
        squad_predict.write_no_answer_probabilities(predictions, args.na_probs)
    if args.nbest:
        squad_predict.write_candidates(predictions, args.nbest)
    squad_predict.write_predictions(predictions, args.output)
    print(f"{args.output}: {len(predictions):,} answers")


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
    from ..squad import score as squad_score
    from ..squad.squad_data import read_no_answer_probabilities, read_predictions, read_squad

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
