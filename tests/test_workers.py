"""Tasks over processes: results, failures, deaths; progress: a bar on a terminal, whole lines elsewhere."""

from __future__ import annotations

import functools
import io
import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tqdm import tqdm

from truneg_fairseq import workers
from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.workers import Progress, run_tasks


def note(folder: Path, task: int, advance: Callable[[int], None]) -> None:
    """Notes which process did a task."""
    advance(10)
    time.sleep(0.05)
    (folder / str(task)).write_text(str(os.getpid()))


def fail(folder: Path, task: int, advance: Callable[[int], None]) -> None:
    """Task 0 fails at once; the others would go on for long, and leave a file where they end."""
    if task == 0:
        time.sleep(0.5)
        raise TrueNegError("task 0 fails")
    for _ in range(600):
        time.sleep(0.05)
        advance(1)
    (folder / str(task)).touch()


def die(folder: Path, task: int, advance: Callable[[int], None]) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def run(work: Callable, folder: Path, count: int, workers: int, bar: tqdm) -> None:
    run_tasks(functools.partial(functools.partial, work, folder), range(count), workers, bar)


@pytest.mark.parametrize("workers", [1, 2])
def test_all_tasks_are_done_and_counted(workers, tmp_path):
    with tqdm(total=100, initial=20) as bar:
        run(note, tmp_path, 8, workers, bar)
        assert bar.n == 100
    assert sorted(path.name for path in tmp_path.iterdir()) == [str(task) for task in range(8)]
    processes = {path.read_text() for path in tmp_path.iterdir()}
    assert len(processes) <= workers
    assert (str(os.getpid()) in processes) == (workers == 1)


def test_the_first_failure_stops_the_others(tmp_path):
    started = time.monotonic()
    with tqdm(disable=True) as bar, pytest.raises(TrueNegError, match="task 0 fails"):
        run(fail, tmp_path, 6, 2, bar)
    assert time.monotonic() - started < 20
    assert list(tmp_path.iterdir()) == []


def test_a_death_is_one_line(tmp_path):
    died = r"a worker process died \(killed, or out of memory\)"
    with tqdm(disable=True) as bar, pytest.raises(TrueNegError, match=died):
        run(die, tmp_path, 3, 2, bar)


def test_a_terminal_gets_a_bar():
    stream = io.StringIO()
    stream.isatty = lambda: True
    for _ in Progress(range(3), desc="work", file=stream, mininterval=0):
        pass
    assert stream.getvalue().count("\r") >= 3
    assert "100%|" in stream.getvalue()


def test_a_log_gets_a_line_now_and_then_and_nothing_of_what_is_quick(monkeypatch):
    stream = io.StringIO()
    with Progress(total=5, file=stream) as bar:
        bar.update(5)
    assert stream.getvalue() == ""
    monkeypatch.setattr(workers, "SECONDS_TO_FIRST_LINE", 0.05)
    monkeypatch.setattr(workers, "SECONDS_A_LINE", 0.1)
    with Progress(total=5, desc="a run", file=stream) as bar:
        for _ in range(20):
            bar.set_description("a run")
            bar.update(0.25)
            time.sleep(0.02)
    lines = stream.getvalue().splitlines()
    assert 2 <= len(lines) <= 5
    assert all(re.match(r"a run: +\d+% \d\S*/5 \[", line) for line in lines), lines
