"""The process of one piece of work: its peak memory is its own, and a killed one leaves the others running.

``python -m truneg_fairseq.launch.process PRECISION FLAGS...`` is fairseq-train with these flags; at its end it notes
in the run's folder what the run has taken. :func:`call_logged` has a process call a function.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, TypeAlias, get_type_hints

import msgspec

from ..errors import TrueNegError, one_line_errors
from ..fairseq_runs.saving import LAST, read_lazily
from ..files import replacing_file, write_json
from ..registry import import_user_dir

Call: TypeAlias = "partial[Any]"
"""A function of this package and its keywords, for another process."""

PRECISIONS = ("fp32", "fp16", "bf16")
FP16_FLAGS = ("--fp16", "--fp16-no-flatten-grads")
FINISHED_NAME = "finished.json"
"""Tells that training has ended: ``wall_seconds``, over all of its starts, and ``peak_memory_mb``."""

PACKAGES = Path(__file__).resolve().parents[2]
"""The folder that this package lies in."""
ENDS = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
"""What schedulers and clouds send before they take a machine away."""
_PACKAGE = Path(__file__).resolve().parents[1].name  # also where this module is __main__
_POLL_SECONDS = 0.5
_PATIENCE = 120.0  # seconds that a training has to save itself after a signal
_PARENT = "TRUNEG_FAIRSEQ_PARENT"
# Variables that torchrun and the like set for their processes; a training that is started here must not see them.
_RANKS = ("WORLD_SIZE", "RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_CALL = "call"
_TAIL = 1 << 16  # bytes of a log's end
_LONGEST_QUOTE = 200


def run_logged(
    command: Sequence[str], *, folder: Path, log: Path, poll: Callable[[], None], device: str | None = None
) -> int:
    """Runs a command in a folder, and ends it if this function exits for any reason; gives its exit code.

    The signals of :data:`ENDS` end it, upon which a training saves itself; Ctrl-C kills it. Python gives them to the
    main thread alone: in another one, ``poll``, which is called twice a second, has to raise. What the command prints
    is added to ``log``, and ``device`` is the GPU to see, as in ``CUDA_VISIBLE_DEVICES`` (None for all).
    """
    seen = {} if device is None else {"CUDA_VISIBLE_DEVICES": device}
    with exit_on_signals():
        with log.open("ab") as stream:
            process = subprocess.Popen(
                list(command),
                env=environment_of(log.parent) | {_PARENT: str(os.getpid())} | seen,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for this process
            )
        try:
            while process.poll() is None:
                time.sleep(_POLL_SECONDS)
                poll()
        except KeyboardInterrupt:
            process.kill()
            raise
        finally:
            try:
                process.send_signal(signal.SIGTERM)  # does nothing to one that has ended
                process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                pass
            finally:  # also where Ctrl-C is pressed again
                process.kill()
                process.wait()
    return int(process.returncode)


@contextlib.contextmanager
def handling(
    handler: Callable[[int, FrameType | None], Any] | signal.Handlers, *numbers: signal.Signals
) -> Iterator[None]:
    """Handles signals for a while, in the main thread only. What is ignored stays so: ``nohup`` and shells mean it."""
    here = numbers if threading.current_thread() is threading.main_thread() else ()
    previous = {number: signal.signal(number, handler) for number in here if signal.getsignal(number) != signal.SIG_IGN}
    try:
        yield
    finally:
        for number, before in previous.items():
            signal.signal(number, before)


def exit_on_signals() -> AbstractContextManager[None]:
    """Has the signals of :data:`ENDS` raise SystemExit(75) for a while, so that what is begun saves itself."""
    return handling(_exit, *ENDS)


def _exit(number: int, frame: FrameType | None) -> None:
    for each in ENDS:  # timeout and SLURM send them twice
        signal.signal(each, signal.SIG_IGN)
    sys.exit(os.EX_TEMPFAIL)


def environment_of(folder: Path) -> dict[str, str]:
    """For a process that imports this package, and nothing from the folder that the user happens to be in.

    ``-m`` puts the current folder first on ``sys.path``, and the user's may hold ``fairseq/`` or ``filelock.py``. Hence
    a training starts where this package lies (Python 3.10 has nothing else to offer), without names in PYTHONPATH that
    mean the current folder. Weights and Biases, which would take the current folder, writes to the run's.
    """
    own = [str(Path(name).absolute()) for name in os.environ.get("PYTHONPATH", "").split(os.pathsep) if name]
    defaults = {"PYTHONWARNINGS": "ignore", "WANDB_DIR": str(folder.resolve())}
    paths = os.pathsep.join([str(PACKAGES), *own])
    inherited = {name: value for name, value in os.environ.items() if name not in _RANKS}
    return {**defaults, **inherited, "PYTHONPATH": paths, "PYTHONSAFEPATH": "1", "PYTHONUNBUFFERED": "1"}


def keep_call(path: Path, call: Call) -> None:
    """Writes a call and the current folder as JSON, for :func:`call_kept` in another process.

    It is a ``partial`` of a function of this package with keywords alone, whose annotations say how the values are
    read again: whatever msgspec knows, and paths.
    """
    function = f"{call.func.__module__}:{call.func.__qualname__}"
    kept = {"folder": Path.cwd(), "function": function, "arguments": call.keywords}
    content = msgspec.json.encode(kept, enc_hook=os.fspath)
    with replacing_file(path) as stream:
        stream.write(msgspec.json.format(content))


def call_kept(path: Path) -> None:
    """Calls what :func:`keep_call` wrote: a function of this package, and nothing else."""
    kept = json.loads(path.read_text(encoding="utf-8"))
    os.chdir(kept["folder"])
    print(json.dumps(kept))
    module, _, name = kept["function"].partition(":")
    own = module.partition(".")[0] == _PACKAGE
    function = getattr(importlib.import_module(module), name, None) if own else None
    if not callable(function) or function.__module__ != module:
        raise TrueNegError(f"{path}: has {module}:{name}; expected a function of this version of truneg")
    types = get_type_hints(function)
    arguments = {
        name: msgspec.convert(value, types[name], dec_hook=lambda kind, text: kind(text))
        for name, value in kept["arguments"].items()
    }
    for options in arguments.values():
        import_user_dir(getattr(options, "user_dir", None))
    function(**arguments)


def call_logged(call: Call, *, log: Path, poll: Callable[[], None], device: str | None) -> int:
    """Calls a function of this package in a fresh process, as :func:`run_logged` runs a command."""
    work = log.with_suffix(".json").resolve()
    keep_call(work, call)
    try:
        command = [sys.executable, "-m", __name__, _CALL, str(work)]
        return run_logged(command, folder=PACKAGES, log=log, poll=poll, device=device)
    finally:
        work.unlink()


def updates_in(log: Path) -> int:
    """The number of updates that the end of a training's log tells."""
    found = re.findall(r'num_updates": "(\d+)"', read_tail(log)) if log.exists() else ()
    return int(found[-1]) if found else 0


def size_of(log: Path) -> int:
    """Bytes of a log, which all starts add to: where the next one's part begins."""
    return log.stat().st_size if log.exists() else 0


def read_tail(path: Path, start: int = 0) -> str:
    """The last 64 KiB of a text file, from byte ``start`` at the earliest."""
    with path.open("rb") as stream:
        stream.seek(max(start, path.stat().st_size - _TAIL))
        return stream.read().decode("utf-8", "replace")


def failure(log: Path, code: int | None, start: int) -> str:
    """Why a process failed: the package's own line in its log from byte ``start`` on, or the last one."""
    tail = read_tail(log, start)
    if errors := re.findall(r"truneg_fairseq: error: (.*)", tail):
        return str(errors[-1])
    lines = [line.strip() for line in tail.splitlines() if line.strip()]
    return f"exit code {code}" + (f", the log ends with: {lines[-1][:_LONGEST_QUOTE]}" if lines else "")


def main(argv: Sequence[str]) -> None:
    """Trains, by a precision and fairseq-train's flags with ``--save-dir``; or calls what a file has."""
    precision, *flags = argv
    if _PARENT in os.environ:
        threading.Thread(target=_end_with, args=(int(os.environ[_PARENT]),), daemon=True).start()
    if precision == _CALL:
        # Before fairseq is imported: its import would make the root logger print other packages' INFO and DEBUG lines.
        logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.WARNING)
        logging.getLogger("truneg_fairseq").setLevel(logging.INFO)
        with one_line_errors():
            return call_kept(Path(flags[0]))
    _train(flags, precision)
    folder = Path(flags[flags.index("--save-dir") + 1])
    state = read_lazily(folder / LAST)["extra_state"]
    used = {"wall_seconds": round(float(state["previous_training_time"]), 1)}
    memory = peak_memory_mb(cpu="--cpu" in flags)
    write_json(folder / FINISHED_NAME, used if memory is None else {**used, "peak_memory_mb": round(memory, 1)})


def _train(flags: Sequence[str], precision: str) -> None:
    """fairseq-train with these flags; it continues where a run in its folder was interrupted.

    Its own ``--bf16`` asks for a TPU, hence the argument.
    """
    from .. import register

    # fairseq-train's log, on stdout: its own set-up does nothing where logging is set up already.
    form = "%(asctime)s | %(levelname)s | %(name)s | %(message)s"
    logging.basicConfig(format=form, datefmt="%Y-%m-%d %H:%M:%S", level=logging.INFO, stream=sys.stdout, force=True)
    register()
    from fairseq import options
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf
    from fairseq.distributed import utils as distributed_utils
    from fairseq_cli import train as fairseq_train

    words = [*flags] if "--user-dir" in flags else ["--user-dir", str(PACKAGES / _PACKAGE), *flags]
    words += FP16_FLAGS if precision == "fp16" else ()
    cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser(), words))
    cfg.common.bf16 = precision == "bf16"
    distributed_utils.call_main(cfg, fairseq_train.main)


def _end_with(parent: int) -> None:
    """Ends this process and its group when the command that has started it (:func:`run_logged`) is killed."""
    while os.getppid() == parent:
        time.sleep(_POLL_SECONDS)
    os.killpg(os.getpgrp(), signal.SIGKILL)


def peak_memory_mb(*, cpu: bool) -> float | None:
    """Peak memory in MB of a training in this process: reserved by torch on the GPU, or else main memory.

    None without Linux's /proc: ru_maxrss would be the peak of the process that started this one.
    """
    import torch

    if not cpu and torch.cuda.is_available():
        return torch.cuda.max_memory_reserved() / 1e6
    status = Path("/proc/self/status")
    found = re.search(r"VmHWM:\s*(\d+) kB", status.read_text()) if status.exists() else None
    return None if found is None else int(found[1]) * 1024 / 1e6


if __name__ == "__main__":
    main(sys.argv[1:])
