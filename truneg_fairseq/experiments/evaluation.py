"""The evaluations of a trained model: each a few ``truneg`` commands in a folder, and the results they leave there."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..comparison.comparison import DISCRIMINATOR, GENERATOR, HELD_OUT, held_out_after
from ..comparison.results import BITS, Result, read_results
from ..errors import TrueNegError
from ..files import replacing_text
from ..finetuning.process import run_logged, size_of
from ..finetuning.run import DONE_NAME, RESULTS_NAME, failure, write_settings
from ..inspection.measurements import Measurement, read_measurements
from ..schema import read_json
from ..training_folder.checkpoints import LAST
from ..training_folder.metrics import METRICS_NAME, read_series
from .settings import Cloze, Electra, Glue, HeldOut, Lexsub, Pairs, Squad, flags_of, with_dashes
from .training import Pretraining, fingerprint, kept_options

MEASURED_NAME = "measured.jsonl"
_ELECTRA = {
    GENERATOR: {BITS: "gen_loss", "accuracy": "gen_accuracy"},
    DISCRIMINATOR: {
        **{BITS: "disc_loss", "accuracy": "disc_accuracy"},
        **{"precision": "disc_precision", "recall": "disc_recall"},
    },
}
"""What is logged of each part, by the names of results."""


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """One evaluation of one trained model."""

    name: str  # as shown
    model: Path  # the file of the model
    folder: Path  # of its files
    settings: dict[str, Any]  # what determines its results
    commands: Sequence[Sequence[object]]  # the arguments of ``truneg``, in this order
    results: Callable[[], list[Result]]  # of the files that the commands leave
    late: bool = False  # takes as long as a training, and waits until all models are trained
    # what may grow: an evaluation with less is done again, and does what is missing
    extent: dict[str, int] = field(default_factory=dict)
    removed: Sequence[str] = ()  # patterns of files that nobody needs in the end

    @property
    def done(self) -> bool:
        """Whether its results are there."""
        return self._is_of_this_model and self._record.get("extent") == self.extent

    @property
    def _is_of_this_model(self) -> bool:
        """Whether it has ended for this model, and not for one that was trained before."""
        if not (self.folder / DONE_NAME).exists():
            return False
        model = fingerprint(self.model)
        return bool(self._record.get("model", model) == model)

    @property
    def wall_seconds(self) -> float:
        """Of its commands, the last time that they were run."""
        return float(self._record["wall_seconds"])

    @property
    def _record(self) -> dict[str, Any]:
        path = self.folder / DONE_NAME
        return read_json(path, dict[str, Any], expected="what an evaluation took; remove it to evaluate again")

    def run(self, program: Sequence[str], poll: Callable[[], None], device: str | None) -> None:
        """Runs its commands, each in a process of its own.

        Args:
            program: what the arguments of a command are given to.
            poll: is called twice a second; an error from it ends the command.
            device: see :func:`~truneg_fairseq.finetuning.process.run_logged`.
        """
        if (self.folder / DONE_NAME).exists() and not self._is_of_this_model:
            shutil.rmtree(self.folder)
        write_settings(self.folder, self.settings)
        started, log = time.monotonic(), self.folder / "commands.log"
        for arguments in self.commands:
            words, start = [*program, *map(str, arguments)], size_of(log)
            code = run_logged(words, folder=self.folder, log=log, poll=poll, device=device)
            if code:
                raise TrueNegError(
                    f"{self.name}: truneg {arguments[0]} failed ({failure(log, code, start)}); its log is {log}"
                )
        record = {
            "extent": self.extent,
            "model": fingerprint(self.model),
            "wall_seconds": round(time.monotonic() - started, 1),
            "commands": [" ".join(["truneg", *map(str, arguments)]) for arguments in self.commands],
        }
        with replacing_text(self.folder / DONE_NAME) as stream:
            json.dump(record, stream, indent=1)
        self.tidy()

    def tidy(self) -> None:
        """Removes what nobody needs any more; only once it is done, or a kill would have it trained again."""
        for pattern in self.removed:
            for path in self.folder.glob(pattern):
                path.unlink()


def evaluations_of(run: Pretraining, folder: Path) -> list[Evaluation]:
    """The evaluations of a training's model, in the folder of the arm and seed."""
    asked, found = run.experiment.evaluations, list[Evaluation]()
    if asked.held_out:
        found.append(_held_out(asked.held_out, run))
    if asked.electra:
        found.append(_electra(asked.electra, run))
    if asked.lexsub:
        found.append(_lexsub(asked.lexsub, run, folder / "lexsub"))
    if asked.cloze:
        found.append(_cloze(asked.cloze, run, folder / "cloze"))
    if asked.pairs:
        found.append(_pairs(asked.pairs, run, folder / "pairs"))
    if asked.glue and (asked.glue.arms is None or run.arm in asked.glue.arms):
        found += _glue(asked.glue, run, folder)
    if asked.squad and (asked.squad.arms is None or run.arm in asked.squad.arms):
        found += _squad(asked.squad, run, folder.resolve() / "squad")
    return found


def _model(run: Pretraining) -> Path:
    return run.model_path.resolve()


def _held_out(asked: HeldOut, run: Pretraining) -> Evaluation:
    folder = run.folder.parent / "held-out"
    measured = run.folder.resolve() / MEASURED_NAME  # beside the log, where a report looks for it
    data = run.experiment.data.resolve()
    command: list[object] = ["inspect", "--checkpoint", *map(_model, run.parts), "--data", data]
    command += ["--split", asked.split, "--seed", asked.mask_seed, "--batch-size", asked.batch_size, *_cpu(run)]
    command += ["--json", measured]
    if asked.synonym_table is not None:
        command += ["--synonym-table", asked.synonym_table.resolve()]

    def results() -> list[Result]:
        *early, last = read_measurements(measured)
        updates = run.experiment.updates
        named = {held_out_after(found.updates / updates): found for found in early} | {HELD_OUT: last}
        return [_measured(found, task, run) for task, found in named.items()]

    settings = {"split": asked.split, "mask_seed": asked.mask_seed}
    for path in sorted(data.glob(f"{asked.split}.*")):
        settings[f"data, {path.name}"] = fingerprint(path)
    if asked.synonym_table is not None:
        settings["synonym_table"] = fingerprint(asked.synonym_table)
    return Evaluation(
        name=f"held-out text, {run.name}",
        model=run.model_path,
        folder=folder,
        settings=settings,
        commands=[command],
        results=results,
    )


def _measured(found: Measurement, task: str, run: Pretraining) -> Result:
    metrics = {BITS: found.values["loss"]}
    metrics |= {name: found.values[name] / 100 for name in ("accuracy", "ece", "hc_pred", "hc_iter")}
    settings = {"masked": found.masked, "sequences": found.sequences, "updates": found.updates}
    return Result(model=run.arm, task=task, seed=run.seed, metrics=metrics, settings=settings)


def _electra(asked: Electra, run: Pretraining) -> Evaluation:
    """No command: the training has validated at its end."""

    def results() -> list[Result]:
        path, updates = run.folder / METRICS_NAME, run.experiment.updates
        series = read_series(run.folder)
        if updates not in series.get((asked.split, "disc_loss"), {}):
            raise TrueNegError(
                f"{path}: has no validation on {asked.split} after update {updates}; was it interrupted? Remove "
                f"{run.folder} to train again"
            )
        found = []
        for task, metrics in _ELECTRA.items():
            last = {name: series[asked.split, logged][updates] for name, logged in metrics.items()}
            values = {name: value if name == BITS else value / 100 for name, value in last.items()}
            found.append(Result(model=run.arm, task=task, seed=run.seed, metrics=values))
        return found

    return Evaluation(
        name=f"ELECTRA, {run.name}",
        model=run.model_path,
        folder=run.folder.parent / "electra",
        settings={"split": asked.split},
        commands=[],
        results=results,
    )


def _lexsub(asked: Lexsub, run: Pretraining, folder: Path) -> Evaluation:
    files = {"judgements": asked.judgements, "gold": asked.gold, "held-out-table": asked.held_out_table}
    return _on_items("lexsub", files, run, folder)


def _cloze(asked: Cloze, run: Pretraining, folder: Path) -> Evaluation:
    return _on_items("cloze", {"answers": asked.answers, "table": asked.table}, run, folder)


def _pairs(asked: Pairs, run: Pretraining, folder: Path) -> Evaluation:
    made = _on_items("pairs", {}, run, folder)
    options = kept_options({} if asked.most is None else {"most": asked.most})
    files = [file for path in asked.pairs for file in (sorted(path.glob("*.jsonl")) if path.is_dir() else [path])]
    command = [*made.commands[0], "--pairs", *(path.resolve() for path in asked.pairs)]
    if asked.most is not None:
        command += ["--most", asked.most]
    return replace(made, settings={**{file.name: fingerprint(file) for file in files}, **options}, commands=[command])


def _on_items(name: str, files: Mapping[str, Path | None], run: Pretraining, folder: Path) -> Evaluation:
    """``truneg lexsub``, ``cloze`` or ``pairs`` on one model, with the files of its flags."""
    path, given = folder.resolve() / RESULTS_NAME, {flag: file for flag, file in files.items() if file is not None}
    command: list[object] = [name, _model(run), "--data", run.experiment.data.resolve(), "--results", path]
    for flag, file in given.items():
        command += [f"--{flag}", file.resolve()]
    command += ["--models", run.arm, "--seeds", run.seed, *_cpu(run)]
    return Evaluation(
        name=f"{name}, {run.name}",
        model=run.model_path,
        folder=folder,
        settings={flag: fingerprint(file) for flag, file in given.items()},
        commands=[command],
        results=lambda: read_results([path]),
    )


def _glue(asked: Glue, run: Pretraining, folder: Path) -> Iterator[Evaluation]:
    for task in asked.tasks:
        place = (folder / f"glue-{task}").resolve()
        command: list[object] = [
            *("glue", "train", "--checkpoint", _model(run), "--data", asked.data.resolve(), "--output", place),
            *(
                "--tasks",
                task,
                "--seeds",
                *range(1, asked.seeds + 1),
                "--model",
                run.arm,
                "--num-workers",
                0,
                *_cpu(run),
            ),
        ]
        yield Evaluation(
            name=f"{task}, {run.name}",
            model=run.model_path,
            folder=place,
            settings={"data": fingerprint(asked.data / task / "info.json"), **kept_options(with_dashes(asked.options))},
            commands=[[*command, *flags_of(with_dashes(asked.options))]],
            results=_mean_of([place / RESULTS_NAME], run, asked.seeds),
            late=True,
            extent={"seeds": asked.seeds},
        )


def _squad(asked: Squad, run: Pretraining, place: Path) -> Iterator[Evaluation]:
    """An evaluation for each seed; the last one's results are those of all."""
    settings: dict[str, Any] = {
        "data": fingerprint(asked.data / "info.json"),
        **kept_options(with_dashes(asked.options)),
    }
    for name, attack in asked.attacks.items():
        files = {"data": attack.data, "original": attack.original, "pairs": attack.pairs}
        settings |= {f"{name}, {part}": fingerprint(path) for part, path in files.items() if path is not None}
    folders = [place / f"seed-{seed}" for seed in range(1, asked.seeds + 1)]
    for seed, folder in enumerate(folders, start=1):
        last = seed == asked.seeds
        yield Evaluation(
            name=f"SQuAD {seed}, {run.name}",
            model=run.model_path,
            folder=folder,
            settings=settings,
            commands=list(_squad_commands(asked, run, folder, seed)),
            results=_mean_of([each / RESULTS_NAME for each in folders] if last else [], run, asked.seeds),
            late=True,
            removed=["train/checkpoint*.pt"],
        )


def _squad_commands(asked: Squad, run: Pretraining, folder: Path, seed: int) -> Iterator[list[object]]:
    """To train with one seed, and to answer and score the attacks."""
    trained, results = folder / "train", ["--results", folder / RESULTS_NAME]
    yield [
        *("squad", "train", "--checkpoint", _model(run), "--data", asked.data.resolve(), "--output", trained, *results),
        *("--seed", seed, "--name", run.arm, "--num-workers", 0, *_cpu(run), *flags_of(with_dashes(asked.options))),
    ]
    named = ["--model", run.arm, "--seed", seed, *results]
    for name, attack in asked.attacks.items():
        answers = {"attacked": folder / f"{name}.json", "original": folder / f"{name}-original.json"}
        for which, data in (("attacked", attack.data), ("original", attack.original)):
            if data is not None:
                predict = ["squad", "predict", "--checkpoint", trained / LAST, "--data", data.resolve()]
                yield [*predict, "--output", answers[which], *_cpu(run)]
        if attack.pairs is None:
            yield ["attack", "score-adversarial", attack.data.resolve(), answers["attacked"], "--name", name, *named]
        else:
            both = (answers["original"], answers["attacked"])
            yield ["attack", "score", attack.pairs.resolve(), *both, "--name", name, *named]


def _cpu(run: Pretraining) -> list[str]:
    return ["--cpu"] if run.hardware.cpu else []


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
    examples = {name: np.mean([result.examples[name] for result in found], axis=0).tolist() for name in first.examples}
    seconds = [result.wall_seconds for result in found if result.wall_seconds is not None]
    return replace(
        first,
        seed=run.seed,
        metrics={name: float(np.mean([result.metrics[name] for result in found])) for name in first.metrics},
        examples=examples,
        wall_seconds=round(sum(seconds), 1) if seconds else None,
        settings={"finetuning_seeds": len(found)},
    )
