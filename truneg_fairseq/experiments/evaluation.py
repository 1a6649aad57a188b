"""The evaluations of a trained model: each in a folder with a log, and the results that it leaves there."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import structs

from ..errors import TrueNegError
from ..evaluation.models import OpeningOptions
from ..evaluation.yardstick import Task
from ..files import convert, read_json, replacing_text
from ..finetuning.options import FinetuneOptions
from ..launch.process import failure, size_of
from ..launch.training import DONE_NAME, MODEL_NAME, RESULTS_NAME, write_settings
from ..options import check
from ..results.names import NamedModel
from ..results.result import BITS, DISCRIMINATOR, GENERATED, GENERATOR, HELD_OUT, Result, read_results
from ..trainer.folder import METRICS_NAME, read_series
from . import steps
from .settings import Glue, HeldOut, Squad, with_dashes
from .steps import Asked
from .training import Pretraining, fingerprint, kept_options

MEASURED_NAME, LOG_NAME = "measured.jsonl", "evaluation.log"
_BEGUN_NAME = "model.sha256"  # of the model that is evaluated in a folder
_VALIDATED = {
    "electra": {
        GENERATOR: {BITS: "gen_loss", "accuracy": "gen_accuracy"},
        DISCRIMINATOR: {
            **{BITS: "disc_loss", "accuracy": "disc_accuracy"},
            **{"precision": "disc_precision", "recall": "disc_recall"},
        },
    },
    "generation": {GENERATED: {BITS: "nll_loss"}},
}
"""What a training logs when it validates at its end, by the tasks and names of results."""
_YARDSTICKS = {
    **{"lexsub": "lexsub", "cloze": "cloze", "pairs": "blimp", "zorro": "zorro"},
    **{"similarity": "sts", "reading": "reading"},
}
"""The evaluations of the file by the names of ``truneg evaluate --task``."""
_TABLES = ("held_out_table", "table")  # of lexsub and cloze


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """One evaluation of one trained model."""

    name: str  # as shown
    model: Path  # the file of the model
    folder: Path  # of its files
    settings: dict[str, Any]  # what determines its results
    results: Callable[[], list[Result]]  # of the files that it leaves
    steps: Sequence[steps.Step] = ()  # called one after the other in a process of their own
    asked: Asked | None = None  # in place of steps: a yardstick, measured together with the model's others
    late: bool = False  # takes as long as a training, and waits until all models are trained
    # what may grow: an evaluation with less is done again, and does what is missing
    extent: dict[str, int] = field(default_factory=dict)
    removed: Sequence[str] = ()  # patterns of files that nobody needs in the end

    @property
    def done(self) -> bool:
        """Whether its results are there, of this model and not of one that was trained before."""
        is_done = (self.folder / DONE_NAME).exists()
        return is_done and self._is_of_this_model and self._record.get("extent") == self.extent

    @property
    def _is_of_this_model(self) -> bool:
        model, begun = fingerprint(self.model), self.folder / _BEGUN_NAME
        return begun.read_text() == model if begun.exists() else self._record.get("model", model) == model

    @property
    def wall_seconds(self) -> float:
        """Of its steps, the last time that they were done."""
        return float(self._record["wall_seconds"])

    @property
    def _record(self) -> dict[str, Any]:
        path = self.folder / DONE_NAME
        expected = "what an evaluation took; remove it to evaluate again"
        return read_json(path, dict[str, Any], expected=expected) if path.exists() else {}

    def run(self, poll: Callable[[], None], device: str | None) -> None:
        """Does its steps; ``poll`` and ``device`` as for :func:`.steps.call_logged`."""
        self._begin()
        log = self.folder / LOG_NAME
        self._end(_call(self.steps, self.name, log, poll, device) if self.steps else 0.0)

    def _begin(self) -> None:
        if self.folder.exists() and not self._is_of_this_model:
            shutil.rmtree(self.folder)
        write_settings(self.folder, self.settings)
        with replacing_text(self.folder / _BEGUN_NAME) as stream:
            stream.write(fingerprint(self.model))

    def _end(self, seconds: float) -> None:
        with replacing_text(self.folder / DONE_NAME) as stream:
            json.dump({"extent": self.extent, "wall_seconds": seconds}, stream, indent=1)
        self.tidy()

    def tidy(self) -> None:
        """Removes what nobody needs any more; only once it is done, or a kill would have it trained again."""
        for pattern in self.removed:
            for path in self.folder.glob(pattern):
                path.unlink()


def run_together(
    evaluations: Sequence[Evaluation], run: Pretraining, folder: Path, poll: Callable[[], None], device: str | None
) -> None:
    """Measures a model on all these yardsticks in one process, whose log is in the folder of the arm and seed."""
    for each in evaluations:
        each._begin()
    options = OpeningOptions(data=run.experiment.data.resolve(), cpu=run.hardware.cpu)
    work = partial(steps.evaluate, [each.asked for each in evaluations if each.asked], options)
    seconds = _call([work], "; ".join(each.name for each in evaluations), folder / LOG_NAME, poll, device)
    for each in evaluations:
        each._end(seconds)


def _call(work: Sequence[steps.Step], name: str, log: Path, poll: Callable[[], None], device: str | None) -> float:
    """The seconds of steps in a process of their own."""
    started, start = time.monotonic(), size_of(log)
    if code := steps.call_logged(work, log=log, poll=poll, device=device):
        raise TrueNegError(f"{name}: failed ({failure(log, code, start)}); its log is {log}")
    return round(time.monotonic() - started, 1)


def evaluations_of(run: Pretraining, folder: Path) -> list[Evaluation]:
    """The evaluations of a training's model, in the folder of the arm and seed."""
    asked, found = run.experiment.evaluations, list[Evaluation]()
    if asked.held_out:
        found.append(_held_out(asked.held_out, run))
    for name in _VALIDATED:
        if part := getattr(asked, name):
            found.append(_of_validation(name, part.split, run))
    for name in _YARDSTICKS:
        if part := getattr(asked, name):
            found.append(_on_items(name, structs.asdict(part), run, folder / name))
    if asked.glue and (asked.glue.arms is None or run.arm in asked.glue.arms):
        found += _glue(asked.glue, run, folder)
    if asked.squad and (asked.squad.arms is None or run.arm in asked.squad.arms):
        found += _squad(asked.squad, run, folder.resolve() / "squad")
    return found


def _held_out(asked: HeldOut, run: Pretraining) -> Evaluation:
    measured = run.folder.resolve() / MEASURED_NAME  # beside the log, where a report looks for it
    data, table = run.experiment.data.resolve(), asked.synonym_table
    task = Task(
        "held-out",
        (asked.split,),
        synonym_table=None if table is None else table.resolve(),
        mask_seed=asked.mask_seed,
        batch_size=asked.batch_size,
    )
    *early, last = [part.model_path.resolve() for part in run.parts]
    models = [NamedModel(f"part {number}", path, run.seed) for number, path in enumerate(early)]
    models.append(NamedModel(run.arm, last, run.seed))

    def results() -> list[Result]:
        *early, last = read_results([measured])
        share = 100 / run.experiment.updates
        percents = {f"{share * found.settings['updates']:.4g}": found for found in early}
        over = [replace(found, task=f"{HELD_OUT} after {at} %", at=float(at)) for at, found in percents.items()]
        named = [*over, replace(last, task=HELD_OUT)]
        return [replace(found, model=run.arm, group=HELD_OUT) for found in named]

    settings = {"split": asked.split, "mask_seed": asked.mask_seed}
    for path in sorted(data.glob(f"{asked.split}.*")):
        settings[f"data, {path.name}"] = fingerprint(path)
    if asked.synonym_table is not None:
        settings["synonym_table"] = fingerprint(asked.synonym_table)
    return Evaluation(
        name=f"held-out text, {run.name}",
        model=run.model_path,
        folder=run.folder.parent / "held-out",
        settings=settings,
        asked=steps.Asked(tuple(models), task, measured),
        results=results,
    )


def _of_validation(name: str, split: str, run: Pretraining) -> Evaluation:
    """No step: the training has validated at its end."""

    def results() -> list[Result]:
        logged = {task: _validated(split, run, metrics) for task, metrics in _VALIDATED[name].items()}
        return [Result(model=run.arm, task=task, seed=run.seed, metrics=found) for task, found in logged.items()]

    return Evaluation(
        name=f"{name}, {run.name}",
        model=run.model_path,
        folder=run.folder.parent / name,
        settings={"split": split},
        results=results,
    )


def _validated(split: str, run: Pretraining, metrics: Mapping[str, str]) -> dict[str, float]:
    """What was logged at the end, by the names that are wanted; all but the loss, in bits, as fractions."""
    path, updates = run.folder / METRICS_NAME, run.experiment.updates
    series = read_series(run.folder)
    if any(updates not in series.get((split, logged), {}) for logged in metrics.values()):
        raise TrueNegError(
            f"{path}: has no validation on {split} after update {updates}; was it interrupted? Remove {run.folder} to "
            "train again"
        )
    found = {name: series[split, logged][updates] for name, logged in metrics.items()}
    return {name: value if name == BITS else value / 100 for name, value in found.items()}


def _on_items(name: str, asked: Mapping[str, Any], run: Pretraining, folder: Path) -> Evaluation:
    """What a yardstick measures of one model."""
    path, files, settings = folder.resolve() / RESULTS_NAME, list[Path](), dict[str, Any]()
    for option, value in asked.items():
        for file in value if isinstance(value, list) else [value]:
            if isinstance(file, Path) and option not in _TABLES:
                files.append(file.resolve())
            is_folder = isinstance(file, Path) and file.is_dir()
            for each in sorted([*file.glob("*.jsonl"), *file.glob("*.txt*")]) if is_folder else [file]:
                known = each.name if isinstance(value, list) else option
                settings |= {known: fingerprint(each)} if isinstance(each, Path) else kept_options({option: each})
    table = next((asked[option] for option in _TABLES if asked.get(option)), None)
    task = Task(
        _YARDSTICKS[name],
        tuple(map(str, files)),
        synonym_table=None if table is None else table.resolve(),
        limit=asked.get("most"),
    )
    model = NamedModel(run.arm, run.model_path.resolve(), run.seed)
    return Evaluation(
        name=f"{name}, {run.name}",
        model=run.model_path,
        folder=folder,
        settings=settings,
        asked=steps.Asked((model,), task, path),
        results=lambda: read_results([path]),
    )


def _glue(asked: Glue, run: Pretraining, folder: Path) -> Iterator[Evaluation]:
    for task in asked.tasks:
        place = (folder / f"glue-{task}").resolve()
        own = {"output": place, "tasks": [task], "seeds": list(range(1, asked.seeds + 1))}
        options = _finetuning_options("glue", asked, run, own)
        yield Evaluation(
            name=f"{task}, {run.name}",
            model=run.model_path,
            folder=place,
            settings={"data": fingerprint(asked.data / task / "info.json"), **kept_options(with_dashes(asked.options))},
            steps=[partial(steps.finetune, options)],
            results=_mean_of([place / RESULTS_NAME], run, asked.seeds),
            late=True,
            extent={"seeds": asked.seeds},
        )


def _squad(asked: Squad, run: Pretraining, place: Path) -> Iterator[Evaluation]:
    """An evaluation for each seed; the last one's results are those of all."""
    settings = {"data": fingerprint(asked.data / "SQuAD" / "info.json"), **kept_options(with_dashes(asked.options))}
    for name, attack in asked.attacks.items():
        files = {"data": attack.data, "original": attack.original, "pairs": attack.pairs}
        settings |= {f"{name}, {part}": fingerprint(path) for part, path in files.items() if path is not None}
    folders = [place / f"seed-{seed}" for seed in range(1, asked.seeds + 1)]
    for seed, folder in enumerate(folders, start=1):
        results = folder / RESULTS_NAME
        own = {"output": folder, "tasks": ["SQuAD"], "seeds": [seed], "keep_models": bool(asked.attacks)}
        training = partial(steps.finetune, _finetuning_options("squad", asked, run, own))
        tuned = folder / "runs" / run.arm / f"SQuAD-{seed}" / MODEL_NAME
        attacked: dict[str, Any] = {"model": run.arm, "seed": seed, "results": results, "cpu": run.hardware.cpu}
        attacks = [partial(steps.attack, attack, name, tuned, **attacked) for name, attack in asked.attacks.items()]
        last = seed == asked.seeds
        yield Evaluation(
            name=f"SQuAD {seed}, {run.name}",
            model=run.model_path,
            folder=folder,
            settings=settings,
            steps=[training, *attacks],
            results=_mean_of([each / RESULTS_NAME for each in folders] if last else [], run, asked.seeds),
            late=True,
            removed=[str(tuned.relative_to(folder))],
        )


def _finetuning_options(part: str, asked: Glue | Squad, run: Pretraining, own: dict[str, Any]) -> FinetuneOptions:
    """The options of a fine-tuning: those of the file, which are checked, and the experiment's own."""
    where = f"evaluations.{part}.options"
    named = {name.replace("-", "_"): value for name, value in asked.options.items() if value is not None}
    own |= {"models": [f"{run.arm}={run.model_path.resolve()}"], "prepared": asked.data.resolve()}
    own |= {"cpu": run.hardware.cpu}
    words = {name: str(value) if isinstance(value, Path) else value for name, value in own.items()}
    options = convert({**named, **words}, where, FinetuneOptions, expected="options of the fine-tuning")
    check(options, flags=lambda name: f"{where}: {name}")
    return options


def _mean_of(paths: Sequence[Path], run: Pretraining, seeds: int) -> Callable[[], list[Result]]:
    """Of result files over the seeds of fine-tuning: one result a task, whose seed is that of the pre-training."""

    def results() -> list[Result]:
        by_task: dict[str, list[Result]] = {}
        for result in read_results(paths) if all(path.exists() for path in paths) else ():
            if result.seed <= seeds:
                by_task.setdefault(result.task, []).append(result)
        return [_mean(found, run) for found in by_task.values()]

    return results


def _mean(found: Sequence[Result], run: Pretraining) -> Result:
    first = found[0]
    items = {
        part: {name: np.mean([getattr(each, part)[name] for each in found], axis=0).tolist() for name in given}
        for part, given in (("examples", first.examples), ("denominators", first.denominators))
    }
    seconds = [result.wall_seconds for result in found if result.wall_seconds is not None]
    return replace(
        first,
        seed=run.seed,
        metrics={name: float(np.mean([result.metrics[name] for result in found])) for name in first.metrics},
        **items,
        wall_seconds=round(sum(seconds), 1) if seconds else None,
        settings={"finetuning_seeds": len(found)},
    )
