"""Trainings that get signals."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from .command_server import ForkedCommand
from .commands import start_command


def start_and_wait(
    command: Sequence[object], log: Path, text: str = '"num_updates": "3"', *, fresh: bool = False
) -> subprocess.Popen[bytes] | ForkedCommand:
    """Starts a training; returns when its log has the text."""
    log.write_text("")
    process = start_command(command, log, log, fresh=fresh)
    deadline = time.monotonic() + 240
    while text not in log.read_text():
        assert process.poll() is None, log.read_text()[-3000:]
        assert time.monotonic() < deadline, log.read_text()[-3000:]
        time.sleep(0.01)
    return process
