"""Starts commands from a process that has imported what they import: multiprocessing's fork server.

Most of a short command's time is the import of torch and of what fairseq needs. fairseq and this package are imported
by the command itself, as in a fresh process. What differs from one: the hash seed is the server's, tracebacks begin
with frames of multiprocessing, and modules are not taken down at the end.
"""

from __future__ import annotations

import atexit
import functools
import json
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import threading
import types
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

PRELOADED = """
torch._dynamo torch.distributed torch.utils.tensorboard hydra._internal.hydra hydra.core.hydra_config sacrebleu
sklearn.metrics pandas pyarrow nltk.corpus tokenizers safetensors.torch filelock msgspec
""".split()
# pyarrow's allocator would start a thread, and forks need a single one.
BEFORE_IMPORTS = {"OMP_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
_CHANGES_THE_ENVIRONMENT = threading.Lock()
_server = multiprocessing.get_context("forkserver")
_server.set_forkserver_preload(PRELOADED)


class ForkedCommand:
    """What the tests ask of :class:`subprocess.Popen`."""

    def __init__(
        self,
        command: Sequence[str],
        environment: dict[str, str],
        cwd: str,
        stdout: str,
        stderr: str,
        stdin: str = os.devnull,
    ) -> None:
        path = _path_of_a_fresh_process(environment["PYTHONPATH"])
        # Threads that change the environment at once would leave these in it, and no later command would be forked.
        with _CHANGES_THE_ENVIRONMENT, patch.dict(os.environ, BEFORE_IMPORTS):
            self._process = _server.Process(target=_run, args=(command, environment, path, cwd, stdout, stderr, stdin))
            self._process.start()
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@functools.cache
def _path_of_a_fresh_process(python_path: str) -> list[str]:
    shown = [sys.executable, "-c", "import json, sys; print(json.dumps(sys.path[1:]))"]
    return json.loads(subprocess.check_output(shown, env={**os.environ, "PYTHONPATH": python_path}))


def _run(
    command: Sequence[str],
    environment: dict[str, str],
    path: list[str],
    cwd: str,
    stdout: str,
    stderr: str,
    stdin: str,
) -> None:
    """Runs "-m module", "-c code" or "script" with its arguments as the interpreter's ``__main__``."""
    for number, file in ((1, stdout), (2, stderr)):
        os.dup2(os.open(file, os.O_WRONLY | os.O_APPEND), number)
    os.dup2(os.open(stdin, os.O_RDONLY), 0)
    # The server's own were made for other files, of which they know whether one can seek in them.
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    sys.dont_write_bytecode = False  # compiling the package takes a third of a second
    multiprocessing.set_start_method(None, force=True)  # a command's own default
    # It is the first process of its command, not one of multiprocessing's.
    vars(sys.modules["multiprocessing.process"]).update(ORIGINAL_DIR=cwd, _parent_process=None)
    sys.modules["numpy"].random.seed()  # Python's own generator cares for itself, and torch begins with a fixed seed
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    kind, *arguments = command
    sys.argv = [kind, *arguments[kind in ("-m", "-c") :]]
    sys.path[:] = [{"-m": cwd, "-c": ""}.get(kind, str(Path(kind).resolve().parent)), *path]
    try:
        if kind == "-m":
            runpy._run_module_as_main(arguments[0])  # type: ignore[attr-defined]
        elif kind == "-c":
            exec(compile(arguments[0], "<string>", "exec", dont_inherit=True), main.__dict__)
        else:
            runpy.run_path(kind, run_name="__main__")
    finally:
        atexit._run_exitfuncs()
