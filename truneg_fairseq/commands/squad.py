"""Fine-tune on SQuAD, answer its questions, score answers."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import fields
from pathlib import Path

from .loggers import add_logger_arguments
from .parser import add_cpu, process_count


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
    parser.add_argument("--name", help="name of the model in result files (default: the checkpoint's or its folder's)")
    parser.add_argument("--results", type=Path, metavar="JSONL", help="default: results.jsonl in the run's folder")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="default: 1")
    parser.add_argument("--lr", type=float, metavar="LR", help="default: 1e-4; 5e-5 for large models")
    parser.add_argument("--layer-lr-decay", type=float, metavar="D", help="default: 0.8; 0.9 for large models")
    parser.add_argument("--weight-decay", type=float, default=0.01, metavar="W", help="default: 0.01")
    parser.add_argument("--epochs", type=int, default=2, metavar="N", help="default: 2")
    parser.add_argument("--batch-size", type=int, default=32, metavar="N", help="windows per update (default: 32)")
    parser.add_argument(
        "--update-freq", type=int, default=1, metavar="N", help="number of parts to split a batch into, to save memory"
    )
    parser.add_argument(
        "--head", choices=("linear", "joint"), default="linear", help="BERT's and Hugging Face's, or ELECTRA's"
    )
    parser.add_argument("--precision", choices=("fp32", "fp16", "bf16"), default="fp32", help="default: fp32")
    parser.add_argument("--save-interval", type=int, default=1000, metavar="N", help="updates (default: 1000)")
    parser.add_argument(
        "--num-workers", type=process_count, default=1, metavar="N", help="data-loading processes (default: 1)"
    )
    add_cpu(parser)
    add_logger_arguments(parser)
    parser.set_defaults(act=_train)


def _train(args: argparse.Namespace) -> None:
    """Fine-tunes a checkpoint with fairseq-train and ELECTRA's settings, answers the validation questions with the last
    checkpoint, and appends exact match and F1 to a result file. A run that was interrupted goes on where it was.
    """
    from ..squad.runs import Options, finetune

    score = finetune(Options(**{field.name: getattr(args, field.name) for field in fields(Options)}))
    if score is not None:
        print(json.dumps(score))


def _add_predict(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--checkpoint", type=Path, required=True, metavar="CKPT.pt", help="from truneg squad train")
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
        help="SQuAD 2.0: largest no-answer probability with an answer (default: that of the training)",
    )
    parser.add_argument(
        "--features", type=Path, metavar="DIR", help="data of the training, for tokenizer and windows, if moved"
    )
    parser.add_argument("--batch-size", type=int, default=32, metavar="N", help="windows (default: 32)")
    add_cpu(parser)
    parser.set_defaults(act=_predict)


def _predict(args: argparse.Namespace) -> None:
    """Answers the questions of a file and writes the answers in SQuAD's official format."""
    from ..squad.predict import predict_file

    answers = predict_file(
        args.checkpoint,
        args.data,
        args.output,
        nbest=args.nbest,
        na_probs=args.na_probs,
        threshold=args.no_answer_threshold,
        features=args.features,
        batch_size=args.batch_size,
        cpu=args.cpu,
    )
    print(f"{args.output}: {answers:,} answers")


def _add_score(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", type=Path, metavar="DATA.json", help="in SQuAD's format")
    parser.add_argument("predictions", type=Path, metavar="PREDICTIONS.json", help="answer texts by question id")
    parser.add_argument(
        "--na-prob-file", type=Path, metavar="JSON", help="SQuAD 2.0: the probability of no answer by question id"
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
    from ..squad.score import score_files

    report, unanswered = score_files(
        args.data,
        args.predictions,
        na_prob_file=args.na_prob_file,
        adversarial=args.adversarial,
    )
    if unanswered:
        print(unanswered, file=sys.stderr)
    print(json.dumps(report, indent=2 if "exact" in report else None))
