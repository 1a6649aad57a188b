"""Fine-tuning on GLUE's tasks with several seeds: all runs checked, executed one by one, and their results."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..comparison.results import Result, append_result
from ..errors import TrueNegError
from ..finetuning import training
from ..finetuning.jobs import Job, devices_of, run_jobs
from ..finetuning.model import StartingModel
from ..finetuning.run import RESULTS_NAME, Diverged, Hardware, Loggers, finished_results
from ..finetuning.vocabulary import check_vocabulary
from ..paths import require_unsplit, require_writable
from .files import TASKS
from .prepared import check_folder
from .recipes import make_recipe
from .runs import GlueRun

OVERRIDES = ("lr", "epochs", "batch_size", "weight_decay", "layer_lr_decay", "max_length")
"""What takes the place of a recipe's setting; see :func:`.recipes.make_recipe`."""

_NAMES = {name.lower(): name for name in TASKS} | {name.lower().replace("-", "_"): name for name in TASKS}


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of ``truneg glue``; see its help."""

    checkpoint: Path
    data: Path
    output: Path
    tasks: Sequence[str]
    seeds: int
    model: str | None
    recipe: str | None
    lr: float | None
    epochs: int | None
    batch_size: int | None
    weight_decay: float | None
    layer_lr_decay: float | None
    max_length: int | None
    precision: str
    cpu: bool
    workers: int
    num_workers: int
    jobs: int
    tensorboard_logdir: Path | None
    wandb_project: str | None
    predict_test: bool
    keep_models: bool

    @property
    def results(self) -> Path:
        """The file of the results."""
        return self.output / RESULTS_NAME


def finetune(options: Options) -> tuple[list[Result], list[str]]:
    """Runs what is not finished.

    Returns:
        The results of all runs, and what is to be said of those that diverged.
    """
    _check(options)
    runs = _plan(options)
    devices = devices_of(options.jobs, cpu=options.cpu)
    finished = finished_results(options.results, runs)
    diverged = _execute(runs, finished, options, devices)
    return list(finished.values()), diverged


def task_names(words: Sequence[str]) -> list[str]:
    """GLUE's names of tasks, in the order of the paper's tables.

    Args:
        words: names in any case, "-" or "_" between their parts; "all" for all.
    """
    if [word.lower() for word in words] == ["all"]:
        return list(TASKS)
    unknown = [word for word in words if word.lower() not in _NAMES]
    if unknown:
        raise TrueNegError(f"--tasks: found {unknown[0]!r}, expected some of {', '.join(TASKS)}, or all")
    chosen = {_NAMES[word.lower()] for word in words}
    return [name for name in TASKS if name in chosen]


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


def _check(options: Options) -> None:
    for name in ("seeds", "workers", "jobs"):
        if getattr(options, name) < 1:
            raise TrueNegError(f"--{name} {getattr(options, name)}: expected 1 or more")
    if options.num_workers < 0:
        raise TrueNegError(f"--num-workers {options.num_workers}: expected 0 or more")
    if options.jobs > 1 and options.workers > 1:
        raise TrueNegError(f"--jobs {options.jobs}: excludes --workers {options.workers}; a job has one GPU")
    require_unsplit(options.data, "--data")
    if not options.data.is_dir():
        raise TrueNegError(f"--data {options.data}: no such folder; expected one with a folder for each task")
    if options.output.exists() and not options.output.is_dir():
        raise TrueNegError(f"--output {options.output}: is not a folder; choose another")
    require_writable(options.results, "--output", makes_folders=True)


def _plan(options: Options) -> list[GlueRun]:
    """All runs, checked."""
    names = task_names(options.tasks)
    infos = {name: check_folder(TASKS[name], options.data / name) for name in names}
    training.check_precision(options.precision, cpu=options.cpu)
    training.start_fairseq()
    model = _model(options)
    return [run for name in names for run in _runs_of_task(name, infos[name], model, options)]


def _model(options: Options) -> StartingModel:
    model = StartingModel.load(options.checkpoint, options.model)
    if model.is_roberta and options.recipe not in (None, "roberta"):
        raise TrueNegError(
            f"{options.checkpoint}: is fairseq's roberta, whose layers cannot have learning rates of their own; leave "
            f"--recipe {options.recipe} out"
        )
    if not model.name or "/" in model.name:
        raise TrueNegError(f"--model {model.name!r}: expected a name without '/'")
    return model


def _runs_of_task(name: str, info: dict[str, Any], model: StartingModel, options: Options) -> list[GlueRun]:
    data = options.data / name
    check_vocabulary(model.checkpoint, info["vocabulary"], data)
    if options.predict_test and not any(split.startswith("test") for split in info["splits"]):
        raise TrueNegError(f"--predict-test: {name} was prepared without its test set; prepare it again with test.tsv")
    recipe = make_recipe(
        options.recipe or model.config.family.name,
        name,
        width=model.config.hidden_size,
        positions=model.config.positions,
        examples=info["splits"]["train"]["examples"],
        **{setting: getattr(options, setting) for setting in OVERRIDES},
    )
    if recipe.batch_size % options.workers:
        raise TrueNegError(f"--workers {options.workers}: expected a divisor of the batch size {recipe.batch_size}")
    hardware = Hardware(
        precision=options.precision, cpu=options.cpu, workers=options.workers, num_workers=options.num_workers
    )
    return [
        GlueRun(
            model=model,
            data=data,
            seed=seed,
            folder=options.output / "runs" / model.name / f"{name}-{seed}",
            hardware=hardware,
            task=TASKS[name],
            recipe=recipe,
            submissions=options.output / "submissions",
            loggers=Loggers(options.tensorboard_logdir, options.wandb_project),
            predict_test=options.predict_test,
            keep_models=options.keep_models,
        )
        for seed in range(1, options.seeds + 1)
    ]


def _execute(
    runs: Sequence[GlueRun],
    finished: dict[tuple[str, str, int], Result],
    options: Options,
    devices: Sequence[str | None],
) -> list[str]:
    """Adds what is missing to ``finished`` and the file; returns what is to be said of runs that diverged."""
    training.quiet_fairseq()
    diverged: list[str] = []

    def execute(run: GlueRun, job: Job) -> None:
        with job.alone:  # again: another command may share the folder
            finished.update(finished_results(options.results, [run]))
        if run.key in finished:
            with job.alone:
                run.complete()
            return
        try:
            result = run.execute(job.progress, device=job.device, alone=job.alone)
        except Diverged as error:
            job.warn(str(error))
            diverged.append(str(error))
            return
        assert result is not None
        with job.alone:
            append_result(options.results, result)
            run.tidy()
            finished[run.key] = result

    run_jobs(execute, runs, devices, lengths=[run.recipe.updates for run in runs])
    return diverged
