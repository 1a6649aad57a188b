"""A signal ends a command with status 75; started again, it gives the undisturbed result."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from support import glue_files
from support.commands import killed_on_error, run_command, start_command, truneg, wait_until

from truneg_fairseq.results.result import read_results

pytestmark = pytest.mark.slow

STOPPED = "stopped by SIGTERM after update"  # which the command sends its training


def stop_and_continue(command: list[object], number: signal.Signals, folder: Path, begun: Callable[[], bool]) -> str:
    """Ends a command by a signal once it has begun to work, starts it again, and returns what it printed then."""
    log = folder / "stopped.log"
    process = start_command(command, log, log)
    with killed_on_error(process):
        wait_until(begun, process, log)
        process.send_signal(number)
        assert process.wait(150) == 75, log.read_text()[-3000:]
    return run_command(command).stdout


def has(text: str, log: Path) -> bool:
    return log.exists() and text in log.read_text()


def test_fine_tuning(tmp_path):
    data = glue_files.write_data(tmp_path / "data")
    prepared = glue_files.write_glue(tmp_path / "prepared", data, ["RTE"])
    model = glue_files.write_model(tmp_path, data)

    def command(output: str) -> list[object]:
        given = (model, "--prepared", prepared, "--output", tmp_path / output, "--batch-size", 8, "--seeds", 1)
        return truneg("finetune", *given, "--epochs", 8, "--cpu", "--lr", 0.001)

    logs = tmp_path / "stopped"
    begun = lambda: any(has("num_updates", log) for log in logs.rglob("train.log"))  # noqa: E731
    stop_and_continue(command("stopped"), signal.SIGUSR2, tmp_path, begun)
    (log,) = logs.rglob("train.log")
    assert log.read_text().count(STOPPED) == 1
    run_command(command("whole"))
    (stopped,), (whole,) = (read_results([tmp_path / each / "results.jsonl"]) for each in ("stopped", "whole"))
    assert stopped.metrics == whole.metrics
    assert stopped.examples == whole.examples
