"""The evaluations of a trained model, each with a folder, and the processes that do them.

The functions at the end run in such a process, with a memory, a GPU and a log of its own.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import TrueNegError
from ..evaluation.models import OpeningOptions
from ..evaluation.yardstick import Task, evaluate
from ..fairseq_runs.folder import METRICS_NAME, read_series
from ..files import changes, convert, files_below, read_json, replacing_text, write_json
from ..finetuning import FinetuneOptions
from ..finetuning.run_finetuning import finetune_all
from ..flags import check
from ..launch.process import Call, call_logged, failure, size_of
from ..launch.training_run import RESULTS_NAME
from ..registry import TASKS, YARDSTICKS
from ..results.result import BITS, GENERATED, HELD_OUT, Metric, NamedModel, Result, read_results
from .arm_training import Pretraining, fingerprint
from .settings import Finetuning, kept_options, with_dashes

MEASURED_NAME, LOG_NAME = "measured.jsonl", "evaluation.log"
_RECORD_NAME = "evaluated.json"
_VALIDATED: dict[str, dict[str, dict[str, Metric]]] = {
    "electra": {
        "ELECTRA generator": {"gen_accuracy": Metric("accuracy", True), "gen_loss": Metric(BITS, False, BITS)},
        "ELECTRA discriminator": {
            **{f"disc_{name}": Metric(name, True) for name in ("accuracy", "precision", "recall")},
            "disc_loss": Metric(BITS, False, BITS),
        },
    },
    "generation": {GENERATED: {"nll_loss": Metric(BITS, False, BITS)}},
}
"""What a training logs when it validates at its end, by the tasks of results; the titles name the metrics."""


class Asked(NamedTuple):
    """A yardstick for a model, and for earlier ones of its training."""

    model: NamedModel
    task: Task
    output: Path  # of the result lines
    earlier: tuple[NamedModel, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """One evaluation of one trained model."""

    name: str  # as shown
    model: Path  # the file of the model
    folder: Path  # of its files
    settings: dict[str, Any]  # what determines its results; with other ones it is done again
    results: Callable[[], list[Result]]  # of the files that it leaves
    asked: Asked | None = None  # a yardstick, measured together with the model's others
    # what takes as long as a training: it has a process of its own, and waits until all models are trained
    fine_tuning: Call | None = None

    @property
    def done(self) -> bool:
        """Whether its results are there, of this model and these settings."""
        record = self._read()
        return "wall_seconds" in record and not changes(record, self._wanted)

    @property
    def record(self) -> Path:
        """The file that says of what it is, and that it is done."""
        return self.folder / _RECORD_NAME

    @property
    def _wanted(self) -> dict[str, Any]:
        return {"model": fingerprint(self.model), "settings": self.settings}

    def _read(self) -> dict[str, Any]:
        expected = "an evaluation's record; remove it to evaluate again"
        return read_json(self.record, dict[str, Any], expected=expected) if self.record.exists() else {}

    def begin(self) -> None:
        """Makes its folder anew if model or settings are others than before, and notes what is evaluated there."""
        record = self._read()
        if record and changes(record, self._wanted):
            shutil.rmtree(self.folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.note()

    def note(self, **seconds: float) -> None:
        """Writes the record, with ``wall_seconds`` once it is done."""
        write_json(self.record, {**self._wanted, **seconds})


def in_processes(evaluations: Sequence[Evaluation]) -> list[list[Evaluation]]:
    """Those of each process: the yardsticks share one, for which the model is read once."""
    together = [each for each in evaluations if each.asked]
    return [together] * bool(together) + [[each] for each in evaluations if not each.asked]


def evaluate_together(
    evaluations: Sequence[Evaluation], run: Pretraining, poll: Callable[[], None], device: str | None
) -> str:
    """Evaluates a model in one process: all of its yardsticks, or one fine-tuning. Says what was done.

    The log is in the evaluation's folder; that of yardsticks in the folder of the arm and seed.
    """
    asked = [each.asked for each in evaluations if each.asked]
    options = OpeningOptions(data=run.experiment.data.resolve(), cpu=run.cpu, user_dir=run.user_dir)
    call = partial(measure, asked=asked, options=options) if asked else evaluations[0].fine_tuning
    log = (run.folder.parent if asked else evaluations[0].folder) / LOG_NAME
    name, started, start = "; ".join(each.name for each in evaluations), time.monotonic(), size_of(log)
    for each in evaluations:
        each.begin()
    if call and (code := call_logged(call, log=log, poll=poll, device=device)):
        raise TrueNegError(f"{name}: failed ({failure(log, code, start)}); its log is {log}")
    seconds = round(time.monotonic() - started, 1)
    for each in evaluations:
        each.note(wall_seconds=seconds)
    return f"{name}: done in {seconds:.0f} s"


def evaluations_of(run: Pretraining) -> list[Evaluation]:
    """The evaluations of a training's model, in the folder of the arm and seed."""
    asked = run.experiment.evaluations
    found = [_measured(task, run) for task in asked.tasks.values()]
    found += [_validated(name, part.split, run) for name in _VALIDATED if (part := getattr(asked, name))]
    for name, part in asked.finetune.items():
        if part.arms is None or run.arm in part.arms:
            found += _finetuned(name, part, run)
    return found


def _measured(task: Task, run: Pretraining) -> Evaluation:
    """What a yardstick measures of one model."""
    is_held_out, folder, earlier = task.name == "held-out", run.folder.with_name(task.name), []
    path = (folder / RESULTS_NAME).resolve()
    options = {name: getattr(task, name) for name in ("mask_seed", "batch_size", "limit")}
    settings: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    settings |= YARDSTICKS.digests([task.name])
    if task.synonym_table is not None:
        settings["synonym_table"] = fingerprint(task.synonym_table)
    read: dict[str, list[str]] = {}  # by name, which files of several folders may share
    for file in task.paths:
        here = sorted(run.experiment.data.glob(f"{file}.*")) if is_held_out and not file.exists() else [file]
        for each in here:
            for part in files_below(each, "*") if each.is_dir() else [each]:
                name = part.relative_to(each).as_posix() if each.is_dir() else part.name
                read.setdefault(f"data, {name}", []).append(fingerprint(part))
    settings |= {name: ", ".join(found) for name, found in read.items()}
    if is_held_out:
        path = run.folder.resolve() / MEASURED_NAME  # beside the log, where a report looks for it
        named = zip(run.experiment.milestones, run.earlier_models, strict=True)
        earlier = [NamedModel(f"update {updates}", model.resolve(), run.seed) for updates, model in named]
    files = tuple(str(Path(file).resolve()) if Path(file).exists() else file for file in task.files)
    table = None if task.synonym_table is None else task.synonym_table.resolve()
    model = NamedModel(run.arm, run.model_path.resolve(), run.seed)

    def results() -> list[Result]:
        if not is_held_out:
            return read_results([path])
        # The lines of a training's models in order, the last one first of all by its own name.
        *early, last = read_results([path])
        at = {f"{100 / run.experiment.updates * each.settings['updates']:.4g}": each for each in early}
        over = [replace(each, task=f"{HELD_OUT} after {share} %", at=float(share)) for share, each in at.items()]
        return [replace(each, model=run.arm, group=HELD_OUT) for each in [*over, replace(last, task=HELD_OUT)]]

    return Evaluation(
        name=f"{task.name}, {run.name}",
        model=run.model_path,
        folder=folder,
        settings=settings,
        asked=Asked(model, replace(task, files=files, synonym_table=table), path, tuple(earlier)),
        results=results,
    )


def _validated(name: str, split: str, run: Pretraining) -> Evaluation:
    """No call: the training has validated at its end. All but the loss, in bits, becomes a fraction."""

    def results() -> list[Result]:
        series, updates, found = read_series(run.folder), run.experiment.updates, []
        for task, logged in _VALIDATED[name].items():
            last = {metric: series.get((split, each), {}).get(updates) for each, metric in logged.items()}
            if None in last.values():
                raise TrueNegError(
                    f"{run.folder / METRICS_NAME}: has no validation on {split} after update {updates}; was it "
                    f"interrupted? Remove {run.folder} to train again"
                )
            units = {each: 100 if each.unit == "%" else 1 for each in last}
            metrics = {each.title: value / units[each] for each, value in last.items() if value is not None}
            shown = {metric.title: metric for metric in last}
            found.append(Result(model=run.arm, task=task, seed=run.seed, metrics=metrics, shown=shown))
        return found

    return Evaluation(
        name=f"{name}, {run.name}",
        model=run.model_path,
        folder=run.folder.with_name(name),
        settings={"split": split},
        results=results,
    )


def _finetuned(name: str, asked: Finetuning, run: Pretraining) -> Iterator[Evaluation]:
    """An evaluation for each task and seed; that of the last seed has the results of all seeds."""
    where, folder = f"evaluations.finetune.{name}.options", run.folder.with_name(name).resolve()
    named = {option.replace("-", "_"): value for option, value in asked.options.items() if value is not None}
    named |= {"models": [f"{run.arm}={run.model_path.resolve()}"], "prepared": str(asked.prepared.resolve())}
    named |= {"output": str(folder), "cpu": run.cpu}
    named |= {} if run.user_dir is None else {"user_dir": str(run.user_dir)}
    options = convert(named, where, FinetuneOptions, expected="options of the fine-tuning")
    check(options, flags=lambda option: f"{where}: {option}")
    settings = kept_options(with_dashes(asked.options))
    for task in asked.tasks:
        places = [folder / f"{task}-{seed}" for seed in range(1, asked.seeds + 1)]
        written = [place / RESULTS_NAME for place in places]
        for seed, place in enumerate(places, start=1):
            yield Evaluation(
                name=f"{task} {seed}, {run.name}",
                model=run.model_path,
                folder=place,
                settings=TASKS.digests([task]) | settings | {"data": fingerprint(asked.prepared / task / "info.json")},
                fine_tuning=partial(finetune_all, options=replace(options, tasks=[task], seeds=[seed], output=place)),
                results=_mean_of(written, run) if place == places[-1] else list,
            )


def _mean_of(paths: Sequence[Path], run: Pretraining) -> Callable[[], list[Result]]:
    """Of result files over the seeds of fine-tuning: one result a task, whose seed is that of the pre-training."""

    def results() -> list[Result]:
        by_task: dict[str, list[Result]] = {}
        for result in read_results(paths) if all(path.exists() for path in paths) else ():
            by_task.setdefault(result.task, []).append(result)
        means = []
        for found in by_task.values():
            parts: dict[str, Any] = {
                part: {name: np.mean([getattr(each, part)[name] for each in found], axis=0).tolist() for name in given}
                for part in ("metrics", "examples", "denominators")
                if (given := getattr(found[0], part))
            }
            seconds = [result.wall_seconds for result in found if result.wall_seconds is not None]
            wall = round(sum(seconds), 1) if seconds else None
            settings = {"finetuning_seeds": len(found)}
            means.append(replace(found[0], seed=run.seed, **parts, wall_seconds=wall, settings=settings))
        return means

    return results


# --- In the process of an evaluation ---


def measure(asked: list[Asked], options: OpeningOptions) -> None:
    """Measures one model on yardsticks, its checkpoint read once, and writes the lines of results."""
    last = list(evaluate([asked[0].model], [each.task for each in asked], options))
    for each, measured in zip(asked, last, strict=True):
        early = list(evaluate(each.earlier, [each.task], options)) if each.earlier else []
        with replacing_text(each.output) as stream:
            stream.writelines(result.line for one in (*early, measured) for result in one.results())
