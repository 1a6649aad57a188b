"""Runs the demo's steps as the commands a person could type, each with a log of its output."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path


def shown(path: Path) -> str:
    """The path relative to the current folder where it is below it, so that printed commands stay short."""
    try:
        return str(path.absolute().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


class Steps:
    """Runs commands one after the other.

    Args:
        logs: folder for the logs, one a step; made where it is missing.
    """

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        # fairseq's start-up is full of other packages' deprecation warnings.
        self._environment = {"PYTHONWARNINGS": "ignore", "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"}
        logs.mkdir(parents=True, exist_ok=True)

    def log_path(self, name: str) -> Path:
        """The log of a step."""
        return self._logs / f"{name.replace(' ', '_')}.log"

    def run(
        self, name: str, command: Sequence[str | Path], *, echo: Callable[[str], bool] = lambda line: True
    ) -> list[str]:
        """Prints a command and runs it; what it prints goes to the log, its progress bars and errors to the terminal.

        Args:
            name: of the step.
            command: program and arguments.
            echo: which lines of its output are printed too.

        Returns:
            The lines it printed.

        Raises:
            SystemExit: with the command's exit code, after one line that names the step and its log.
        """
        words = [shown(word) if isinstance(word, Path) else word for word in command]
        print(f"\n=== {name}\n$ {shlex.join(words)}", flush=True)
        started = time.monotonic()
        lines = []
        with (
            self.log_path(name).open("a", encoding="utf-8") as log,
            subprocess.Popen(
                words,
                env={**os.environ, **self._environment},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                errors="replace",
            ) as process,
        ):
            assert process.stdout is not None
            for line in process.stdout:
                log.write(line)
                lines.append(line.rstrip("\n"))
                if echo(line):
                    print(line, end="", flush=True)
        if process.returncode != 0:
            # A process that a signal ended has the signal's number, negative; shells add it to 128.
            code = process.returncode if process.returncode > 0 else 128 - process.returncode
            sys.stdout.flush()
            print(
                f"demo: error: step '{name}' failed with exit code {code}; its reason is above, its log is "
                f"{shown(self.log_path(name))}; once it is mended, run the demo again to continue",
                file=sys.stderr,
            )
            raise SystemExit(code)
        print(f"({time.monotonic() - started:.0f} s)", flush=True)
        return lines
