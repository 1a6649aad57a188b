"""One fine-tuning on SQuAD: checked, trained, the validation questions answered, scored; and answers to other files."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import register
from ..convert.architecture import config_of
from ..errors import TrueNegError
from ..files import read_json, replacing_text, require_different, require_unsplit, require_writable
from ..launch.process import updates_in
from ..launch.slurm import HERE, SLURM, call_in_job
from ..launch.training import LOG_NAME, RESULTS_NAME, Hardware, check_precision
from ..models.checkpoints import check_vocabulary, read_checkpoint
from ..options import flag_of
from ..results.result import append_result
from ..workers import Progress
from .run import (
    LARGE_WIDTH,
    FinetuningRun,
    default_name,
    electra_flags,
    electra_layer_lr_decay,
    finished_results,
    length_flags,
    load_finetuned,
    read_finetuned,
    read_info,
)
from .squad_options import PredictSquadOptions, TrainSquadOptions, WindowSettings
from .squad_score import QuestionScore, exact_match_and_f1

if TYPE_CHECKING:
    from .squad_features import Prediction, SquadFeatures
    from .squad_task import SquadTask

_WARMUP_RATIO, _CLIP_NORM = 0.1, 1.0
_SAVE_UPDATES = 1_000
ANSWERS_NAME = "predictions.json"
_WINDOW_SETTINGS = [each.name for each in fields(WindowSettings)]


@dataclass(frozen=True, kw_only=True)
class SquadRun(FinetuningRun):
    """One fine-tuning on SQuAD."""

    updates: int
    batch_size: int  # windows that are answered at once
    has_valid: bool  # whether there are validation questions
    unanswerable: bool  # SQuAD 2.0: some questions have no answer


def finetune(options: TrainSquadOptions) -> dict[str, float] | None:
    """Trains, answers the validation questions with the last checkpoint, and appends the result.

    Returned are ``exact_match`` and ``f1`` in percent; None for data without a validation split.
    """
    run = check(options)
    if options.launcher == SLURM:
        return _finetune_in_job(run, options)
    path = options.results or options.output / RESULTS_NAME
    finished = finished_results(path, [run])
    with Progress(total=run.updates, unit=" updates", smoothing=0.05) as bar:
        bar.set_description(run.name)
        weights = run.train(lambda updates: bar.update(max(0, updates - bar.n)))
    if not run.has_valid:
        return None
    scores = _answer(run, weights)
    if run.key not in finished:
        examples = {
            "exact_match": [float(score.exact) for score in scores.values()],
            "f1": [score.f1 for score in scores.values()],
        }
        metrics = {name: math.fsum(values) / len(values) for name, values in examples.items()}
        append_result(path, run.result(metrics, examples, list(scores)))
    return exact_match_and_f1(scores, unanswerable=run.unanswerable)


def _finetune_in_job(run: SquadRun, options: TrainSquadOptions) -> dict[str, float] | None:
    """:func:`finetune`; what it returns comes from the answers in the run's folder."""
    with Progress(total=run.updates, unit=" updates", smoothing=0.05) as bar:
        bar.set_description(run.name)
        call_in_job(
            partial(finetune, replace(options, launcher=HERE)),
            name=run.name,
            folder=run.folder / SLURM,
            options=options.slurm,
            poll=lambda: bar.update(max(0, updates_in(run.folder / LOG_NAME) - bar.n)),
        )
    if not run.has_valid:
        return None
    from .squad_features import SquadFeatures, score_answers

    texts = read_json(run.folder / ANSWERS_NAME, dict[str, str], expected="the answers of this command")
    scores = score_answers(SquadFeatures.load(run.data / "valid"), texts, unanswerable=run.unanswerable)
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
    check_precision(options.precision, cpu=options.cpu, launcher=options.launcher)
    register()
    start = read_checkpoint(options.checkpoint)
    config = config_of(start)
    if config.family == "roberta":
        raise TrueNegError(f"{options.checkpoint}: is fairseq's roberta; expected a bert or electra model")
    check_vocabulary(start, info["vocabulary"], options.data)
    settings = electra_settings(options, config.hidden_size)
    updates = options.epochs * math.ceil(splits["train"]["windows"] / options.batch_size)
    unanswerable = any(split["impossible"] for split in splits.values())
    select = ("--best-checkpoint-metric", "f1", "--maximize-best-checkpoint-metric")
    return SquadRun(
        start=start,
        model_name=options.model or default_name(options.checkpoint),
        task_name="SQuAD 2.0" if unanswerable else "SQuAD",
        data=options.data,
        seed=options.seed,
        folder=options.output,
        hardware=Hardware(precision=options.precision, cpu=options.cpu),
        determined_by={
            "checkpoint_sha256": start.sha256,
            "data": info["sources"],
            **{name: info[name] for name in _WINDOW_SETTINGS},
            "seed": options.seed,
            **settings,
            "precision": options.precision,
        },
        task_flags=[
            *("--task", "squad", "--criterion", "squad"),
            *electra_flags(lr=settings["lr"], layer_lr_decay=settings["layer_lr_decay"], warmup_ratio=_WARMUP_RATIO),
            *("--weight-decay", options.weight_decay, "--clip-norm", _CLIP_NORM),
            *("--batch-size", options.batch_size),
            *length_flags(updates, options.epochs),
            *("--save-interval-updates", _SAVE_UPDATES, "--log-interval", 50),
            *(select if "valid" in splits else ("--disable-validation",)),
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
    from .squad_features import SquadFeatures, score_answers

    features = SquadFeatures.load(run.data / "valid")
    answerer = Answerer.load(weights, run.data, cpu=run.hardware.cpu)
    predictions = answerer.predict(features, batch_size=run.batch_size)
    texts = _texts(predictions)
    _write_json(texts, run.folder / ANSWERS_NAME)
    candidates = {name: [vars(each) for each in prediction.candidates] for name, prediction in predictions.items()}
    _write_json(candidates, run.folder / "nbest.json")
    return score_answers(features, texts, unanswerable=run.unanswerable)


class Answerer(NamedTuple):
    """A fine-tuned model with its task, on its device."""

    model: Any
    task: SquadTask
    device: Any

    @classmethod
    def load(cls, checkpoint: Path, prepared: Path | None, *, cpu: bool) -> Answerer:
        """Loads a checkpoint of the task squad, with its prepared data (None: those it was trained on)."""
        _, folder = read_finetuned(checkpoint, "squad", prepared)
        model, _, task, device = load_finetuned(checkpoint, folder, cpu=cpu)
        return cls(model, task, device)

    def predict(self, features: SquadFeatures, *, batch_size: int, threshold: float = 0.5) -> dict[str, Prediction]:
        """The answers with their candidates, by question id; ``batch_size`` is in windows.

        ``threshold`` is of the probability of no answer.
        """
        import torch
        from fairseq import utils

        from .squad_features import N_BEST, answer_questions
        from .squad_task import SquadDataset, answer_logits, decode

        dataset = SquadDataset(features, "predict", self.task.source_dictionary.pad(), shuffle=False)
        order, parts = dataset.ordered_indices(), []
        with torch.inference_mode():
            for begin in Progress(range(0, len(order), batch_size), desc="batches", unit=""):
                sample = dataset.collater(order[begin : begin + batch_size].tolist())
                sample = utils.apply_to_sample(lambda tensor: tensor.to(self.device), sample)
                parts.append(decode(answer_logits(self.model, sample), sample, n=N_BEST))
        return answer_questions(features, parts, unanswerable=self.task.unanswerable, threshold=threshold)


def predict_file(options: PredictSquadOptions) -> int:
    """Answers the questions of a file, writes the answers, and returns their number."""
    from .data import PretrainedVocabulary
    from .squad_files import read_squad
    from .squad_prepare import build_features

    outputs = {"output": options.output, "na_prob_file": options.na_prob_file}
    require_different(checkpoint=options.checkpoint, data=options.data, **outputs)
    for name, path in outputs.items():
        if path is not None:
            require_writable(path, flag_of(name))
    answerer = Answerer.load(options.checkpoint, options.prepared, cpu=options.cpu)
    settings = WindowSettings(**{name: answerer.task.info[name] for name in _WINDOW_SETTINGS})
    vocabulary = PretrainedVocabulary.load(Path(answerer.task.cfg.data))
    questions = read_squad(options.data)
    features, _ = build_features(questions, vocabulary, settings, training=False, name=options.data.stem)
    predictions = answerer.predict(features, batch_size=options.batch_size, threshold=options.threshold)
    if options.na_prob_file:  # in the official format of SQuAD 2.0
        probabilities = {name: prediction.no_answer_probability for name, prediction in predictions.items()}
        _write_json(probabilities, options.na_prob_file)
    _write_json(_texts(predictions), options.output)
    return len(predictions)


def _texts(predictions: dict[str, Prediction]) -> dict[str, str]:
    return {name: prediction.text for name, prediction in predictions.items()}


def _write_json(content: object, output: Path) -> None:
    with replacing_text(output) as stream:
        json.dump(content, stream, ensure_ascii=False)
        stream.write("\n")
