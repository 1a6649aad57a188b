"""Independent tasks over processes, with one progress bar, and without processes that outlive a kill."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, CancelledError, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait as wait_for_end
from typing import TYPE_CHECKING, Any, TypeVar

from tqdm import tqdm

from .errors import TrueNegError

if TYPE_CHECKING:
    import torch

Task = TypeVar("Task")

Advance = Callable[[int], None]
"""Called with the bytes that were done since its last call."""

Work = Callable[[Task, Advance], None]

SECONDS_TO_FIRST_LINE, SECONDS_A_LINE = 5.0, 30.0
_REFRESH_SECONDS = 0.2


def available_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_tasks(
    make_work: Callable[[], Work[Task]],
    tasks: Iterable[Task],
    workers: int,
    bar: Progress,
) -> None:
    """Does tasks in any order in ``workers`` processes; 1 is this one.

    ``make_work`` makes what does a task, once in each process; it and the tasks are sent to spawned processes.
    ``bar`` is advanced by the bytes that the tasks report.
    """
    if workers == 1:
        work = make_work()
        for task in tasks:
            work(task, bar.update)
        return
    context = multiprocessing.get_context("spawn")
    done, stop = context.Value("q", 0), context.Event()
    executor = ProcessPoolExecutor(workers, context, initializer=_start, initargs=(make_work, done, stop))
    before = bar.n
    try:
        waiting = {executor.submit(_work, task) for task in tasks}
        while waiting:
            finished, waiting = wait(waiting, timeout=_REFRESH_SECONDS, return_when=FIRST_COMPLETED)
            for each in finished:
                each.result()
            bar.update(before + done.value - bar.n)
    except BrokenProcessPool:
        raise TrueNegError(
            "a worker process died (killed, or out of memory); run again, with fewer --workers where memory is short: "
            "what is finished is kept"
        ) from None
    finally:
        stop.set()
        executor.shutdown(cancel_futures=True)


_started: dict[str, Any] = {}
"""A pool's process: what makes its work, the work, and what counts bytes."""


def _start(make_work: Callable[[], Work[Any]], done: Any, stop: Any) -> None:
    def advance(count: int) -> None:
        if stop.is_set():
            raise CancelledError("another task failed, or the run was interrupted")
        with done.get_lock():
            done.value += count

    def end_with_parent() -> None:  # a pool's processes wait for ever where their parent was killed
        parent = multiprocessing.parent_process()
        assert parent is not None
        wait_for_end([parent.sentinel])
        os._exit(1)

    # Ctrl-C reaches every process of the terminal; the parent tells the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=end_with_parent, daemon=True).start()
    _started.update(make_work=make_work, advance=advance)


def _work(task: Any) -> None:
    if "work" not in _started:  # not in _start, whose errors would be a broken pool
        _started["work"] = _started["make_work"]()
    _started["work"](task, _started["advance"])


class Progress(tqdm):
    """tqdm's bar on stderr; if that is no terminal, a line after five seconds, then every half minute."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("file", sys.stderr)
        self._drawn = kwargs["file"].isatty()
        self._next = time.monotonic() + SECONDS_TO_FIRST_LINE
        if not self._drawn:
            kwargs |= {"mininterval": SECONDS_TO_FIRST_LINE, "delay": SECONDS_TO_FIRST_LINE, "ncols": 0, "leave": False}
        super().__init__(*args, **kwargs)

    def display(self, msg: str | None = None, pos: int | None = None) -> bool | None:
        """Draws the bar, or prints a line if the last one is old enough."""
        if self._drawn:
            return bool(super().display(msg, pos))
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + SECONDS_A_LINE
            print(self, file=self.fp, flush=True)
        return None

    def clear(self, nolock: bool = False) -> None:
        """Makes room for another line on a terminal."""
        if self._drawn:
            super().clear(nolock)


def choose_device(*, cpu: bool) -> torch.device:
    """A GPU where there is one."""
    import torch

    return torch.device("cuda" if torch.cuda.is_available() and not cpu else "cpu")
