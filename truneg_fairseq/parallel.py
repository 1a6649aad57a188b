"""Independent tasks over processes, with one progress bar, and without processes that outlive a kill."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait as wait_for_end
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from .errors import TrueNegError
from .progress import Progress

Task = TypeVar("Task")
Result = TypeVar("Result")

Advance = Callable[[int], None]
"""Called with the bytes that were done since its last call."""

Work = Callable[[Task, Advance], Result]

MOST_PROCESSES = 256
"""More would take the memory of any machine before they do anything."""

_REFRESH_SECONDS = 0.2


def available_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_tasks(
    make_work: Callable[[], Work[Task, Result]],
    tasks: Iterable[Task],
    workers: int,
    bar: Progress,
    on_result: Callable[[Result], None] = lambda result: None,
) -> None:
    """Does tasks in any order.

    Args:
        make_work: makes what does a task, once a process; it and the tasks are sent to spawned processes.
        tasks: what to do.
        workers: processes; 1 is this one.
        bar: is advanced by the bytes that the tasks report.
        on_result: called in this process for every finished task.
    """
    if workers == 1:
        work = make_work()
        for task in tasks:
            on_result(work(task, bar.update))
        return
    context = multiprocessing.get_context("spawn")
    shared = _Shared(make_work, context.Value("q", 0), context.Event())
    executor = ProcessPoolExecutor(workers, context, initializer=_start, initargs=(shared,))
    try:
        finished: SimpleQueue[Future[Result]] = SimpleQueue()
        left = told = 0
        for task in tasks:
            executor.submit(_work, task).add_done_callback(finished.put)
            left += 1
        while left:
            try:
                future = finished.get(timeout=_REFRESH_SECONDS)
            except Empty:
                future = None
            told = _tell(bar, shared.done.value, told)
            if future is not None:
                on_result(future.result())
                left -= 1
    except BrokenProcessPool:
        raise TrueNegError(
            "a worker process died (killed, or out of memory); run again, with fewer --workers where memory is short: "
            "what is finished is kept"
        ) from None
    finally:
        shared.stop.set()
        executor.shutdown(cancel_futures=True)


def _tell(bar: Progress, done: int, told: int) -> int:
    bar.update(done - told)
    return done


class _Shared(Generic[Task, Result]):
    """The arguments that a worker process starts with."""

    def __init__(self, make_work: Callable[[], Work[Task, Result]], done: Any, stop: Any) -> None:
        self.make_work = make_work
        self.done = done
        self.stop = stop
        self.work: Work[Task, Result] | None = None

    def advance(self, count: int) -> None:
        if self.stop.is_set():
            raise _Stopped
        with self.done.get_lock():
            self.done.value += count


class _Stopped(Exception):
    """Another task failed, or the run was interrupted."""


_shared: _Shared[Any, Any] | None = None


def _start(shared: _Shared[Any, Any]) -> None:
    global _shared  # noqa: PLW0603  (how a pool's process keeps what it was started with)
    _shared = shared
    # Ctrl-C reaches every process of the terminal; the parent tells the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A pool's processes wait for ever where their parent was killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait_for_end([parent.sentinel])
    os._exit(1)


def _work(task: Any) -> Any:
    assert _shared is not None
    if _shared.work is None:
        _shared.work = _shared.make_work()
    return _shared.work(task, _shared.advance)
