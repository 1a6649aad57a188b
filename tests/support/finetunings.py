"""Fine-tuning commands in this process, whose runs have processes of their own as ever."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from truneg_fairseq.launch import process as run_process

from . import commands


class Trainings:
    """In place of subprocess.Popen: starts the same processes faster, and counts them."""

    def __init__(self) -> None:
        self.folders: list[Path] = []
        self.interrupt_at = 0

    def __call__(self, command: list[str], *, cwd: Path, stdout: Any, **_: object) -> Any:
        folder = Path(command[command.index("--save-dir") + 1])
        self.folders.append(folder)
        process = commands.start_command(command, Path(stdout.name), Path(stdout.name), cwd=cwd)
        if len(self.folders) == self.interrupt_at:
            deadline = time.monotonic() + 100
            while "writing took" not in Path(stdout.name).read_text():  # before, a checkpoint may be torn
                assert process.poll() is None and time.monotonic() < deadline, Path(stdout.name).read_text()[-2000:]
                time.sleep(0.01)
            process.kill()
            process.wait()
            raise KeyboardInterrupt
        return process


def replace_popen(monkeypatch: pytest.MonkeyPatch, start: object) -> None:
    names = {**vars(subprocess), "Popen": start}
    monkeypatch.setattr(run_process, "subprocess", SimpleNamespace(**names))


def count_trainings(monkeypatch: pytest.MonkeyPatch) -> Trainings:
    """Counts the trainings that are started from now on."""
    started = Trainings()
    replace_popen(monkeypatch, started)
    monkeypatch.setattr(run_process, "_POLL_SECONDS", 0.02)
    return started
