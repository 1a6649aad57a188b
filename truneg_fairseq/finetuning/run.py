"""One training by fairseq-train, interrupted and continued at will; one fine-tuning; and several side by side."""

from __future__ import annotations

import abc
import contextlib
import json
import os
import queue
import re
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from filelock import FileLock, Timeout

from ..comparison.results import Result, read_results
from ..errors import TrueNegError
from ..files import make_output_folder, replacing_file, replacing_text
from ..progress import Progress
from ..schema import read_json
from ..training_folder.checkpoints import LAST
from ..training_folder.lock import is_held
from ..training_folder.stopping import EXIT_STOPPED
from . import process
from .model import StartingModel
from .process import FINISHED_NAME, FP16_FLAGS, exit_on_signal, ignoring, read_tail, run_process, size_of

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
_ORPHAN_SECONDS = 3.0  # in which the training of a command that was killed has ended

BASE_WIDTH, LARGE_WIDTH = 768, 1024
"""From these widths of the encoder on a model has the learning rates of ELECTRA's base and large models."""


class Diverged(TrueNegError):
    """The loss of a run became NaN; other runs may do better."""


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """What runs have at their disposal."""

    precision: str = "fp32"  # one of :data:`.options.PRECISIONS`
    cpu: bool = False  # keep off the GPU
    workers: int = 1  # of data parallelism, which share a batch
    num_workers: int = 0  # processes that load data


@dataclass(frozen=True, kw_only=True)
class TrainingRun(abc.ABC):
    """One training by fairseq-train, in a process and a folder of its own."""

    seed: int  # of the training
    folder: Path  # of its checkpoints and log
    hardware: Hardware

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
        """fairseq-train's flags for data, task, model, criterion, optimizer, and how often to save."""

    @property
    def flags(self) -> list[str]:
        """fairseq-train's flags. Paths are absolute: a run's process has a current folder of its own."""
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
        """Trains where that is not done, and gives the trained model's file.

        Args:
            progress: is called with the number of updates that are done; an error from it ends the training.
            device: the GPU to train on; None for any.

        Raises:
            Diverged: the loss is NaN.
        """
        make_output_folder(self.folder)
        # From its settings to its end: before it has saved anything, another command's settings would replace them.
        with hold_lock(self.folder / ".command.lock", f"{self.folder}: another command trains there"):
            _wait_for_orphan(self.folder)
            write_settings(self.folder, self.settings)
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
    """One fine-tuning on a task of GLUE or on SQuAD."""

    model: StartingModel
    task_name: str  # in the results
    data: Path  # the task's prepared folder
    determined_by: dict[str, Any]  # see :attr:`settings`
    task_flags: Sequence[object]  # fairseq-train's for task, criterion, optimizer, loggers, and how often to save

    @property
    def name(self) -> str:
        return f"{self.task_name} seed {self.seed}"

    @property
    def key(self) -> tuple[str, str, int]:
        """As :attr:`Result.key`."""
        return self.model.name, self.task_name, self.seed

    @property
    def settings(self) -> dict[str, Any]:
        return self.determined_by

    @property
    def own_flags(self) -> list[object]:
        flags: list[object] = [self.data.resolve(), *self.task_flags, *self.model.flags]
        return [*flags, "--finetune-from-model", self.model.path, "--required-batch-size-multiple", 1]

    def result(
        self, metrics: dict[str, float], examples: dict[str, list[float]], ids: list[str], **settings: Any
    ) -> Result:
        """The scores of the trained model, with how it was made."""
        made = {**self.settings, "checkpoint": str(self.model.path), **settings, "command": self.command}
        return Result(
            model=self.model.name,
            task=self.task_name,
            seed=self.seed,
            metrics=metrics,
            examples=examples,
            example_ids=ids,
            settings=made,
            **self.used,
        )


def electra_layer_lr_decay(width: int) -> float:
    """The factor of the learning rate from layer to layer in ELECTRA's fine-tuning (its paper, table 7)."""
    return 0.8 if width < LARGE_WIDTH else 0.9


def electra_flags(*, lr: float, layer_lr_decay: float, warmup_ratio: float) -> list[object]:
    """fairseq-train's flags for ELECTRA's Adam, whose learning rate rises and falls linearly."""
    return [
        *("--optimizer", "electra_adam", "--lr", lr, "--layer-lr-decay", layer_lr_decay),
        *("--lr-scheduler", "electra_linear", "--warmup-ratio", warmup_ratio),
    ]


def length_flags(updates: int, epochs: int) -> list[object]:
    """fairseq-train's flags for the length of the schedule, after which training stops."""
    return ["--total-num-update", updates, "--max-update", updates, "--max-epoch", epochs]


@contextlib.contextmanager
def hold_lock(lock: Path, held_elsewhere: str) -> Iterator[None]:
    """Holds a lock that ends with this process, however that ends.

    Args:
        lock: its file, in a folder that is there.
        held_elsewhere: the error where another process holds it: "RUN: another command trains there".
    """
    held = FileLock(lock, timeout=0)
    try:
        held.acquire()
    except Timeout:
        raise TrueNegError(f"{held_elsewhere}; wait for its end, or end it and start again") from None
    except OSError as error:
        raise TrueNegError(f"{lock.parent}: cannot be written ({error.strerror}); choose another folder") from None
    try:
        yield
    finally:
        held.release()


def _wait_for_orphan(folder: Path) -> None:
    """Waits for the training of a command that was killed: it may still save, and ends soon."""
    deadline = time.monotonic() + _ORPHAN_SECONDS
    while is_held(folder):
        if time.monotonic() > deadline:
            raise TrueNegError(f"{folder}: another process trains there; wait for its end, or end it and start again")
        time.sleep(0.1)


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


def write_settings(folder: Path, settings: Mapping[str, Any]) -> None:
    """Writes a run's settings into its folder; what was begun there goes on only with the same ones.

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
    """The first setting that differs from the run's in a folder, as "lr 0.001, expected 0.01"; None without one.

    None too where nothing has been made yet: in a new folder, and in one whose run failed before it saved anything.
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


def check_precision(precision: str, *, cpu: bool) -> None:
    """Refuses fp16 without a GPU: where a gradient overflows, as it does now and then, fairseq's trainer needs one."""
    import torch

    if precision == "fp16" and (cpu or not torch.cuda.is_available()):
        where = "--cpu" if cpu else "no GPU"
        raise TrueNegError(f"--precision fp16: found {where}; expected a GPU; use bf16 or fp32 on the CPU")


class Named(Protocol):
    @property
    def name(self) -> str:
        """As shown."""


RunT = TypeVar("RunT", bound=Named)


class Stopped(Exception):
    """This run is to end, because all are."""


@dataclass(frozen=True)
class Job:
    """What a run is executed with."""

    device: str | None  # the GPU to see, as in ``CUDA_VISIBLE_DEVICES``; None for all
    progress: Callable[[int], None]  # is called with the number of updates that are done; raises :class:`Stopped`
    # for work that one run at a time may do: in this process, on its GPU and the file of results
    lock: AbstractContextManager[Any]
    warn: Callable[[str], None]  # prints a warning beside the progress bar


def devices_of(jobs: int, *, cpu: bool) -> list[str | None]:
    """A GPU for each of so many jobs at a time; None for any."""
    import torch

    if jobs == 1 or cpu or not torch.cuda.is_available():
        return [None] * jobs
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = visible.split(",") if visible else [str(number) for number in range(torch.cuda.device_count())]
    if jobs > len(names):
        raise TrueNegError(f"--jobs {jobs}: found {len(names)} GPUs, expected one for each job")
    return list(names[:jobs])


def run_jobs(
    execute: Callable[[RunT, Job], None],
    runs: Sequence[RunT],
    devices: Sequence[str | None],
    *,
    lengths: Sequence[int],
    unit: str = " updates",
) -> None:
    """Executes runs in their order, as many at a time as there are devices, under one progress bar.

    The first error ends all runs, and so do SIGTERM and, without saving, Ctrl-C; what was begun goes on at the next
    start.

    Args:
        execute: is called in a thread.
        runs: what to execute.
        devices: one for each job.
        lengths: of each run, in ``unit``, as :attr:`Job.progress` counts them.
        unit: for the progress bar.
    """
    free: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    for device in devices:
        free.put(device)
    stop, at_once, lock, shown = threading.Event(), threading.Event(), threading.RLock(), threading.Lock()
    done = dict.fromkeys(range(len(runs)), 0)

    with Progress(total=sum(lengths), unit=unit, smoothing=0.05) as bar:

        def move(number: int, updates: int) -> None:
            if at_once.is_set():
                raise KeyboardInterrupt
            if stop.is_set():
                raise Stopped
            with shown:
                done[number] = updates
                if sum(done.values()) > bar.n:
                    bar.update(sum(done.values()) - bar.n)

        def work(number: int, run: RunT) -> None:
            if stop.is_set():
                return
            device = free.get()
            bar.set_description(f"{run.name} ({number + 1} of {len(runs)})")
            try:
                execute(run, Job(device, lambda updates: move(number, updates), lock, _warn))
                move(number, lengths[number])
            except BaseException:
                stop.set()
                raise
            finally:
                free.put(device)

        with exit_on_signal(signal.SIGTERM), ThreadPoolExecutor(len(devices)) as pool:
            futures = [pool.submit(work, number, run) for number, run in enumerate(runs)]
            try:
                wait(futures, return_when=FIRST_EXCEPTION)
            except KeyboardInterrupt:
                at_once.set()
                raise
            finally:
                stop.set()
                with ignoring(signal.SIGINT, signal.SIGTERM):
                    pool.shutdown()
        for error in (future.exception() for future in futures):
            if error is not None and not isinstance(error, Stopped):
                raise error


def _warn(message: str) -> None:
    Progress.write(f"warning: {message}", file=sys.stderr)
