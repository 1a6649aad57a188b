"""One fine-tuning on SQuAD: checked, trained, the validation questions answered, scored."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .. import register
from ..comparison.results import Result, append_result
from ..errors import TrueNegError
from ..finetuning.model import StartingModel, check_vocabulary, read_info
from ..finetuning.run import (
    LARGE_WIDTH,
    RESULTS_NAME,
    FinetuningRun,
    Hardware,
    check_precision,
    electra_flags,
    electra_layer_lr_decay,
    finished_results,
    length_flags,
)
from ..paths import require_unsplit, require_writable
from .options import TrainSquadOptions
from .predict import load_answerer, predict, write_json

if TYPE_CHECKING:
    from .score import QuestionScore

_WARMUP_RATIO, _CLIP_NORM = 0.1, 1.0
_SAVE_UPDATES = 1_000


@dataclass(frozen=True, kw_only=True)
class SquadRun(FinetuningRun):
    """One fine-tuning on SQuAD."""

    updates: int
    batch_size: int  # windows that are answered at once
    has_valid: bool  # whether there are validation questions
    unanswerable: bool  # SQuAD 2.0: some questions have no answer


def finetune(options: TrainSquadOptions) -> dict[str, float] | None:
    """Trains, answers the validation questions with the last checkpoint, and appends the result.

    Returns:
        ``exact_match`` and ``f1`` in percent; None for data without a validation split.
    """
    from ..progress import Progress
    from .decoding import exact_match_and_f1

    run = check(options)
    path = options.results or options.output / RESULTS_NAME
    finished = finished_results(path, [run])
    with Progress(total=run.updates, unit=" updates", smoothing=0.05) as bar:
        bar.set_description(run.name)
        weights = run.train(lambda updates: bar.update(max(0, updates - bar.n)))
    if not run.has_valid:
        return None
    scores = _answer(run, weights)
    if run.key not in finished:
        append_result(path, _result(run, scores))
    return exact_match_and_f1(scores, unanswerable=run.unanswerable)


def check(options: TrainSquadOptions) -> SquadRun:
    """The run; what cannot be trained is refused before anything is."""
    require_unsplit(options.data, "--data")
    if options.results is not None:
        require_writable(options.results, "--results")
    info = read_info(options.data)
    splits = info["splits"]
    if "train" not in splits:
        raise TrueNegError(f"{options.data}: has no split train; give 'truneg data prepare-squad' --train")
    check_precision(options.precision, cpu=options.cpu)
    register()
    model = StartingModel.load(options.checkpoint, options.name)
    if model.is_roberta:
        raise TrueNegError(f"{options.checkpoint}: is fairseq's roberta; expected a bert or electra model")
    check_vocabulary(model.checkpoint, info["vocabulary"], options.data)
    settings = electra_settings(options, model.config.hidden_size)
    updates = options.epochs * math.ceil(splits["train"]["windows"] / options.batch_size)
    unanswerable = any(split["impossible"] for split in splits.values())
    task_name = "SQuAD 2.0" if unanswerable else "SQuAD"
    select = ("--best-checkpoint-metric", "f1", "--maximize-best-checkpoint-metric")
    return SquadRun(
        model=model,
        task_name=task_name,
        data=options.data,
        seed=options.seed,
        folder=options.output,
        hardware=Hardware(precision=options.precision, cpu=options.cpu, num_workers=options.num_workers),
        determined_by={
            "checkpoint_sha256": model.sha256,
            "data": info["sources"],
            **{name: info[name] for name in ("max_length", "doc_stride", "max_query_length")},
            "seed": options.seed,
            **settings,
            "head": options.head,
            "precision": options.precision,
        },
        task_flags=[
            *("--task", "squad", "--criterion", "squad", "--squad-head", options.head),
            *electra_flags(lr=settings["lr"], layer_lr_decay=settings["layer_lr_decay"], warmup_ratio=_WARMUP_RATIO),
            *("--weight-decay", options.weight_decay, "--clip-norm", _CLIP_NORM),
            *("--batch-size", options.batch_size),
            *length_flags(updates, options.epochs),
            *("--save-interval-updates", _SAVE_UPDATES, "--log-interval", 50),
            *(select if "valid" in splits else ("--disable-validation",)),
            *options.logger_flags(model.name, f"{task_name} seed {options.seed}"),
        ],
        updates=updates,
        batch_size=options.batch_size,
        has_valid="valid" in splits,
        unanswerable=unanswerable,
    )


def electra_settings(options: TrainSquadOptions, width: int) -> dict[str, float]:
    """What the options say; where they say nothing, the settings of ELECTRA's code for this width of the encoder.

    The code has 1e-4 for small models too, where table 7 of the paper has 3e-4.
    """
    lr = 5e-5 if width >= LARGE_WIDTH else 1e-4
    decay = electra_layer_lr_decay(width)
    return {
        "lr": lr if options.lr is None else options.lr,
        "layer_lr_decay": decay if options.layer_lr_decay is None else options.layer_lr_decay,
        "weight_decay": options.weight_decay,
        "epochs": options.epochs,
        "batch_size": options.batch_size,
    }


def _answer(run: SquadRun, weights: Path) -> dict[str, QuestionScore]:
    """Answers the validation questions, writes the answers, and scores them."""
    from .decoding import score_answers
    from .features import SquadFeatures

    answerer = load_answerer(weights, run.data, cpu=run.hardware.cpu)
    features = SquadFeatures.load(run.data / "valid")
    predictions = predict(answerer, features, batch_size=run.batch_size)
    texts = {name: prediction.text for name, prediction in predictions.items()}
    write_json(texts, run.folder / "predictions.json")
    candidates = {name: [vars(each) for each in prediction.candidates] for name, prediction in predictions.items()}
    write_json(candidates, run.folder / "nbest.json")
    return score_answers(features, texts, unanswerable=run.unanswerable)


def _result(run: SquadRun, scores: dict[str, QuestionScore]) -> Result:
    examples = {
        "exact_match": [float(score.exact) for score in scores.values()],
        "f1": [score.f1 for score in scores.values()],
    }
    metrics = {name: math.fsum(values) / len(values) for name, values in examples.items()}
    return run.result(metrics, examples, list(scores))
