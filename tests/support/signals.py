"""Trainings that get signals."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from .commands import start_command


def start_and_wait(command: Sequence[object], log: Path, text: str = '"num_updates": "3"') -> subprocess.Popen[bytes]:
    """Starts a training in a process of its own; returns when its log has the text."""
    log.write_text("")
    process = start_command(command, log, log, fresh=True)
    deadline = time.monotonic() + 240
    while text not in log.read_text():
        assert process.poll() is None, log.read_text()[-3000:]
        assert time.monotonic() < deadline, log.read_text()[-3000:]
        time.sleep(0.01)
    assert isinstance(process, subprocess.Popen)
    return process
