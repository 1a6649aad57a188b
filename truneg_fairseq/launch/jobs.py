"""Runs side by side, here or each as a job of SLURM, under one progress bar, all ended by the first error.

submitit learns of a job's end from sacct, and would wait for ever for a job that was cancelled on a cluster without a
database of accounts.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import os
import queue
import shlex
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ..errors import TrueNegError, one_line_errors
from ..files import replacing_text
from ..options import option
from ..workers import Progress
from .process import ENDS, PACKAGES, Call, call_kept, environment_of, exit_on_signals, failure, handling, keep_calls

HERE, SLURM = "here", "slurm"
WORK_NAME, LOG_NAME, ENDED_NAME = "job.json", "job.log", "job.ended"
# The signal comes so many seconds before the end of the job's time; what is begun saves itself within two minutes.
_OPTIONS = ("--parsable", "--requeue", "--open-mode=append", "--signal=B:USR2@150", "--dependency=singleton")
_POLL_SECONDS, _QUEUE_SECONDS = 2.0, 10.0
_LOST_SECONDS = 60.0  # after which a job is lost that is neither in the queue nor has told its end; NFS takes a while


@dataclass(frozen=True, kw_only=True)
class LaunchOptions:
    launcher: str = option(HERE, "where runs work: on this machine, or each in a job of SLURM", choices=(HERE, SLURM))
    slurm: list[str] = option(
        default_factory=list, help="sbatch's options for each job, such as partition=gpu gpus=1", metavar="NAME=VALUE"
    )


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


# --- SLURM ---


class _Queue:
    """The user's jobs that wait or run: threads that ask share the answer for some seconds."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked, self._jobs = -math.inf, dict[str, str]()

    def find(self, name: str) -> str | None:
        """The number of the job of this name; None without one."""
        with self._lock:
            if time.monotonic() > self._asked + _QUEUE_SECONDS:
                answer = _run("squeue", "--me", "--noheader", "--format=%A %j")
                if not answer.returncode:
                    parts = (line.partition(" ") for line in answer.stdout.splitlines())
                    self._jobs = {name.strip(): number for number, _, name in parts}
                    self._asked = time.monotonic()
                elif self._asked < 0:  # later the controller may be away for a while
                    raise TrueNegError(f"--launcher slurm: {answer.stderr.strip()}; expected a cluster that answers")
            return self._jobs.get(name)

    def submit(self, name: str, *arguments: object, env: dict[str, str]) -> str:
        answer = _run("sbatch", f"--job-name={name}", *arguments, env=env)
        if answer.returncode:
            raise TrueNegError(f"--slurm: {answer.stderr.strip()}; expected options that sbatch takes")
        with self._lock:
            self._jobs[name] = answer.stdout.strip().split(";")[0]
            return self._jobs[name]


_QUEUE = _Queue()


def call_in_job(work: Call, *, name: str, folder: Path, options: Sequence[str], poll: Callable[[], None]) -> None:
    """Calls a function of this package in a job of SLURM, in the current folder, and waits for the job's end.

    ``folder`` is the job's alone: the job that a former command has submitted for it is waited for, and no other one
    submitted. An error from ``poll`` ends the waiting, not the job.
    """
    folder = folder.resolve()
    log, ended = folder / LOG_NAME, folder / ENDED_NAME
    key = f"{name.replace(' ', '-')}-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:8]}"
    # A job that has told its end may stay in the queue for a while.
    job = None if ended.exists() else _QUEUE.find(key)
    folder.mkdir(parents=True, exist_ok=True)
    keep_calls(folder / WORK_NAME, [work])  # a job that still waits does what is wanted now
    if job is None:
        log.unlink(missing_ok=True)
        ended.unlink(missing_ok=True)
        script = ("--wrap", f'exec {shlex.quote(sys.executable)} -m {__name__} "$TRUNEG_JOB"')
        chosen = (*_OPTIONS, f"--output={str(log).replace('%', '%%')}", *(f"--{each}" for each in options))
        env = environment_of(folder) | {"TRUNEG_JOB": str(folder)}
        job = _QUEUE.submit(key, *chosen, f"--chdir={PACKAGES}", *script, env=env)
    Progress.write(f"{name}: job {job}, its log is {log}", file=sys.stderr)
    seen = time.monotonic()
    while not ended.exists() and time.monotonic() < seen + _LOST_SECONDS:
        time.sleep(_POLL_SECONDS)
        poll()
        if _QUEUE.find(key):
            seen = time.monotonic()
    if not ended.exists():
        reason = "cancelled, out of its time or memory, or its machine failed"
        tail = f", {failure(log, None, 0)}" if log.exists() else ""
        raise TrueNegError(f"{name}: job {job} is not in the queue any more ({reason}{tail}); start again to go on")
    if code := int(ended.read_text()):
        raise TrueNegError(f"{name}: job {job} failed ({failure(log, code, 0)}); its log is {log}")


def _run(*command: object, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run([*map(str, command)], env=env, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise TrueNegError(f"--launcher slurm: {command[0]}: no such command here; expected SLURM's") from None


def main(folder: Path) -> None:
    """In the job: calls the function and leaves its exit code in the folder, unless the job goes back to the queue."""
    try:
        with exit_on_signals(), one_line_errors():
            call_kept(folder / WORK_NAME)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        code = 1
    with handling(signal.SIG_IGN, *ENDS):
        job = os.environ["SLURM_JOB_ID"]
        if code == os.EX_TEMPFAIL:
            # Only a job that runs: to requeue one that somebody has cancelled would start it again.
            if _run("squeue", "--noheader", "--format=%T", "--jobs", job).stdout.strip() != "RUNNING":
                return
            if not _run("scontrol", "requeue", job).returncode:
                return
        with replacing_text(folder / ENDED_NAME) as stream:
            stream.write(str(code))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
