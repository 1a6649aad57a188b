"""Ends a training on a signal: after its update, saved, on every worker, with an exit code of its own.

SLURM and clouds send SIGTERM or SIGUSR1 before they take a machine away. Without this the process ends at once, and all
updates since the last checkpoint are lost.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import multiprocessing
import os
import queue
import signal
import sys
import threading
import time
from types import FrameType

logger = logging.getLogger(__name__)

EXIT_STOPPED = 75
"""Exit status (EX_TEMPFAIL) of a training that a signal has stopped: saved, the same command continues."""

_SAME_REQUEST_SECONDS = 1.0
_SECONDS_FOR_A_BATCH = 10.0


class StopRequest:
    """The signals of this process. The first one asks for the end, a second one ends it at once."""

    def __init__(self) -> None:
        self.number: int | None = None
        self._asked_at = 0.0

    def listen(self, *, several_workers: bool) -> None:
        """Handles the signals that nobody handles yet.

        Args:
            several_workers: whether this is one of several. Then SIGINT is one of them: torch sends it to workers whose
                parent has ended. It is one too where a shell made it ignored, as it does for jobs in the background.
                In the foreground it stays Ctrl-C.
        """
        if threading.current_thread() is not threading.main_thread():
            return
        for number in (signal.SIGTERM, signal.SIGUSR1):
            if signal.getsignal(number) == signal.SIG_DFL:
                signal.signal(number, self._ask)
        if several_workers or signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
            signal.signal(signal.SIGINT, self._ask)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if multiprocessing.parent_process() is not None and multiprocessing.current_process().daemon:
            return  # a process that reads data was forked with this handler; the training ends it
        now = time.monotonic()
        if self.number is None:
            # A scheduler signals the processes that read data too; their end must not interrupt the update.
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self.number, self._asked_at = number, now
        elif now - self._asked_at > _SAME_REQUEST_SECONDS:  # before, it is the same request, sent twice on its way
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)


def forward_to_workers() -> None:
    """Has this process, which only waits for its workers, hand on the signals that stop a training."""

    def forward(number: int, frame: FrameType | None) -> None:
        workers = multiprocessing.active_children()
        if not workers:  # they have not been started
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        for worker in workers:
            if worker.pid is not None:
                os.kill(worker.pid, number)

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT):
            if signal.getsignal(number) in (signal.SIG_DFL, signal.SIG_IGN, signal.default_int_handler):
                signal.signal(number, forward)


def leave(message: str, code: int) -> None:
    """Ends this process.

    Python's own end would abort where the thread that reads data is inside torch. What has registered for the end
    (loggers, the processes that read data) is called first.
    """
    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)  # the parent ends its other workers when the first one has ended
    logger.warning(message)
    for process in multiprocessing.active_children():
        process.terminate()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def end_readers_at_exit() -> None:
    """The thread of fairseq that reads batches ahead works on after the last update. Python aborts (exit status 134)
    where its own end meets that thread inside torch, also after a training that has saved all.
    """
    from fairseq.data.iterators import BackgroundConsumer

    def end_readers() -> None:
        readers = [thread for thread in threading.enumerate() if isinstance(thread, BackgroundConsumer)]
        for reader in readers:
            reader._max_len = 0  # it ends after the batch that it reads
        deadline = time.monotonic() + _SECONDS_FOR_A_BATCH
        while time.monotonic() < deadline and any(reader.is_alive() for reader in readers):
            for reader in readers:
                with contextlib.suppress(queue.Empty):  # what it has read is taken, as it waits for room
                    reader._queue.get(timeout=0.02)

    atexit.register(end_readers)


def name_of(number: int | None) -> str:
    """Such as SIGTERM."""
    return signal.Signals(number).name if number else "another worker's signal"


def exit_status_of_worker(exit_code: int, rank: int) -> int | str:
    """The exit status after a spawned worker failed: its exit code, or an error line if a signal killed it."""
    if exit_code >= 0:
        return exit_code
    return f"truneg_fairseq: error: worker {rank} was ended by {name_of(-exit_code)}; see what sent it (out of memory?)"
