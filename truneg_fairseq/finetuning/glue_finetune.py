"""Fine-tuning on GLUE's tasks with several seeds: all runs checked, executed, scored, and their results."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from .. import register
from ..convert.architecture import config_of
from ..errors import TrueNegError
from ..files import require_unsplit, require_writable
from ..launch.jobs import Job, devices_of, run_jobs
from ..launch.process import updates_in
from ..launch.slurm import HERE, SLURM, call_in_job
from ..launch.training import LOG_NAME, MODEL_NAME, RESULTS_NAME, Diverged, Hardware, check_precision
from ..models.checkpoints import Checkpoint, check_vocabulary, read_checkpoint
from ..results.result import Result, append_result
from ..workers import choose_device
from .glue_files import TASKS, TaskFormat, find_tasks
from .glue_options import TrainGlueOptions
from .glue_predict import Predictor, read_ids, score
from .run import (
    BASE_WIDTH,
    LARGE_WIDTH,
    FinetuningRun,
    default_name,
    electra_flags,
    electra_layer_lr_decay,
    finished_results,
    length_flags,
    read_info,
)

_HEAD = "sentence_classification_head"
_ROBERTA_SEPARATOR = 2
"""Id of the token before the second sentence: RoBERTa's ``</s>``."""
# Saved between epochs: what an interruption of a run of many updates may cost.
_SAVE_UPDATES = 2_000
_OVERRIDES = ("lr", "epochs", "batch_size", "weight_decay", "layer_lr_decay", "max_length")
"""The options that take the place of a recipe's settings."""

_DROPOUT = 0.1
_ROBERTA_TOKENS = 4_400  # of a batch at most
_ROBERTA_FP16 = ("--fp16-init-scale", 4, "--threshold-loss-scale", 1, "--fp16-scale-window", 128)
# lr, batch, updates, warm-up of fairseq's examples/roberta/config/finetuning.
_ROBERTA = {
    "CoLA": (1e-5, 16, 5_336, 320),
    "SST-2": (1e-5, 32, 20_935, 1_256),
    "MRPC": (1e-5, 16, 2_296, 137),
    "STS-B": (2e-5, 16, 3_598, 214),
    "QQP": (1e-5, 32, 113_272, 28_318),
    "MNLI": (1e-5, 32, 123_873, 7_432),
    "QNLI": (1e-5, 32, 33_112, 1_986),
    "RTE": (2e-5, 16, 2_036, 122),
}


@dataclass(frozen=True)
class GlueRecipe:
    """The settings of one task's fine-tuning."""

    optimizer: str  # electra_adam or fairseq's adam
    lr: float  # the highest learning rate (electra_adam: that of the head)
    batch_size: int  # examples an update, of all workers together
    epochs: int  # at most
    updates: int  # of the learning rate's schedule, after which training stops
    warmup_updates: float  # of the linear warm-up
    weight_decay: float  # decoupled
    layer_lr_decay: float  # of the learning rate from layer to layer, downwards
    clip_norm: float  # of the gradient, 0 for none
    max_length: int  # tokens of an example

    @property
    def flags(self) -> list[str]:
        """fairseq-train's flags, but for the batch size."""
        flags: list[object] = ["--weight-decay", self.weight_decay, "--clip-norm", self.clip_norm]
        if self.optimizer == "electra_adam":
            warmup = self.warmup_updates / self.updates
            flags += electra_flags(lr=self.lr, layer_lr_decay=self.layer_lr_decay, warmup_ratio=warmup)
        else:
            flags += ["--optimizer", "adam", "--lr", self.lr, "--adam-betas", "(0.9,0.98)", "--adam-eps", 1e-6]
            flags += ["--lr-scheduler", "polynomial_decay", "--warmup-updates", int(self.warmup_updates)]
            flags += ["--max-tokens", _ROBERTA_TOKENS, *_ROBERTA_FP16]
        flags += length_flags(self.updates, self.epochs)
        flags += ["--max-length", self.max_length]
        flags += ["--dropout", _DROPOUT, "--attention-dropout", _DROPOUT]
        flags += ["--pooler-dropout", _DROPOUT if self.optimizer == "electra_adam" else 0.0]
        return [str(flag) for flag in flags]


@dataclass(frozen=True, kw_only=True)
class GlueRun(FinetuningRun):
    """One fine-tuning on a task of GLUE."""

    task: TaskFormat
    recipe: GlueRecipe
    keep_models: bool


def finetune(options: TrainGlueOptions) -> tuple[list[Result], list[str]]:
    """Runs what is not finished; gives the results of all runs, and a line for each that diverged or failed."""
    runs = check(options)
    path = options.output / RESULTS_NAME
    finished = finished_results(path, runs)
    diverged: list[str] = []

    def execute(run: GlueRun, job: Job) -> None:
        with job.lock:  # again: another command may share the folder
            finished.update(finished_results(path, [run]))
            if run.key in finished:
                run.tidy()  # the command may have been killed before it had done so
                if run.keep_models and not (run.folder / MODEL_NAME).exists():
                    found = f"{run.name} is finished and its model was not kept"
                    raise TrueNegError(f"--keep-models: {found}; choose another --output")
                return
        try:
            if options.launcher == SLURM:
                alone = replace(options, tasks=[run.task_name], seeds=[run.seed], jobs=1, launcher=HERE)
                call_in_job(
                    partial(finetune_all, alone),
                    name=run.name,
                    folder=run.folder / SLURM,
                    options=options.slurm,
                    poll=lambda: job.progress(updates_in(run.folder / LOG_NAME)),
                )
                finished.update(finished_results(path, [run]))
                return
            weights = run.train(job.progress, job.device)
            with job.lock:
                finished[run.key] = _evaluate(run, weights)
                append_result(path, finished[run.key])
                run.tidy()
        except TrueNegError as error:
            if options.launcher == HERE and not isinstance(error, Diverged):
                raise
            job.warn(str(error))
            diverged.append(str(error))

    devices = [None] * len(runs) if options.launcher == SLURM else devices_of(options.jobs, cpu=options.cpu)
    run_jobs(execute, runs, devices, lengths=[run.recipe.updates for run in runs])
    return list(finished.values()), diverged


def finetune_all(options: TrainGlueOptions) -> None:
    """:func:`finetune`, where a run whose loss becomes NaN is an error."""
    _, diverged = finetune(options)
    if diverged:
        raise TrueNegError(diverged[0])


def check(options: TrainGlueOptions) -> list[GlueRun]:
    """All runs; what cannot be trained is refused before anything is."""
    if options.jobs > 1 and options.workers > 1:
        raise TrueNegError(f"--jobs {options.jobs}: excludes --workers {options.workers}; a job has one GPU")
    require_unsplit(options.data, "--data")
    require_writable(options.output / RESULTS_NAME, "--output", makes_folders=True)
    tasks = find_tasks(options.tasks)
    for task in tasks:
        if not (options.data / task.name).is_dir():
            raise TrueNegError(
                f"{options.data / task.name}: no such folder; expected {task.name} prepared by 'truneg data "
                "prepare-glue' (or leave it out of --tasks)"
            )
    infos = [read_info(options.data / task.name) for task in tasks]
    check_precision(options.precision, cpu=options.cpu, launcher=options.launcher)
    register()
    start = read_checkpoint(options.checkpoint)
    runs = [
        _run(task, seed, info, start, options)
        for task, info in zip(tasks, infos, strict=True)
        for seed in dict.fromkeys(options.seeds)
    ]
    # On CPUs the workers of fairseq-train are torchrun's.
    if options.workers > 1 and options.launcher == HERE and choose_device(cpu=options.cpu).type == "cpu":
        raise TrueNegError(f"--workers {options.workers}: found no GPU; expected one for each, or --jobs")
    return runs


def _run(task: TaskFormat, seed: int, info: dict[str, Any], start: Checkpoint, options: TrainGlueOptions) -> GlueRun:
    data, model_name = options.data / task.name, options.model or default_name(options.checkpoint)
    check_vocabulary(start, info["vocabulary"], data)
    config = config_of(start)
    recipe = make_recipe(
        config.family,
        task.name,
        width=config.hidden_size,
        positions=config.positions,
        examples=info["splits"]["train"]["examples"],
        **{name: getattr(options, name) for name in _OVERRIDES},
    )
    if recipe.batch_size % options.workers:
        raise TrueNegError(f"--workers {options.workers}: expected a divisor of the batch size {recipe.batch_size}")
    valid = ",".join(split for split, _ in task.files if split.startswith("valid"))
    flags: list[object] = ["--task", "glue", "--criterion", "sentence_prediction_metrics"]
    flags += ["--num-classes", max(1, len(task.labels)), "--classification-head-name", _HEAD]
    flags += ["--regression-target"] if task.regression else []
    flags += ["--separator-token", _ROBERTA_SEPARATOR] if config.family == "roberta" else []
    flags += ["--max-positions", config.positions, "--find-unused-parameters", *recipe.flags]
    flags += ["--batch-size", recipe.batch_size // options.workers, "--valid-subset", valid]
    flags += ["--save-interval-updates", _SAVE_UPDATES, "--log-interval", 10]
    return GlueRun(
        start=start,
        model_name=model_name,
        task_name=task.name,
        data=data,
        seed=seed,
        folder=options.output / "runs" / model_name / f"{task.name}-{seed}",
        hardware=Hardware(precision=options.precision, cpu=options.cpu, workers=options.workers),
        determined_by={
            "checkpoint_sha256": start.sha256,
            # Test sets change nothing of it, and may be prepared later.
            "data": {name: file for name, file in info["sources"].items() if not name.startswith("test")},
            "swap_pairs": bool(info.get("swap_pairs")),
            "precision": options.precision,
            **asdict(recipe),
        },
        task_flags=flags,
        task=task,
        recipe=recipe,
        keep_models=options.keep_models,
    )


def _evaluate(run: GlueRun, weights: Path) -> Result:
    """Scores the validation sets."""
    predictor = Predictor(weights, run.data, cpu=run.hardware.cpu)
    metrics, examples = score(run.task, predictor.predict("valid"))
    if run.task.name == "MNLI":
        metrics["accuracy_mismatched"] = score(run.task, predictor.predict("valid1"))[0]["accuracy"]
    if run.keep_models:
        run.keep_model(run.folder / MODEL_NAME)
    ids = read_ids(run.data, "valid") if examples else []
    return run.result(metrics, examples, ids, workers=run.hardware.workers)


def table(results: Iterable[Result]) -> str:
    """Mean and standard deviation of the metrics over the seeds, in percent."""
    lines = [f"{'task':8}{'metric':22}{'mean':>8}{'sd':>8}{'seeds':>7}"]
    of_task = {task: [result for result in results if result.task == task] for task in TASKS}
    for task, found in of_task.items():
        for metric in found[0].metrics if found else ():
            values = [100 * result.metrics[metric] for result in found]
            deviation = f"{statistics.stdev(values):8.2f}" if len(values) > 1 else f"{'-':>8}"
            lines.append(f"{task:8}{metric:22}{statistics.fmean(values):8.2f}{deviation}{len(values):7}")
    return "\n".join(lines)


def make_recipe(name: str, task: str, *, width: int, positions: int, examples: int, **overrides: Any) -> GlueRecipe:
    """The settings of a task.

    ELECTRA has those of its paper and code: batches of 32, 3 epochs (10 for RTE and STS-B), a learning rate of 3e-4
    for small models, 1e-4 for base, 5e-5 for large, which falls by 0.8 (large: 0.9) from layer to layer, a warm-up of
    10 % of the updates, weight decay 0.01, dropout 0.1, 128 tokens. RoBERTa has those of fairseq's configurations.
    BERT has those of ELECTRA, whose code goes back to BERT, but 3 epochs on every task and one learning rate for all
    layers: 3e-5 for base and 2e-5 for large models, of the four that Devlin et al. (2019, Section 4.1) chose from; for
    smaller ones 1e-4, of the four of Turc et al. (2019, arXiv:1908.08962) for their compact BERTs.

    The width is that of the encoder: below 768 is small, from 1024 large. Overrides are fields of :class:`GlueRecipe`,
    None for the recipe's; the updates follow epochs and batch size.
    """
    given = {key: value for key, value in overrides.items() if value is not None}
    if name == "roberta":
        if "layer_lr_decay" in given:
            raise TrueNegError("--layer-lr-decay: fairseq's roberta has none; leave it out")
        recipe = _roberta(task, positions)
    else:
        recipe = _electra(task, width, positions)
    if name == "bert":
        lr = 1e-4 if width < BASE_WIDTH else 3e-5 if width < LARGE_WIDTH else 2e-5
        recipe = replace(recipe, lr=lr, epochs=3, layer_lr_decay=1.0)
    recipe = replace(recipe, **given)
    if recipe.max_length > positions:
        raise TrueNegError(f"--max-length {recipe.max_length}: expected at most the model's {positions} positions")
    if name != "roberta" or {"epochs", "batch_size"} & given.keys():
        warmup = 0.1 if name != "roberta" else recipe.warmup_updates / recipe.updates
        updates = recipe.epochs * math.ceil(examples / recipe.batch_size)
        recipe = replace(recipe, updates=updates, warmup_updates=warmup * updates)
    return recipe


def _electra(task: str, width: int, positions: int) -> GlueRecipe:
    return GlueRecipe(
        optimizer="electra_adam",
        lr=3e-4 if width < BASE_WIDTH else 1e-4 if width < LARGE_WIDTH else 5e-5,
        batch_size=32,
        epochs=10 if task in ("RTE", "STS-B") else 3,
        updates=0,
        warmup_updates=0,
        weight_decay=0.01,
        layer_lr_decay=electra_layer_lr_decay(width),
        clip_norm=1.0,
        max_length=min(128, positions),
    )


def _roberta(task: str, positions: int) -> GlueRecipe:
    lr, batch_size, updates, warmup = _ROBERTA[task]
    return GlueRecipe(
        optimizer="adam",
        lr=lr,
        batch_size=batch_size,
        epochs=10,
        updates=updates,
        warmup_updates=warmup,
        weight_decay=0.1,
        layer_lr_decay=1.0,
        clip_norm=0.0,
        max_length=positions,
    )
