"""Fine-tuning on SQuAD with ELECTRA's settings, and its result."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import TrueNegError
from ..finetuning import run as fairseq_run
from .predict import load_answerer, predict, write_candidates, write_predictions

if TYPE_CHECKING:
    from ..comparison.results import Result
    from ..convert.checkpoints import Checkpoint
    from .features import SquadFeatures

RESULTS_NAME = "results.jsonl"
PREDICTIONS_NAME = "predictions.json"
CANDIDATES_NAME = "nbest.json"


def finetune(args: argparse.Namespace) -> dict[str, float] | None:
    """Trains, answers the validation questions with the last checkpoint, and appends the result.

    Args:
        args: the options of ``truneg squad train``.

    Returns:
        ``exact_match`` and ``f1`` in percent; None for data without a validation split.

    Raises:
        TrueNegError: a folder or file is missing, the checkpoint does not fit the data, an option is out of range, or
            the folder has a run with other options.
    """
    from ..finetuning.data import read_info

    _check(args)
    info = read_info(args.data)
    fairseq_run.check_precision(args.precision, cpu=args.cpu)
    fairseq_run.start_fairseq()
    from ..convert.checkpoints import read_checkpoint
    from .features import SquadFeatures

    checkpoint = read_checkpoint(args.checkpoint)
    fairseq_run.check_vocabulary(checkpoint, info["vocabulary"], args.data)
    settings = _settings(args, checkpoint)
    fairseq_run.keep_settings(args.output, settings)
    windows = len(SquadFeatures.load(args.data / "train"))
    has_valid = "valid" in info.get("splits", {})
    flags = [*fairseq_run.model_flags(checkpoint), *_training_flags(args, settings, windows, validate=has_valid)]
    fairseq_run.train(flags, precision=args.precision)
    if not has_valid:
        return None
    memory = fairseq_run.peak_memory_mb(cpu=args.cpu)
    return _evaluate(args, settings, memory)


def _check(args: argparse.Namespace) -> None:
    for name in ("epochs", "batch_size", "update_freq", "save_interval"):
        if getattr(args, name) < 1:
            raise TrueNegError(f"--{name.replace('_', '-')} {getattr(args, name)}: expected 1 or more")
    if args.batch_size % args.update_freq:
        raise TrueNegError(
            f"--update-freq {args.update_freq}: expected a divisor of --batch-size {args.batch_size}, which it splits"
        )


def _settings(args: argparse.Namespace, checkpoint: Checkpoint) -> dict[str, Any]:
    """What decides on the result, as JSON."""
    large = fairseq_run.is_large(checkpoint)
    return {
        "checkpoint": str(args.checkpoint.resolve()),
        "data": str(args.data.resolve()),
        "seed": args.seed,
        "lr": args.lr if args.lr is not None else 5e-5 if large else 1e-4,
        "layer_lr_decay": args.layer_lr_decay if args.layer_lr_decay is not None else 0.9 if large else 0.8,
        "weight_decay": args.weight_decay,
        "epochs": args.epochs,
        "batch_size": args.batch_size,
        "update_freq": args.update_freq,
        "head": args.head,
        "precision": args.precision,
    }


def _training_flags(
    args: argparse.Namespace, settings: dict[str, Any], windows: int, *, validate: bool
) -> list[str | Path | int | float]:
    batch = args.batch_size // args.update_freq
    updates = args.epochs * math.ceil(math.ceil(windows / batch) / args.update_freq)
    select = ("--best-checkpoint-metric", "f1", "--maximize-best-checkpoint-metric")
    return [
        *(settings["data"], "--task", "squad", "--criterion", "squad", "--squad-head", args.head),
        *("--finetune-from-model", settings["checkpoint"], "--save-dir", args.output, "--seed", args.seed),
        *("--batch-size", batch, "--update-freq", args.update_freq, "--required-batch-size-multiple", 1),
        *("--optimizer", "electra_adam", "--lr", settings["lr"], "--weight-decay", args.weight_decay),
        *("--layer-lr-decay", settings["layer_lr_decay"], "--clip-norm", 1.0),
        *("--lr-scheduler", "electra_linear", "--warmup-ratio", 0.1, "--total-num-update", updates),
        *("--max-epoch", args.epochs, "--max-update", updates, "--distributed-world-size", 1),
        *("--no-epoch-checkpoints", "--save-interval-updates", args.save_interval, "--keep-interval-updates", 1),
        *("--num-workers", args.num_workers, "--log-interval", 50),
        *(select if validate else ("--disable-validation",)),
        *(("--cpu",) if args.cpu else ()),
    ]


def _evaluate(args: argparse.Namespace, settings: dict[str, Any], memory: float) -> dict[str, float]:
    from ..comparison.results import append_result, read_results
    from .decoding import exact_match_and_f1, score_answers
    from .features import SquadFeatures

    last = args.output / "checkpoint_last.pt"
    answerer = load_answerer(last, args.data, cpu=args.cpu)
    features: SquadFeatures = SquadFeatures.load(args.data / "valid")
    predictions = predict(answerer, features, batch_size=args.batch_size // args.update_freq)
    write_predictions(predictions, args.output / PREDICTIONS_NAME)
    write_candidates(predictions, args.output / CANDIDATES_NAME)
    unanswerable = answerer.task.unanswerable
    texts = {name: prediction.text for name, prediction in predictions.items()}
    scores = score_answers(features, texts, unanswerable=unanswerable)
    result = _result(args, settings, scores, "SQuAD 2.0" if unanswerable else "SQuAD", memory)
    path = args.results or args.output / RESULTS_NAME
    if not path.exists() or all(other.key != result.key for other in read_results([path])):
        append_result(path, result)
    return exact_match_and_f1(scores, unanswerable=unanswerable)


def _result(
    args: argparse.Namespace, settings: dict[str, Any], scores: dict[str, Any], task: str, memory: float
) -> Result:
    import torch

    from ..comparison.results import Result

    examples = {
        "exact_match": [float(score.exact) for score in scores.values()],
        "f1": [score.f1 for score in scores.values()],
    }
    state = torch.load(args.output / "checkpoint_last.pt", map_location="cpu", weights_only=True)["extra_state"]
    return Result(
        model=args.name or default_name(args.checkpoint),
        task=task,
        seed=args.seed,
        metrics={name: math.fsum(values) / len(values) for name, values in examples.items()},
        examples=examples,
        example_ids=list(scores),
        wall_seconds=round(float(state["previous_training_time"]), 1),
        peak_memory_mb=round(memory, 1),
        settings=settings,
    )


def default_name(checkpoint: Path) -> str:
    """The name of a model in the tables: its file's, or that of its folder where fairseq chose the file's name."""
    path = checkpoint.resolve()
    return path.parent.name if path.stem.startswith("checkpoint") else path.stem
