"""Runs side by side under one progress bar; the first error stops all."""

from __future__ import annotations

import itertools
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeVar

from ..workers import Progress
from .process import ENDS, exit_on_signals, handling

RunT = TypeVar("RunT", bound=Any)  # with a name


class Stopped(Exception):
    """This run is to end, because all are."""


@dataclass(frozen=True)
class Job:
    """What a run is executed with."""

    device: str | None  # the GPU to see, as in ``CUDA_VISIBLE_DEVICES``; None for all
    progress: Callable[[int], None]  # is called with the number of updates that are done; raises :class:`Stopped`
    # for work that one run at a time may do: in this process, on its GPU and the file of results
    lock: AbstractContextManager[Any]

    def warn(self, message: str) -> None:
        """Prints a warning beside the progress bar."""
        Progress.write(f"warning: {message}", file=sys.stderr)


def devices_of(jobs: int, *, cpu: bool) -> list[str | None]:
    """A GPU for each of so many jobs at a time, in turn; None for any. Small models may share one."""
    import torch

    if jobs == 1 or cpu or not torch.cuda.is_available():
        return [None] * jobs
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = visible.split(",") if visible else [str(number) for number in range(torch.cuda.device_count())]
    return list(itertools.islice(itertools.cycle(names), jobs))


def run_jobs(
    execute: Callable[[RunT, Job], None],
    runs: Sequence[RunT],
    devices: Sequence[str | None],
    *,
    lengths: Sequence[int],
    unit: str = " updates",
) -> None:
    """Executes runs in their order in threads, as many at a time as devices are given, under one progress bar.

    The first error ends all runs, and so do SIGTERM and, without saving, Ctrl-C; what was begun goes on at the next
    start. ``lengths`` are in ``unit``, as :attr:`Job.progress` counts.
    """
    free: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    for device in devices:
        free.put(device)
    stop, at_once, lock, shown = threading.Event(), threading.Event(), threading.RLock(), threading.Lock()
    done = dict.fromkeys(range(len(runs)), 0)

    with Progress(total=sum(lengths), unit=unit, smoothing=0.05) as bar:

        def move(number: int, updates: int) -> None:
            if at_once.is_set():
                raise KeyboardInterrupt
            if stop.is_set():
                raise Stopped
            with shown:
                done[number] = updates
                if sum(done.values()) > bar.n:
                    bar.update(sum(done.values()) - bar.n)
                bar.refresh()  # the seconds go on

        def work(number: int, run: RunT) -> None:
            if stop.is_set():
                return
            device = free.get()
            bar.set_description(f"{run.name} ({number + 1} of {len(runs)})")
            try:
                execute(run, Job(device, lambda updates: move(number, updates), lock))
                move(number, lengths[number])
            except BaseException:
                stop.set()
                raise
            finally:
                free.put(device)

        with exit_on_signals(), ThreadPoolExecutor(len(devices)) as pool:
            futures = [pool.submit(work, number, run) for number, run in enumerate(runs)]
            try:
                wait(futures, return_when=FIRST_EXCEPTION)
            except KeyboardInterrupt:
                at_once.set()
                raise
            finally:
                stop.set()
                with handling(signal.SIG_IGN, signal.SIGINT, *ENDS):  # else the threads are given up
                    pool.shutdown()
        for error in (future.exception() for future in futures):
            if error is not None and not isinstance(error, Stopped):
                raise error
