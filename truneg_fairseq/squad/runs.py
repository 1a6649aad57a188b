"""One fine-tuning on SQuAD: checked, trained, the validation questions answered, scored."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..comparison.results import Result, append_result
from ..errors import TrueNegError
from ..finetuning import training
from ..finetuning.data import check_vocabulary, read_info
from ..finetuning.model import StartingModel
from ..finetuning.run import (
    LARGE_WIDTH,
    RESULTS_NAME,
    FinetuningRun,
    Hardware,
    electra_flags,
    electra_layer_lr_decay,
    finished_results,
    length_flags,
)
from ..paths import require_unsplit, require_writable
from .options import TrainSquadOptions
from .predict import load_answerer, predict, write_candidates, write_predictions

if TYPE_CHECKING:
    from .score import QuestionScore

PREDICTIONS_NAME = "predictions.json"
CANDIDATES_NAME = "nbest.json"
_WARMUP_RATIO, _CLIP_NORM = 0.1, 1.0


@dataclass(frozen=True, kw_only=True)
class SquadRecipe:
    """ELECTRA's settings of its released code: 1e-4 for small models too, where table 7 of its paper has 3e-4."""

    lr: float  # the highest learning rate, the head's
    layer_lr_decay: float  # of the learning rate from layer to layer, downwards
    weight_decay: float  # decoupled
    epochs: int  # over the windows
    batch_size: int  # windows per update
    update_freq: int  # parts in which a batch is computed

    @classmethod
    def of(cls, options: TrainSquadOptions, width: int) -> SquadRecipe:
        """What the options say; where they say nothing, ELECTRA's settings for this width of the encoder."""
        given = {field.name: getattr(options, field.name) for field in fields(cls)}
        lr = 5e-5 if width >= LARGE_WIDTH else 1e-4
        defaults: dict[str, Any] = {"lr": lr, "layer_lr_decay": electra_layer_lr_decay(width)}
        return cls(**{name: defaults[name] if value is None else value for name, value in given.items()})

    @property
    def windows_at_once(self) -> int:
        """The part of a batch that is computed at once."""
        return self.batch_size // self.update_freq

    def updates(self, windows: int) -> int:
        """Of a training on so many windows."""
        return self.epochs * math.ceil(math.ceil(windows / self.windows_at_once) / self.update_freq)


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
    if options.batch_size % options.update_freq:
        raise TrueNegError(
            f"--update-freq {options.update_freq}: expected a divisor of --batch-size {options.batch_size}, which it "
            "splits"
        )
    require_unsplit(options.data, "--data")
    if options.results is not None:
        require_writable(options.results, "--results")
    info = read_info(options.data)
    splits = info["splits"]
    if "train" not in splits:
        raise TrueNegError(f"{options.data}: has no split train; give 'truneg data prepare-squad' --train")
    training.check_precision(options.precision, cpu=options.cpu)
    training.start_fairseq()
    model = StartingModel.load(options.checkpoint, options.name)
    if model.is_roberta:
        raise TrueNegError(f"{options.checkpoint}: is fairseq's roberta; expected a bert or electra model")
    check_vocabulary(model.checkpoint, info["vocabulary"], options.data)
    recipe = SquadRecipe.of(options, model.config.hidden_size)
    updates = recipe.updates(splits["train"]["windows"])
    unanswerable = any(split["impossible"] for split in splits.values())
    task_name = "SQuAD 2.0" if unanswerable else "SQuAD"
    select = ("--best-checkpoint-metric", "f1", "--maximize-best-checkpoint-metric")
    windows = ("max_length", "doc_stride", "max_query_length")
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
            **{name: info[name] for name in windows},
            "seed": options.seed,
            **asdict(recipe),
            "head": options.head,
            "precision": options.precision,
        },
        task_flags=[
            *("--task", "squad", "--criterion", "squad", "--squad-head", options.head),
            *electra_flags(lr=recipe.lr, layer_lr_decay=recipe.layer_lr_decay, warmup_ratio=_WARMUP_RATIO),
            *("--weight-decay", recipe.weight_decay, "--clip-norm", _CLIP_NORM),
            *("--batch-size", recipe.windows_at_once, "--update-freq", recipe.update_freq),
            *length_flags(updates, recipe.epochs),
            *("--save-interval-updates", options.save_interval, "--log-interval", 50),
            *(select if "valid" in splits else ("--disable-validation",)),
            *options.logger_flags(model.name, f"{task_name} seed {options.seed}"),
        ],
        updates=updates,
        batch_size=recipe.windows_at_once,
        has_valid="valid" in splits,
        unanswerable=unanswerable,
    )


def _answer(run: SquadRun, weights: Path) -> dict[str, QuestionScore]:
    """Answers the validation questions, writes the answers, and scores them."""
    from .decoding import score_answers
    from .features import SquadFeatures

    training.quiet_fairseq()
    answerer = load_answerer(weights, run.data, cpu=run.hardware.cpu)
    features = SquadFeatures.load(run.data / "valid")
    predictions = predict(answerer, features, batch_size=run.batch_size)
    write_predictions(predictions, run.folder / PREDICTIONS_NAME)
    write_candidates(predictions, run.folder / CANDIDATES_NAME)
    texts = {name: prediction.text for name, prediction in predictions.items()}
    return score_answers(features, texts, unanswerable=run.unanswerable)


def _result(run: SquadRun, scores: dict[str, QuestionScore]) -> Result:
    examples = {
        "exact_match": [float(score.exact) for score in scores.values()],
        "f1": [score.f1 for score in scores.values()],
    }
    metrics = {name: math.fsum(values) / len(values) for name, values in examples.items()}
    return run.result(metrics, examples, list(scores))
