"""Fine-tuning on GLUE's tasks with several seeds: all runs checked, executed, scored, and their results."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..comparison.results import Result, append_result
from ..errors import TrueNegError
from ..finetuning import training
from ..finetuning.data import check_vocabulary, read_info
from ..finetuning.jobs import Job, devices_of, run_jobs
from ..finetuning.model import StartingModel
from ..finetuning.run import MODEL_NAME, RESULTS_NAME, Diverged, FinetuningRun, Hardware, finished_results
from ..paths import require_unsplit, require_writable
from .files import TASKS, TaskFormat
from .options import TrainGlueOptions
from .predict import Predictor, read_ids, score, submission_name, write_submission
from .recipes import OVERRIDES, GlueRecipe, make_recipe

_HEAD = "sentence_classification_head"
_ROBERTA_SEPARATOR = 2
"""Id of the token before the second sentence: RoBERTa's ``</s>``."""
# Saved between epochs: what an interruption of a run of many updates may cost.
_SAVE_UPDATES = 2_000


@dataclass(frozen=True, kw_only=True)
class GlueRun(FinetuningRun):
    """One fine-tuning on a task of GLUE."""

    task: TaskFormat
    recipe: GlueRecipe
    submissions: dict[str, Path]  # by test split, the file of the predictions; empty if none are wanted
    keep_models: bool


def finetune(options: TrainGlueOptions) -> tuple[list[Result], list[str]]:
    """Runs what is not finished.

    Returns:
        The results of all runs, and a line for each run that diverged.
    """
    runs = check(options)
    path = options.output / RESULTS_NAME
    finished = finished_results(path, runs)
    diverged: list[str] = []

    def execute(run: GlueRun, job: Job) -> None:
        with job.lock:  # again: another command may share the folder
            finished.update(finished_results(path, [run]))
            if run.key in finished:
                _complete(run)
                return
        try:
            weights = run.train(job.progress, job.device)
        except Diverged as error:
            job.warn(str(error))
            diverged.append(str(error))
            return
        with job.lock:
            finished[run.key] = _evaluate(run, weights)
            append_result(path, finished[run.key])
            run.tidy()

    training.quiet_fairseq()
    devices = devices_of(options.jobs, cpu=options.cpu)
    run_jobs(execute, runs, devices, lengths=[run.recipe.updates for run in runs])
    return list(finished.values()), diverged


def check(options: TrainGlueOptions) -> list[GlueRun]:
    """All runs; what cannot be trained is refused before anything is."""
    if options.jobs > 1 and options.workers > 1:
        raise TrueNegError(f"--jobs {options.jobs}: excludes --workers {options.workers}; a job has one GPU")
    require_unsplit(options.data, "--data")
    require_writable(options.output / RESULTS_NAME, "--output", makes_folders=True)
    tasks = [task for name, task in TASKS.items() if name in options.tasks]
    infos = [_read_info(task, options.data / task.name) for task in tasks]
    training.check_precision(options.precision, cpu=options.cpu)
    training.start_fairseq()
    model = StartingModel.load(options.checkpoint, options.model)
    if model.is_roberta and options.recipe not in (None, "roberta"):
        raise TrueNegError(
            f"{options.checkpoint}: is fairseq's roberta, whose layers cannot have learning rates of their own; leave "
            f"--recipe {options.recipe} out"
        )
    return [
        _run(task, seed, info, model, options)
        for task, info in zip(tasks, infos, strict=True)
        for seed in dict.fromkeys(options.seeds)
    ]


def _read_info(task: TaskFormat, folder: Path) -> dict[str, Any]:
    """The description of a task's prepared folder."""
    if not folder.is_dir():
        raise TrueNegError(
            f"{folder}: no such folder; expected {task.name} prepared by 'truneg data prepare-glue' "
            "(or leave it out of --tasks)"
        )
    info = read_info(folder)
    for split in ("train", *task.validation_splits):
        if split not in info["splits"]:
            raise TrueNegError(f"{folder}: has no split {split}; expected one to train and to score on")
    return info


def _run(task: TaskFormat, seed: int, info: dict[str, Any], model: StartingModel, options: TrainGlueOptions) -> GlueRun:
    data = options.data / task.name
    check_vocabulary(model.checkpoint, info["vocabulary"], data)
    test_splits = [split for split in info["splits"] if split.startswith("test")]
    if options.predict_test and not test_splits:
        raise TrueNegError(
            f"--predict-test: {task.name} was prepared without its test set; prepare it again with test.tsv"
        )
    recipe = make_recipe(
        options.recipe or model.config.family.name,
        task.name,
        width=model.config.hidden_size,
        positions=model.config.positions,
        examples=info["splits"]["train"]["examples"],
        **{name: getattr(options, name) for name in OVERRIDES},
    )
    if recipe.batch_size % options.workers:
        raise TrueNegError(f"--workers {options.workers}: expected a divisor of the batch size {recipe.batch_size}")
    flags: list[object] = ["--task", "glue", "--criterion", "sentence_prediction_metrics"]
    flags += ["--num-classes", max(1, len(task.labels)), "--classification-head-name", _HEAD]
    flags += ["--regression-target"] if task.regression else []
    flags += ["--separator-token", _ROBERTA_SEPARATOR] if model.is_roberta else []
    flags += ["--max-positions", model.config.positions, "--find-unused-parameters", *recipe.flags]
    flags += ["--batch-size", recipe.batch_size // options.workers, "--valid-subset", ",".join(task.validation_splits)]
    flags += ["--save-interval-updates", _SAVE_UPDATES, "--log-interval", 10]
    submitted = options.output / "submissions" / model.name / f"seed-{seed}"
    return GlueRun(
        model=model,
        task_name=task.name,
        data=data,
        seed=seed,
        folder=options.output / "runs" / model.name / f"{task.name}-{seed}",
        hardware=Hardware(
            precision=options.precision, cpu=options.cpu, workers=options.workers, num_workers=options.num_workers
        ),
        determined_by={
            "checkpoint_sha256": model.sha256,
            # Test sets change nothing of it, and may be prepared later.
            "data": {name: file for name, file in info["sources"].items() if not name.startswith("test")},
            "swap_pairs": bool(info.get("swap_pairs")),
            "precision": options.precision,
            **asdict(recipe),
        },
        task_flags=[*flags, *options.logger_flags(model.name, f"{task.name} seed {seed}")],
        task=task,
        recipe=recipe,
        submissions={
            split: submitted / submission_name(task, split) for split in (test_splits if options.predict_test else ())
        },
        keep_models=options.keep_models,
    )


def _evaluate(run: GlueRun, weights: Path) -> Result:
    """Scores the validation sets, and answers the test sets where that is wanted."""
    predictor = Predictor(weights, run.data, cpu=run.hardware.cpu)
    metrics, examples = score(run.task, predictor.predict("valid"))
    if run.task.name == "MNLI":
        metrics["accuracy_mismatched"] = score(run.task, predictor.predict("valid1"))[0]["accuracy"]
    _submit(run, predictor)
    if run.keep_models:
        run.keep_model(run.folder / MODEL_NAME)
    ids = read_ids(run.data, "valid") if examples else []
    return run.result(metrics, examples, ids, workers=run.hardware.workers)


def _complete(run: GlueRun) -> None:
    """Does what this command wants beyond an earlier one's result."""
    run.tidy()
    model = run.folder / MODEL_NAME
    unanswered = not all(path.exists() for path in run.submissions.values())
    for flag, wanted in (("--keep-models", run.keep_models), ("--predict-test", unanswered)):
        if wanted and not model.exists():
            raise TrueNegError(
                f"{flag}: {run.name} is finished and its model was not kept; choose another --output (with "
                "--keep-models a model stays)"
            )
    if unanswered:
        _submit(run, Predictor(model, run.data, cpu=run.hardware.cpu))


def _submit(run: GlueRun, predictor: Predictor) -> None:
    for split, path in run.submissions.items():
        write_submission(run.task, split, predictor.predict(split), run.data, path)


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
