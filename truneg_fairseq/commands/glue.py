"""Fine-tune a checkpoint on GLUE's tasks with several seeds, and score it; or score a fine-tuned model on a file."""

from __future__ import annotations

import argparse
import json
from dataclasses import fields
from pathlib import Path

from ..errors import TrueNegError
from ..finetuning.run import RESULTS_NAME
from ..glue.files import TASKS
from .loggers import add_logger_arguments
from .parser import add_cpu, process_count


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the checkpoint, the data, the tasks, the seeds and the recipe, and the action predict."""
    actions = parser.add_subparsers(dest="action", metavar="predict")
    _add_predict(actions.add_parser("predict", help="answer and score a file", description=_predict.__doc__))
    parser.set_defaults(act=_finetune, usage_error=parser.error)
    parser.add_argument("--checkpoint", type=Path, metavar="PT", help="the pre-trained model")
    parser.add_argument(
        "--data", type=Path, metavar="GLUE-DIR", help="a folder for each task, by 'truneg data prepare-glue'"
    )
    parser.add_argument("--output", type=Path, metavar="DIR", help=f"folder for {RESULTS_NAME}, logs and submissions")
    parser.add_argument("--tasks", nargs="+", action="extend", metavar="TASK", help=f"{', '.join(TASKS)} or all (all)")
    parser.add_argument("--seeds", type=int, default=5, metavar="N", help="fine-tune with seeds 1 to N (default: 5)")
    parser.add_argument("--model", metavar="NAME", help="name in the results (default: the checkpoint's or folder's)")
    parser.add_argument(
        "--recipe", choices=("electra", "bert", "roberta"), help="hyper-parameters (default: those of the model's kind)"
    )
    for name, kind, what in (
        ("lr", float, "learning rate"),
        ("epochs", int, "epochs"),
        ("batch-size", int, "examples an update"),
        ("weight-decay", float, "weight decay"),
        ("layer-lr-decay", float, "factor of the learning rate from layer to layer"),
        ("max-length", int, "tokens of an example"),
    ):
        parser.add_argument(f"--{name}", type=kind, metavar="N", help=f"{what} (default: the recipe's)")
    parser.add_argument("--precision", choices=("fp32", "fp16", "bf16"), default="fp32", help="default: fp32")
    add_cpu(parser)
    parser.add_argument(
        "--workers", type=process_count, default=1, metavar="N", help="data-parallel workers (default: 1)"
    )
    parser.add_argument(
        "--num-workers", type=process_count, default=1, metavar="N", help="processes that load data (default: 1)"
    )
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="runs side by side, one GPU each (default: 1)")
    add_logger_arguments(parser)
    parser.add_argument("--predict-test", action="store_true", help="write the test sets' predictions to submit")
    parser.add_argument("--keep-models", action="store_true", help="keep the fine-tuned models, as model.pt")
    parser.set_defaults(defaults=vars(parser.parse_args([])))


def _add_predict(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--checkpoint", type=Path, required=True, metavar="PT", help="model.pt, by --keep-models")
    parser.add_argument(
        "--data", type=Path, required=True, metavar="TSV", help="with the columns of the task's dev or test file"
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=argparse.SUPPRESS,  # or it would take the place of one before "predict"
        metavar="TSV",
        help="also write the answers, as the GLUE server takes them",
    )
    parser.add_argument(
        "--task-data", type=Path, metavar="DIR", help="the task's prepared folder of the training, if moved"
    )
    parser.add_argument("--cpu", action="store_true", default=argparse.SUPPRESS, help="use the CPU only")
    parser.set_defaults(act=_predict)


def run(args: argparse.Namespace) -> None:
    """Runs the chosen action; without one it fine-tunes."""
    args.act(args)


def _finetune(args: argparse.Namespace) -> None:
    """Runs the unfinished runs, task by task, and prints each task's metrics over the seeds."""
    missing = [f"--{name}" for name in ("checkpoint", "data", "output") if getattr(args, name) is None]
    if missing:
        args.usage_error(f"the following arguments are required: {', '.join(missing)}")
    from ..glue.finetune import Options, finetune, table

    args.tasks = args.tasks or ["all"]  # as a default it would be extended
    options = Options(**{field.name: getattr(args, field.name) for field in fields(Options)})
    results, diverged = finetune(options)
    print(table(results))
    print(f"results: {options.results} (truneg compare reads it)")
    if diverged:
        raise TrueNegError(diverged[0] if len(diverged) == 1 else f"{len(diverged)} runs diverged: {diverged[0]}")


def _predict(args: argparse.Namespace) -> None:
    """Answers the examples of a file in the format of the model's task; prints their number and, where the file has
    labels, the task's metrics in percent.
    """
    shared = ("checkpoint", "data", "output", "cpu", "action", "act")
    for name, default in args.defaults.items():
        if name not in shared and getattr(args, name) != default:
            args.usage_error(f"--{name.replace('_', '-')}: is of fine-tuning; predict has no such option")
    from ..glue.predict import predict_file
    from ..paths import require_different, require_writable

    if args.output is not None:
        require_different(checkpoint=args.checkpoint, data=args.data, output=args.output)
        require_writable(args.output, "--output", makes_folders=True)
    scores = predict_file(args.checkpoint, args.data, task_data=args.task_data, output=args.output, cpu=args.cpu)
    print(json.dumps(scores))
