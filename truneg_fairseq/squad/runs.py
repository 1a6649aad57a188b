"""Fine-tuning runs on SQuAD: trained, the validation questions answered, scored."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..comparison.results import Result, append_result
from ..errors import TrueNegError
from ..finetuning import training
from ..finetuning.data import read_info
from ..finetuning.model import StartingModel
from ..finetuning.run import RESULTS_NAME, FinetuningRun, Hardware, Loggers, finished_results
from ..finetuning.vocabulary import check_vocabulary
from ..paths import require_unsplit, require_writable
from .predict import load_answerer, predict, write_candidates, write_predictions
from .recipes import Recipe, make_recipe

if TYPE_CHECKING:
    from .score import QuestionScore

PREDICTIONS_NAME = "predictions.json"
CANDIDATES_NAME = "nbest.json"


@dataclass(frozen=True, kw_only=True)
class SquadRun(FinetuningRun):
    """One fine-tuning on SQuAD."""

    recipe: Recipe  # its settings
    head: str  # linear or joint
    windows: int  # to train on
    save_interval: int  # updates from one checkpoint to the next

    @property
    def task_name(self) -> str:
        """SQuAD, or SQuAD 2.0 where some questions have no answer."""
        splits = read_info(self.data).get("splits", {})
        return "SQuAD 2.0" if any(split["impossible"] for split in splits.values()) else "SQuAD"

    @property
    def has_valid(self) -> bool:
        """Whether there are validation questions."""
        return "valid" in read_info(self.data).get("splits", {})

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that determine its result, as JSON."""
        from .features import WindowSettings

        info = read_info(self.data)
        return {
            "checkpoint_sha256": self.model.sha256,
            "data": info.get("sources", {}),
            **{field.name: info.get(field.name) for field in fields(WindowSettings)},
            "seed": self.seed,
            **asdict(self.recipe),
            "head": self.head,
            "precision": self.hardware.precision,
        }

    @property
    def task_flags(self) -> list[object]:
        """fairseq-train's for task, criterion, optimizer, and how often to save."""
        select = ("--best-checkpoint-metric", "f1", "--maximize-best-checkpoint-metric")
        return [
            *("--task", "squad", "--criterion", "squad", "--squad-head", self.head, *self.recipe.flags(self.windows)),
            *("--save-interval-updates", self.save_interval, "--log-interval", 50),
            *(select if self.has_valid else ("--disable-validation",)),
        ]

    def evaluate(self, weights: Path) -> Result | None:
        """Answers the validation questions, writes the answers, and scores them; None for data without any."""
        if not self.has_valid:
            return None
        from .decoding import score_answers
        from .features import SquadFeatures

        training.quiet_fairseq()
        answerer = load_answerer(weights, self.data, cpu=self.hardware.cpu)
        features = SquadFeatures.load(self.data / "valid")
        predictions = predict(answerer, features, batch_size=self.recipe.windows_at_once)
        write_predictions(predictions, self.folder / PREDICTIONS_NAME)
        write_candidates(predictions, self.folder / CANDIDATES_NAME)
        texts = {name: prediction.text for name, prediction in predictions.items()}
        return self._result(score_answers(features, texts, unanswerable=answerer.task.unanswerable))

    def _result(self, scores: dict[str, QuestionScore]) -> Result:
        examples = {
            "exact_match": [float(score.exact) for score in scores.values()],
            "f1": [score.f1 for score in scores.values()],
        }
        return Result(
            model=self.model.name,
            task=self.task_name,
            seed=self.seed,
            metrics={name: math.fsum(values) / len(values) for name, values in examples.items()},
            examples=examples,
            example_ids=list(scores),
            settings={**self.settings, "checkpoint": str(self.model.path), "command": self.command},
            **self.used,
        )


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of ``truneg squad train``; see its help."""

    checkpoint: Path
    data: Path
    output: Path
    name: str | None
    results: Path | None
    seed: int
    lr: float | None
    layer_lr_decay: float | None
    weight_decay: float
    epochs: int
    batch_size: int
    update_freq: int
    head: str
    precision: str
    save_interval: int
    num_workers: int
    cpu: bool
    tensorboard_logdir: Path | None
    wandb_project: str | None


def finetune(options: Options) -> dict[str, float] | None:
    """Trains, answers the validation questions with the last checkpoint, and appends the result.

    Returns:
        ``exact_match`` and ``f1`` in percent; None for data without a validation split.
    """
    from ..progress import Progress
    from .decoding import exact_match_and_f1
    from .score import QuestionScore

    run = _plan(options)
    path = options.results or options.output / RESULTS_NAME
    finished = finished_results(path, [run])
    if options.results is not None:
        require_writable(options.results, "--results")
    with Progress(total=run.recipe.updates(run.windows), unit=" updates", smoothing=0.05) as bar:
        bar.set_description(run.name)
        result = run.execute(lambda updates: bar.update(max(0, updates - bar.n)))
    if result is None:
        return None
    if run.key not in finished:
        append_result(path, result)
    # From the single scores, added up as the official scripts do.
    pairs = zip(result.example_ids, result.examples["exact_match"], result.examples["f1"], strict=True)
    scores = {name: QuestionScore(int(exact), f1) for name, exact, f1 in pairs}
    return exact_match_and_f1(scores, unanswerable=run.task_name == "SQuAD 2.0")


def _plan(options: Options) -> SquadRun:
    """The run, checked."""
    from .features import SquadFeatures

    if options.save_interval < 1:
        raise TrueNegError(f"--save-interval {options.save_interval}: expected 1 or more")
    if options.num_workers < 0:
        raise TrueNegError(f"--num-workers {options.num_workers}: expected 0 or more")
    if options.name == "":
        raise TrueNegError("--name: is empty; expected the model's name in the results")
    settings = {name: getattr(options, name) for name in Recipe.__dataclass_fields__}
    make_recipe(0, **settings)  # before the checkpoint is read
    require_unsplit(options.data, "--data")
    info = read_info(options.data)
    training.check_precision(options.precision, cpu=options.cpu)
    training.start_fairseq()
    model = StartingModel.load(options.checkpoint, options.name)
    if model.is_roberta:
        raise TrueNegError(f"{options.checkpoint}: is fairseq's roberta; expected a bert or electra model")
    check_vocabulary(model.checkpoint, info["vocabulary"], options.data)
    hardware = Hardware(precision=options.precision, cpu=options.cpu, num_workers=options.num_workers)
    return SquadRun(
        model=model,
        data=options.data,
        seed=options.seed,
        folder=options.output,
        hardware=hardware,
        loggers=Loggers(options.tensorboard_logdir, options.wandb_project),
        recipe=make_recipe(model.config.hidden_size, **settings),
        head=options.head,
        windows=len(SquadFeatures.load(options.data / "train")),
        save_interval=options.save_interval,
    )
