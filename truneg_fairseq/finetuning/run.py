"""One training by fairseq-train, interrupted and continued at will; one fine-tuning: a model, a task, a seed."""

from __future__ import annotations

import abc
import importlib.util
import json
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..comparison.results import Result, read_results
from ..errors import TrueNegError
from ..files import make_output_folder, replacing_file, replacing_text
from ..schema import read_json
from ..training_folder.checkpoints import LAST
from ..training_folder.stopping import EXIT_STOPPED
from . import process
from .lock import alone
from .model import StartingModel
from .process import FINISHED_NAME, read_tail, run_process, size_of, training_alone
from .training import FP16_FLAGS

SETTINGS_NAME = "settings.json"
RESULTS_NAME = "results.jsonl"
LOG_NAME = "train.log"
MODEL_NAME = "model.pt"
DONE_NAME = "done.json"
_CRASH_NAME = "crash.pt"  # fairseq's, of a training that diverged: nothing continues from it
_MADE = ("checkpoint*.pt", "model*.pt", "finished*.json", DONE_NAME)
_TAIL = 1 << 16
_LONGEST_QUOTE = 200
# The criterions' message when the loss or its gradient is NaN or infinite, or overflows at every fp16 scale.
_DIVERGED = "truneg_fairseq: error: training stopped:"


class Diverged(TrueNegError):
    """The loss of a run became NaN; other runs may do better."""


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """What runs have at their disposal."""

    precision: str = "fp32"  # one of :data:`.training.PRECISIONS`
    cpu: bool = False  # keep off the GPU
    workers: int = 1  # of data parallelism, which share a batch
    num_workers: int = 0  # processes that load data


@dataclass(frozen=True)
class Loggers:
    """fairseq's loggers of a run."""

    tensorboard_logdir: Path | None = None  # gets a folder for each run; None for no TensorBoard
    wandb_project: str | None = None  # of Weights and Biases; None for none

    def __post_init__(self) -> None:
        for field, package in (("tensorboard_logdir", "tensorboard"), ("wandb_project", "wandb")):
            if getattr(self, field) is not None and importlib.util.find_spec(package) is None:
                flag = f"--{field.replace('_', '-')}"
                raise TrueNegError(f"{flag}: needs the package {package}; run pip install {package}")

    def flags(self, model: str, run: str) -> list[object]:
        """fairseq-train's; a run is told apart by the names of the model and of itself."""
        flags: list[object] = []
        if self.tensorboard_logdir is not None:
            flags += ["--tensorboard-logdir", self.tensorboard_logdir.resolve() / model / run.replace(" ", "-")]
        return flags + (["--wandb-project", self.wandb_project] if self.wandb_project is not None else [])


@dataclass(frozen=True, kw_only=True)
class TrainingRun(abc.ABC):
    """One training by fairseq-train, in a process and a folder of its own."""

    seed: int  # of the training
    folder: Path  # of its checkpoints and log
    hardware: Hardware  # see :class:`Hardware`

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """As shown."""

    @property
    @abc.abstractmethod
    def settings(self) -> dict[str, Any]:
        """The settings that determine its result, as JSON."""

    @property
    @abc.abstractmethod
    def own_flags(self) -> list[object]:
        """fairseq-train's for data, task, model, criterion, optimizer, and how often to save."""

    @property
    def flags(self) -> list[str]:
        """fairseq-train's. Paths are absolute: a run's process has a current folder of its own."""
        flags = [*self.own_flags, "--save-dir", self.folder.resolve(), "--seed", self.seed]
        flags += ["--distributed-world-size", self.hardware.workers, "--num-workers", self.hardware.num_workers]
        flags += ["--no-epoch-checkpoints", "--keep-interval-updates", 1, "--log-format", "json"]
        flags += ["--cpu"] if self.hardware.cpu else []
        return [str(flag) for flag in flags]

    @property
    def command(self) -> str:
        """A command line that repeats the training, as the results have it."""
        precision, flags = self.hardware.precision, self.flags
        if precision == "bf16":  # no flag of fairseq-train: its --bf16 asks for a TPU
            return f"python -m {process.__name__} bf16 {shlex.join(flags)}"
        flags += FP16_FLAGS if precision == "fp16" else ()
        return f'fairseq-train --user-dir "$(truneg user-dir)" {shlex.join(flags)}'

    @property
    def weights(self) -> Path | None:
        """The trained model; None where training has not ended, or its files are not there any more."""
        if not (self.folder / FINISHED_NAME).exists():
            return None
        return next((path for name in (LAST, MODEL_NAME) if (path := self.folder / name).exists()), None)

    @property
    def used(self) -> dict[str, Any]:
        """``wall_seconds`` of the training, and ``peak_memory_mb`` where it is known."""
        path = self.folder / FINISHED_NAME
        return read_json(path, dict[str, float], expected="what the training used; remove it to train again")

    def train(self, progress: Callable[[int], None], device: str | None = None) -> Path:
        """Trains where that is not done.

        Args:
            progress: is called with the number of updates that are done; an error from it ends the training.
            device: the GPU to train on; None for any.

        Returns:
            :attr:`weights`.

        Raises:
            Diverged: the loss is NaN.
        """
        make_output_folder(self.folder)
        # From its settings to its end: before it has saved anything, another command's settings would replace them.
        with alone(self.folder / ".command.lock", f"{self.folder}: another command trains there"):
            with training_alone(self.folder):  # the process of a command that was killed may still save
                keep_settings(self.folder, self.settings)
            if self.weights is None:
                (self.folder / FINISHED_NAME).unlink(missing_ok=True)
                self._train(progress, device)
            assert self.weights is not None
            return self.weights

    def tidy(self) -> None:
        """Removes the training's checkpoints."""
        for path in (*self.folder.glob("checkpoint*.pt"), *self.folder.glob(_CRASH_NAME)):
            path.unlink()

    def keep_model(self, path: Path) -> None:
        """Keeps the model in a file of its own, without the optimizer's state."""
        import torch

        if not (self.folder / LAST).exists():
            return
        content = torch.load(self.folder / LAST, map_location="cpu", weights_only=True)
        content["last_optimizer_state"] = None
        with replacing_file(path) as stream:
            torch.save(content, stream)

    def _train(self, progress: Callable[[int], None], device: str | None) -> None:
        log = self.folder / LOG_NAME
        precision, start = self.hardware.precision, size_of(log)
        code = run_process(self.flags, precision=precision, log=log, progress=progress, device=device)
        if not code:
            return
        if code == EXIT_STOPPED:
            raise TrueNegError(f"{self.name}: a signal has stopped the training, which is saved; start again to go on")
        if _DIVERGED in read_tail(log, _TAIL, start):
            self.tidy()
            raise Diverged(
                f"{self.name}: the loss became NaN or infinite ({log}); lower --lr, or use another precision"
            )
        raise TrueNegError(f"{self.name}: training failed ({failure(log, code, start)}); its log is {log}")


@dataclass(frozen=True, kw_only=True)
class FinetuningRun(TrainingRun):
    """One fine-tuning: what GLUE's and SQuAD's runs share."""

    model: StartingModel  # the model
    data: Path  # the task's prepared folder
    loggers: Loggers = Loggers()  # see :class:`Loggers`

    @property
    @abc.abstractmethod
    def task_name(self) -> str:
        """In the results."""

    @property
    @abc.abstractmethod
    def task_flags(self) -> list[object]:
        """fairseq-train's for task, criterion, optimizer, and how often to save."""

    @abc.abstractmethod
    def evaluate(self, weights: Path) -> Result | None:
        """The result of trained weights; None where there is nothing to score."""

    @property
    def name(self) -> str:
        """As shown."""
        return f"{self.task_name} seed {self.seed}"

    @property
    def key(self) -> tuple[str, str, int]:
        """As :attr:`Result.key`."""
        return self.model.name, self.task_name, self.seed

    @property
    def own_flags(self) -> list[object]:
        """fairseq-train's for data, task, model, criterion, optimizer, and how often to save."""
        flags: list[object] = [self.data.resolve(), *self.task_flags, *self.model.flags]
        flags += ["--finetune-from-model", self.model.path, "--required-batch-size-multiple", 1]
        return flags + self.loggers.flags(self.model.name, self.name)

    def execute(
        self,
        progress: Callable[[int], None],
        *,
        device: str | None = None,
        alone: AbstractContextManager[Any] | None = None,
    ) -> Result | None:
        """Trains where that is not done, and evaluates the last model.

        Args:
            progress, device: see :meth:`train`.
            alone: held while it is evaluated, in this process.

        Raises:
            Diverged, TrueNegError: see :meth:`train`.
        """
        weights = self.train(progress, device)
        with alone or nullcontext():
            return self.evaluate(weights)


def failure(log: Path, code: int, start: int) -> str:
    """Why a process failed: the package's own line in its log, or the last one.

    Args:
        log: where what it printed was added.
        code: its exit code.
        start: where its part of the log begins.
    """
    tail = read_tail(log, _TAIL, start)
    if errors := re.findall(r"truneg_fairseq: error: (.*)", tail):
        return str(errors[-1])
    lines = [line.strip() for line in tail.splitlines() if line.strip()]
    return f"exit code {code}" + (f", the log ends with: {lines[-1][:_LONGEST_QUOTE]}" if lines else "")


def keep_settings(folder: Path, settings: Mapping[str, Any]) -> None:
    """Notes in a run's folder how it is made; what was begun goes on only with the same settings.

    To be called while nobody else works in the folder.
    """
    make_output_folder(folder)
    if not (folder / SETTINGS_NAME).exists() and any(folder.glob("checkpoint*.pt")):
        raise TrueNegError(f"--output {folder}: has checkpoints of another training; choose another folder")
    if difference := changed_setting(folder, settings):
        raise TrueNegError(
            f"--output {folder}: has a run with {difference}; give the same options to continue it, or choose another "
            "folder"
        )
    with replacing_text(folder / SETTINGS_NAME) as stream:
        json.dump(settings, stream, indent=1)


def changed_setting(folder: Path, settings: Mapping[str, Any]) -> str | None:
    """The first setting that is not what a run's folder has, told; None without a difference, and where nothing has
    been made yet: in a new folder, and in one whose run failed before it saved anything.
    """
    path = folder / SETTINGS_NAME
    if not path.exists() or not any(any(folder.glob(pattern)) for pattern in _MADE):
        return None
    found = read_json(path, dict[str, Any], expected="a run's settings; remove the folder or choose another --output")
    for name in [*settings, *(name for name in found if name not in settings)]:
        if found.get(name) != settings.get(name):
            return f"{name} {found.get(name)}, expected {settings.get(name)}"
    return None


def finished_results(path: Path, runs: Iterable[FinetuningRun]) -> dict[tuple[str, str, int], Result]:
    """The results of these runs that a file has."""
    known = {result.key: result for result in read_results([path])} if path.exists() else {}
    finished = {}
    for run in runs:
        if run.key not in known:
            continue
        finished[run.key] = known[run.key]
        for name, value in run.settings.items():
            found = known[run.key].settings.get(name)
            if found != value:
                raise TrueNegError(
                    f"{path}: has {run.name} of {run.model.name} with {name} {found}, expected {value}; give the same "
                    "options, another name of the model, or another file of results"
                )
    return finished
