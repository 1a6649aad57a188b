"""Fine-tuning: data prepared; models x tasks x seeds checked, trained and scored; files answered."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from .. import register
from ..convert.architecture import architecture_flags, config_of
from ..data.tokenizer import PretrainedVocabulary
from ..errors import TrueNegError, refuse
from ..files import require_different, require_same, require_writable
from ..flags import flag_of
from ..launch.jobs import Job, devices_of, run_jobs
from ..launch.training_run import MODEL_NAME, RESULTS_NAME, Diverged, TrainingRun, check_precision
from ..models.checkpoints import Checkpoint, check_vocabulary, quiet_fairseq, read_checkpoint
from ..registry import TASKS
from ..results.result import Result, append_result, named_models, read_results
from ..workers import choose_device
from . import FinetuneOptions, PredictOptions, PrepareOptions
from .glue import TASKS as GLUE
from .task import FinetuningTask, Recipe, describe, read_info

# Saved between epochs: what an interruption of a run of many updates may cost.
_SAVE_UPDATES = 2_000


@dataclass(frozen=True, kw_only=True)
class FinetuningRun(TrainingRun):
    """One model fine-tuned on one task with one seed."""

    start: Checkpoint  # the pre-trained model
    model_name: str  # in the results
    task: FinetuningTask
    prepared: Path  # the task's folder
    info: dict[str, Any]  # its description
    recipe: Recipe

    @property
    def name(self) -> str:
        model, task, seed = self.key
        return f"{task} seed {seed} of {model}"

    @property
    def key(self) -> tuple[str, str, int]:
        """As :attr:`Result.key`."""
        return self.model_name, self.task.shown(self.info)[0], self.seed

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "checkpoint_sha256": self.start.sha256,
            # Test sets change nothing of it, and may be prepared later.
            "data": {name: file for name, file in self.info["sources"].items() if not name.startswith("test")},
            **{name: self.info[name] for name in self.task.chosen},
            **TASKS.digests([self.task.name]),
            "precision": self.precision,
            **asdict(self.recipe),
        }

    @property
    def own_flags(self) -> list[object]:
        config, recipe = config_of(self.start), self.recipe
        return [
            *(self.prepared.resolve(), *self.task.flags(config)),
            *("--optimizer", "electra_adam", "--lr", recipe.lr, "--layer-lr-decay", recipe.layer_lr_decay),
            *("--lr-scheduler", "electra_linear", "--warmup-ratio", 0.1, "--weight-decay", recipe.weight_decay),
            *("--clip-norm", 1.0, "--batch-size", recipe.batch_size, "--total-num-update", recipe.updates),
            *("--max-update", recipe.updates, "--max-epoch", recipe.epochs),
            *("--save-interval-updates", _SAVE_UPDATES, "--log-interval", 10),
            *(*architecture_flags(config), "--finetune-from-model", self.start.path.resolve()),
            *("--required-batch-size-multiple", 1),
        ]

    def evaluate(self, weights: Path) -> Result:
        """The scores of the trained model, with how it was made."""
        scores = self.task.evaluate(*load_finetuned(weights, self.prepared, cpu=self.cpu), self.prepared, self.folder)
        name, group, shown = self.task.shown(self.info)
        return Result(
            model=self.model_name,
            task=name,
            seed=self.seed,
            shown=shown,
            group=group,
            settings={**self.settings, "checkpoint": str(self.start.path.resolve()), "command": self.command},
            **scores,
            **self.used,
        )


def find_tasks(names: Iterable[str], flag: str = "--tasks") -> list[FinetuningTask]:
    """The tasks of these names, in the order of the paper's tables; a user's own behind them."""
    tasks = {name: TASKS.look_up(name, flag)() for name in names}
    return [tasks[name] for name in TASKS.names if name in tasks]


def prepare(options: PrepareOptions) -> Iterator[tuple[Path, list[str], bool]]:
    """Prepares tasks one by one; yields a task's folder, what it holds in lines, and whether it was made now."""
    places: dict[str, list[Path]] = {}
    for argument in options.task:
        name, _, place = argument.partition("=")
        if not place or not Path(place).exists():
            raise TrueNegError(f"--task {argument}: expected NAME=DIR, with a folder of official files")
        for task in find_tasks(GLUE if name == "GLUE" else [name], "--task"):
            places.setdefault(task.name, []).append(Path(place, task.name) if name == "GLUE" else Path(place))
    files = [(task, task.find_files(places[task.name])) for task in find_tasks(places)]
    vocabulary = PretrainedVocabulary.load(options.data)
    for task, found in files:
        folder = options.output_dir / task.name
        info, made = task.prepare(found, vocabulary, folder, task.choose(options))
        yield folder, describe(info), made


def finetune(options: FinetuneOptions) -> tuple[list[Result], list[str]]:
    """Runs what is not finished; gives the results of all runs, and a line for each that diverged."""
    runs = check(options)
    path = options.output / RESULTS_NAME
    finished = _finished(path, runs)
    failed: list[str] = []

    def execute(run: FinetuningRun, job: Job) -> None:
        with job.lock:  # again: another command may share the folder
            finished.update(_finished(path, [run]))
            if run.key in finished:
                run.tidy()  # the command may have been killed before it had done so
                if options.keep_models and not (run.folder / MODEL_NAME).exists():
                    found = f"{run.name} is finished and its model was not kept"
                    raise TrueNegError(f"--keep-models: {found}; choose another --output")
                return
        try:
            weights = run.train(job.progress, job.device)
            with job.lock:
                result = run.evaluate(weights)
                if options.keep_models:
                    run.keep_model(run.folder / MODEL_NAME)
                append_result(path, result)
                finished[run.key] = result
                run.tidy()
        except Diverged as error:
            job.warn(str(error))
            failed.append(str(error))

    run_jobs(execute, runs, devices_of(options.jobs, cpu=options.cpu), lengths=[run.recipe.updates for run in runs])
    return [finished[run.key] for run in runs if run.key in finished], failed


def finetune_all(*, options: FinetuneOptions) -> None:
    """:func:`finetune`, where a run whose loss becomes NaN is an error."""
    _, failed = finetune(options)
    if failed:
        raise TrueNegError(failed[0])


def check(options: FinetuneOptions) -> list[FinetuningRun]:
    """All runs; what cannot be trained is refused before anything is."""
    require_writable(options.output / RESULTS_NAME, "--output", makes_folders=True)
    tasks = find_tasks(options.tasks or [name for name in TASKS.names if (options.prepared / name).is_dir()])
    if not tasks:
        raise TrueNegError(f"--prepared {options.prepared}: has no task; expected a folder of 'truneg data prepare'")
    infos = [read_info(options.prepared / task.name) for task in tasks]
    for task, info in zip(tasks, infos, strict=True):
        remedy = "remove it and run 'truneg data prepare' again"
        require_same(str(options.prepared / task.name), info, TASKS.digests([task.name]), remedy)
    check_precision(options.precision, cpu=options.cpu)
    register()
    runs = []
    for model in named_models(options.models, seed=0):
        start = read_checkpoint(model.path)
        for task, info in zip(tasks, infos, strict=True):
            recipe = make_recipe(task, info, start, options)
            runs += [
                FinetuningRun(
                    seed=seed,
                    folder=options.output / "runs" / model.name / f"{task.name}-{seed}",
                    precision=options.precision,
                    cpu=options.cpu,
                    user_dir=options.user_dir,
                    start=start,
                    model_name=model.name,
                    task=task,
                    prepared=options.prepared / task.name,
                    info=info,
                    recipe=recipe,
                )
                for seed in dict.fromkeys(options.seeds)
            ]
    return runs


def make_recipe(task: FinetuningTask, info: dict[str, Any], start: Checkpoint, options: FinetuneOptions) -> Recipe:
    """The settings of a task for a model: those of the options, or else the task's own."""
    folder, config = options.prepared / task.name, config_of(start)
    longest, positions = info["max_length"], config.positions
    empty = [split for split in ("train", "valid") if not info["splits"].get(split, {}).get(task.counted)]
    refuse(
        (empty, f"{folder}: has no {task.counted} in {' and '.join(empty)}; expected data to train and to validate on"),
        (
            config.family == "roberta",
            f"{start.path}: is fairseq's roberta; expected a bert or electra model (fairseq's own recipes fine-tune "
            "roberta on GLUE: see docs/start/finetune.md)",
        ),
        (
            longest > positions,
            f"{folder}: has examples of {longest} tokens, {start.path} has {positions} positions; prepare the data "
            f"with --max-length {positions}",
        ),
    )
    check_vocabulary(start, info["vocabulary"], folder)
    recipe = task.recipe(config, info)
    given = {name: value for name in asdict(recipe) if (value := getattr(options, name, None)) is not None}
    recipe = replace(recipe, **given)
    examples = info["splits"]["train"][task.counted]
    return replace(recipe, updates=recipe.epochs * math.ceil(examples / recipe.batch_size))


def _finished(path: Path, runs: Sequence[FinetuningRun]) -> dict[tuple[str, str, int], Result]:
    """The results of these runs that a file has."""
    known = {result.key: result for result in read_results([path])} if path.exists() else {}
    done = [run for run in runs if run.key in known]
    remedy = "give the same options, another name of the model, or another --output"
    for run in done:
        require_same(f"{path}: {run.name}", known[run.key].settings, run.settings, remedy)
    return {run.key: known[run.key] for run in done}


def predict(options: PredictOptions) -> tuple[dict[str, float], str | None]:
    """Answers a file of the model's task; gives the number of ``examples``, scores in percent where the file has the
    true answers, and :meth:`FinetuningTask.scorer`.
    """
    outputs = {name: path for name in ("output", "na_prob_file") if (path := getattr(options, name)) is not None}
    require_different(checkpoint=options.checkpoint, file=options.file, **outputs)
    for name, path in outputs.items():
        require_writable(path, flag_of(name), makes_folders=True)
    register()
    checkpoint = read_checkpoint(options.checkpoint)
    trained_on = checkpoint.task.get("_name", checkpoint.task.get("task"))
    prepared, was = options.prepared or Path(str(checkpoint.task["data"])), f"{options.checkpoint}: was trained on"
    refuse(
        (
            trained_on in ("masked_lm", "electra_pretraining"),
            f"{was} --task {trained_on}; expected a fine-tuned model",
        ),
        (not prepared.is_dir(), f"{was} {prepared}, which is not a folder here; name it with --prepared"),
    )
    info = read_info(prepared)
    (task,) = find_tasks([info["task"]], f"{prepared}: task")
    check_vocabulary(checkpoint, info["vocabulary"], prepared)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / task.name
        chosen = {name: info[name] for name in task.chosen}
        task.prepare({"test": options.file}, PretrainedVocabulary.load(prepared), folder, chosen)
        report = task.predict(*load_finetuned(options.checkpoint, folder, cpu=options.cpu), folder, options)
    return report, task.scorer(options.file)


def load_finetuned(checkpoint: Path, data: Path, *, cpu: bool) -> tuple[Any, Any]:
    """A fine-tuned model in fp32 on its device, and fairseq's task with the data to predict on."""
    quiet_fairseq()
    from fairseq import checkpoint_utils

    (model,), _, task = checkpoint_utils.load_model_ensemble_and_task(
        [str(checkpoint)], arg_overrides={"data": str(data)}
    )
    return model.float().eval().to(choose_device(cpu=cpu)), task
