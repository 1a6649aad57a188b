"""Fine-tuning commands and experiments in this process, whose runs have processes of their own as ever."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from truneg_fairseq.launch import process as run_process

from . import cli_runs, commands


class Trainings:
    """In place of subprocess.Popen: starts the same processes faster, and keeps the lines of the trainings."""

    def __init__(self) -> None:
        self.lines: list[list[str]] = []

    @property
    def folders(self) -> list[Path]:
        return [Path(line[line.index("--save-dir") + 1]) for line in self.lines]

    def __call__(self, command: list[str], *, cwd: Path, stdout: Any, **_: object) -> Any:
        log = Path(stdout.name)
        if "--save-dir" in command:
            self.lines.append(command)
        return commands.start_command(command, log, log, cwd=cwd)


def replace_popen(monkeypatch: pytest.MonkeyPatch, start: object) -> None:
    names = {**vars(subprocess), "Popen": start}
    monkeypatch.setattr(run_process, "subprocess", SimpleNamespace(**names))


def count_trainings(monkeypatch: pytest.MonkeyPatch) -> Trainings:
    """Counts the trainings that are started from now on."""
    started = Trainings()
    replace_popen(monkeypatch, started)
    monkeypatch.setattr(run_process, "_POLL_SECONDS", 0.02)
    return started


def validations(folder: Path, subset: str = "valid") -> list[dict[str, float]]:
    """What fairseq logged of each validation of a run."""
    steps = cli_runs.logged((folder / "train.log").read_text(), subset)
    return [{name.removeprefix(f"{subset}_"): float(value) for name, value in step.items()} for step in steps]
