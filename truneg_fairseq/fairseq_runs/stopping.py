"""Ends a training on a signal: after its update, saved, on every worker, with an exit code of its own.

SLURM, submitit and clouds send SIGTERM, SIGUSR1 or SIGUSR2 before they take a machine away. Without this the process
ends at once, and all updates since the last checkpoint are lost.
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
from collections.abc import Iterable
from types import FrameType

logger = logging.getLogger(__name__)

EXIT_STOPPED = 75
"""Exit status (EX_TEMPFAIL) of a training that a signal has stopped: saved, the same command continues."""

EXIT_DIVERGED = 76
"""Exit status of a training whose loss or gradient became NaN or infinite."""

STOPPING = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)  # a training
PROGRAMS = ("fairseq-train", "fairseq-hydra-train", "fairseq_cli/train.py", "fairseq_cli/hydra_train.py")  # that train

_SAME_REQUEST_SECONDS = 1.0
_SECONDS_FOR_A_BATCH = 10.0


class StopRequest:
    """The signals of this process. The first one asks for the end, a second one ends it at once."""

    def __init__(self) -> None:
        self.number: int | None = None
        self._asked_at = 0.0
        self._has_begun = False

    def begin(self, *, several_workers: bool) -> None:
        """From now on an update is finished and saved.

        Of several workers SIGINT is one of the signals: torch sends it to workers whose parent has ended. It is one too
        where a shell made it ignored, as it does for jobs in the background. In the foreground it stays Ctrl-C.
        """
        self._has_begun = True
        if threading.current_thread() is threading.main_thread():
            self.listen()
            if several_workers or signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
                signal.signal(signal.SIGINT, self._ask)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})

    def listen(self) -> None:
        """Handles the signals that nobody handles yet, and those that wait for that (:func:`let_signals_wait`)."""
        for number in STOPPING:
            if signal.getsignal(number) == signal.SIG_DFL:
                signal.signal(number, self._ask)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)

    def forget(self) -> None:
        """After a training: a program that goes on gets its signals again."""
        self.number, self._has_begun = None, False
        if threading.current_thread() is threading.main_thread():
            for number in (*STOPPING, signal.SIGINT):
                if signal.getsignal(number) == self._ask:
                    signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if multiprocessing.parent_process() is not None and multiprocessing.current_process().daemon:
            return  # a process that reads data was forked with this handler; the training ends it
        now = time.monotonic()
        if self.number is None:
            # A scheduler signals the processes that read data too; their end must not interrupt the update.
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self.number, self._asked_at = number, now
            if not self._has_begun and not _is_one_of_several():
                # Where something swallows this, the training ends after its first update.
                print(
                    f"truneg_fairseq: stopped by {signal_name(number)} before the first update; nothing to save, the "
                    f"same command starts again (exit code {EXIT_STOPPED})",
                    file=sys.stderr,
                    flush=True,
                )
                raise SystemExit(EXIT_STOPPED)
        elif now - self._asked_at > _SAME_REQUEST_SECONDS:  # before, it is the same request, sent twice on its way
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)


REQUEST = StopRequest()
"""Of this process, whatever trainings follow each other in it."""


def _is_one_of_several() -> bool:
    """Whether other workers wait for this one: they all stop after an update."""
    # In a spawned process multiprocessing names the main module first, and knows the parent later.
    spawned = sys.modules["__main__"].__name__ == "__mp_main__" or multiprocessing.parent_process() is not None
    distributed = sys.modules.get("torch.distributed")
    connected = distributed is not None and distributed.is_available() and distributed.is_initialized()
    return spawned or int(os.environ.get("WORLD_SIZE", "1")) > 1 or connected


def let_signals_wait(numbers: Iterable[int] = STOPPING) -> None:
    """Signals wait from now on; processes that are started, or a program that takes this one's place, inherit that."""
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)


def forward_to_workers() -> None:
    """Has this process, which only waits for its workers, hand on the signals that stop a training."""
    ours = (signal.SIG_DFL, signal.SIG_IGN, signal.default_int_handler, REQUEST._ask)
    numbers = {number for number in (*STOPPING, signal.SIGINT) if signal.getsignal(number) in ours}

    def forward() -> None:
        while True:
            number = signal.sigwait(numbers)
            while not (workers := multiprocessing.active_children()):
                time.sleep(0.1)
            for worker in workers:
                if worker.pid is not None:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(worker.pid, number)

    if threading.current_thread() is threading.main_thread():
        let_signals_wait(numbers)
        threading.Thread(target=forward, daemon=True).start()


def leave(message: str, code: int) -> None:
    """Runs the atexit handlers, then os._exit: Python's own end could abort (:func:`end_readers`)."""
    for number in (*STOPPING, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)  # the parent ends its other workers when the first one has ended
    logger.warning(message)
    for process in multiprocessing.active_children():
        process.terminate()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def end_readers() -> None:
    """For the exit: Python aborts (exit status 134) where its end meets fairseq's thread that reads ahead in torch."""
    from fairseq.data.iterators import BackgroundConsumer

    readers = [thread for thread in threading.enumerate() if isinstance(thread, BackgroundConsumer)]
    for reader in readers:
        reader._max_len = 0  # it ends after the batch that it reads
    deadline = time.monotonic() + _SECONDS_FOR_A_BATCH
    while time.monotonic() < deadline and any(reader.is_alive() for reader in readers):
        for reader in readers:
            with contextlib.suppress(queue.Empty):  # what it has read is taken, as it waits for room
                reader._queue.get(timeout=0.02)


def signal_name(number: int | None) -> str:
    """Such as SIGTERM."""
    return signal.Signals(number).name if number else "another worker's signal"
