"""One training by fairseq-train, interrupted and continued at will."""

from __future__ import annotations

import abc
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import TrueNegError, refuse
from ..fairseq_runs.saving import LAST, read_lazily
from ..fairseq_runs.stopping import EXIT_DIVERGED, EXIT_STOPPED
from ..files import hold_lock, read_json, replacing_file, require_same, write_json
from . import process
from .process import FINISHED_NAME, FP16_FLAGS, PACKAGES, failure, run_logged, size_of

SETTINGS_NAME = "settings.json"
RESULTS_NAME = "results.jsonl"
LOG_NAME = "train.log"
MODEL_NAME = "model.pt"
_LIST = r"[\w.+:=-]+(?:, ?[\w.+:=-]+)*,?"
_VALUE = re.compile(rf"|{_LIST}|\({_LIST}\)|\[{_LIST}\]|/[^$\\\x00-\x1f]*")
_FLAG = re.compile(r"--\w[\w-]*")
_MADE = ("checkpoint*.pt", "model*.pt", FINISHED_NAME)


class Diverged(TrueNegError):
    """The loss of a run became NaN; other runs may do better."""


@dataclass(frozen=True, kw_only=True)
class TrainingRun(abc.ABC):
    """One training by fairseq-train, in a process and a folder of its own."""

    seed: int  # of the training
    folder: Path  # of its checkpoints and log
    precision: str = "fp32"  # one of :data:`.process.PRECISIONS`
    cpu: bool = False  # keep off the GPU
    user_dir: Path | None = None  # of the user's own ideas

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
        """fairseq-train's flags, checked. Paths are absolute: a run's process has a current folder of its own."""
        flags = ["--num-workers", 0, *self.own_flags, "--save-dir", self.folder.resolve(), "--seed", self.seed]
        flags += ["--distributed-world-size", 1, "--no-epoch-checkpoints", "--keep-interval-updates", 1]
        flags += ["--log-format", "json", *(["--cpu"] * self.cpu)]
        flags += [] if self.user_dir is None else ["--user-dir", self.user_dir.absolute()]
        return check_words([str(flag) for flag in flags], self.name)

    @property
    def command(self) -> str:
        """A command line that repeats the training, as the results have it."""
        flags = self.flags
        if self.precision == "bf16":  # no flag of fairseq-train: its --bf16 asks for a TPU
            return f"python -m {process.__name__} bf16 {shlex.join(flags)}"
        flags += FP16_FLAGS if self.precision == "fp16" else ()
        ours = "" if self.user_dir else '--user-dir "$(truneg user-dir)" '
        return f"fairseq-train {ours}{shlex.join(flags)}"

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

        ``progress`` is called with the number of updates that are done, and an error from it ends the training. A loss
        of NaN raises :class:`Diverged`.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        # From its settings to its end: before it has saved anything, another command's settings would replace them.
        with hold_lock(self.folder / ".command.lock", f"{self.folder}: another command trains there"):
            check_settings(self.folder, self.settings)
            write_json(self.folder / SETTINGS_NAME, self.settings)
            if self.weights is None:
                (self.folder / FINISHED_NAME).unlink(missing_ok=True)
                self._train(progress, device)
            assert self.weights is not None
            return self.weights

    def tidy(self) -> None:
        """Removes the training's checkpoints."""
        for path in (*self.folder.glob("checkpoint*.pt"), *self.folder.glob("crash.pt")):  # a crash is a divergence
            path.unlink()

    def keep_model(self, path: Path, checkpoint: Path | None = None) -> None:
        """Keeps the model of a checkpoint, the last one by default, in a file without the optimizer's state."""
        import torch

        checkpoint = checkpoint or self.folder / LAST
        if not checkpoint.exists():
            return
        content = {**read_lazily(checkpoint), "last_optimizer_state": None}
        with replacing_file(path) as stream:
            torch.save(content, stream)

    def _train(self, progress: Callable[[int], None], device: str | None) -> None:
        log = self.folder / LOG_NAME
        start, command = size_of(log), [sys.executable, "-m", process.__name__, self.precision, *self.flags]
        code = run_logged(
            command, folder=PACKAGES, log=log, poll=lambda: progress(process.updates_in(log)), device=device
        )
        if not code:
            return
        if code == EXIT_STOPPED:
            raise TrueNegError(f"{self.name}: a signal has stopped the training, which is saved; start again to go on")
        if code == EXIT_DIVERGED:
            self.tidy()
            raise Diverged(
                f"{self.name}: the loss became NaN or infinite ({log}); lower --lr, or use another precision"
            )
        raise TrueNegError(f"{self.name}: training failed ({failure(log, code, start)}); its log is {log}")


def check_words(words: Sequence[str], name: str) -> list[str]:
    """Refuses words of a command line whose values are more than numbers, names, a list of them or a whole path.

    fairseq evaluates values of some options as Python, and all pass through hydra, which resolves ``${...}``. Without a
    call, an index, a space within an item, quotes and braces, there is nothing to run.
    """
    for word in words:
        flag, found = ("", word) if not word.startswith("--") else (*word.split("=", 1), "")[:2]
        refuse(
            (
                not _VALUE.fullmatch(found) or (flag and not _FLAG.fullmatch(flag)),
                f"{name}: {word[:80]}: would be read as code; expected numbers, names, lists of them, or a file",
            )
        )
    return list(words)


def check_settings(folder: Path, settings: Mapping[str, Any]) -> None:
    """Refuses other settings than those of the run in a folder, if it has saved anything."""
    path = folder / SETTINGS_NAME
    if not path.exists() and any(folder.glob("checkpoint*.pt")):
        raise TrueNegError(f"{folder}: has checkpoints of another training; choose another --output")
    if not path.exists() or not any(any(folder.glob(pattern)) for pattern in _MADE):
        return
    found = read_json(path, dict[str, Any], expected="a run's settings; remove the folder or choose another --output")
    remedy = "give the same options to continue it, another name, or another --output"
    require_same(str(folder), found, dict.fromkeys(found) | dict(settings), remedy)


def check_precision(precision: str, *, cpu: bool) -> None:
    """Refuses fp16 without a GPU: where a gradient overflows, as it does now and then, fairseq's trainer needs one."""
    import torch

    if precision == "fp16" and (cpu or not torch.cuda.is_available()):
        where = "--cpu" if cpu else "no GPU"
        raise TrueNegError(f"--precision fp16: found {where}; expected a GPU; use bf16 or fp32 on the CPU")
