"""Tasks over processes: results, failures, deaths."""

from __future__ import annotations

import functools
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tqdm import tqdm

from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.workers import run_tasks

Work = Callable[[int, Callable[[int], None]], tuple[int, int]]


def make_squares() -> Work:
    def square(task: int, advance: Callable[[int], None]) -> tuple[int, int]:
        advance(10)
        time.sleep(0.05)
        return task * task, os.getpid()

    return square


class Failing:
    """Task 0 fails at once; the others would go on for long, and leave a file where they end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, task: int, advance: Callable[[int], None]) -> None:
        if task == 0:
            time.sleep(0.5)
            raise TrueNegError("task 0 fails")
        for _ in range(600):
            time.sleep(0.05)
            advance(1)
        (self.folder / str(task)).touch()


def make_dying() -> Work:
    def die(task: int, advance: Callable[[int], None]) -> tuple[int, int]:
        os.kill(os.getpid(), signal.SIGKILL)
        return 0, 0

    return die


@pytest.mark.parametrize("workers", [1, 2])
def test_all_tasks_are_done_and_counted(workers):
    results: list[tuple[int, int]] = []
    with tqdm(total=100, initial=20) as bar:
        run_tasks(make_squares, range(8), workers, bar, results.append)
        assert bar.n == 100
    assert sorted(square for square, _ in results) == [n * n for n in range(8)]
    processes = {process for _, process in results}
    assert len(processes) <= workers
    assert (os.getpid() in processes) == (workers == 1)


def test_the_first_failure_stops_the_others(tmp_path):
    started = time.monotonic()
    with tqdm(disable=True) as bar, pytest.raises(TrueNegError, match="task 0 fails"):
        run_tasks(functools.partial(Failing, tmp_path), range(6), 2, bar)
    assert time.monotonic() - started < 20
    assert list(tmp_path.iterdir()) == []


def test_a_death_is_one_line():
    with (
        tqdm(disable=True) as bar,
        pytest.raises(TrueNegError, match=r"a worker process died \(killed, or out of memory\)"),
    ):
        run_tasks(make_dying, range(3), 2, bar)
