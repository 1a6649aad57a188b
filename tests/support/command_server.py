"""Starts commands in milliseconds: forks them from a process that has already imported what they import.

Most of a short command's time is the import of torch and fairseq. A :class:`CommandServer` imports them once, never
truneg_fairseq, and forks a child for every command. The child takes over the command's working directory, environment,
arguments and files, runs it as ``__main__`` as the interpreter would, and ends as the interpreter ends. What differs
from a fresh process: the hash seed is the server's, tracebacks begin with frames of this file, messages that
packages log while they are imported are missing, and modules are not taken down at the end.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import importlib.machinery
import json
import logging
import os
import runpy
import select
import signal
import subprocess
import sys
import threading
import types
from collections.abc import Sequence
from pathlib import Path

# What a training imports at its start and on the way to its end. fairseq_cli is missing: its modules configure
# logging when they are imported.
PRELOADED = """
fairseq fairseq.binarizer fairseq.model_parallel.megatron_trainer fairseq.trainer fairseq.data.plasma_utils
fairseq.distributed.utils hydra hydra._internal.hydra hydra._internal.utils hydra.core.hydra_config
hydra.core.override_parser.overrides_parser torch._dynamo
torch.distributed torch.nn.parallel torch.utils.data tokenizers safetensors.torch nltk.corpus filelock tqdm
importlib.resources cProfile
""".split()
HIDDEN = "fairseq"  # until a command imports it: truneg_fairseq asks whether that has happened


class ForkedCommand:
    """A command that a server forked. The methods are those of :class:`subprocess.Popen`."""

    def __init__(self, server: CommandServer, pid: int) -> None:
        self._server, self.pid = server, pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._server.replies], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("forked command", timeout or 0)
            self.returncode = self._server.reply()
            self._server.busy = False
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class CommandServer:
    """A process for one environment, with one command at a time. It ends when this process ends."""

    def __init__(self, environment: dict[str, str], imports: Sequence[str] = ()) -> None:
        self.busy = False
        # pyarrow's allocator, which fairseq imports, would start a thread: forks need a single one.
        self._process = subprocess.Popen(
            [sys.executable, __file__, *imports],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**environment, "JE_ARROW_MALLOC_CONF": "background_thread:false"},
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._requests, self.replies = self._process.stdin, self._process.stdout
        atexit.register(self._stop)

    def start(
        self,
        command: Sequence[str],
        environment: dict[str, str],
        stdout: Path,
        stderr: Path,
        cwd: Path,
        *,
        stdin: Path = Path(os.devnull),
        python: Path = Path(sys.executable),
    ) -> ForkedCommand:
        """Starts an interpreter's command line; its output is added to the files. ``python`` is what it starts."""
        request = {"command": command, "environment": environment, "cwd": str(cwd), "python": str(python)}
        request |= {"stdin": str(stdin), "stdout": str(stdout), "stderr": str(stderr)}
        self._requests.write(json.dumps(request).encode() + b"\n")
        self._requests.flush()
        self.busy = True
        return ForkedCommand(self, self.reply())

    def _stop(self) -> None:
        self._requests.close()
        self._process.wait()

    def reply(self) -> int:
        line = self.replies.readline()
        if not line:
            raise RuntimeError(f"the command server ended with exit code {self._process.wait()}")
        return int(line)


class HiddenPackage:
    """An imported package out of sight; its next import brings back all of its modules as they are.

    And the logging that fairseq's import configures, unless a command has configured another.
    """

    def __init__(self, package: str) -> None:
        self._modules = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == package}
        self._specs = {name: module.__spec__ for name, module in self._modules.items()}
        for name in self._modules:
            del sys.modules[name]
        sys.meta_path.insert(0, self)
        self._logging = list(logging.root.handlers), logging.root.level
        logging.root.handlers, logging.root.level = [], logging.WARNING

    def find_spec(self, name: str, path: object, target: object = None) -> importlib.machinery.ModuleSpec | None:
        if name not in self._modules:
            return None
        sys.meta_path.remove(self)
        # Not this one: where it is there already, the import system would execute its file again.
        sys.modules.update({other: module for other, module in self._modules.items() if other != name})
        if not logging.root.handlers:
            logging.root.handlers, logging.root.level = self._logging
        return importlib.machinery.ModuleSpec(name, self)  # type: ignore[arg-type]

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return self._modules[spec.name]

    def exec_module(self, module: types.ModuleType) -> None:
        module.__spec__ = self._specs[module.__name__]


def serve() -> list[str]:
    """Forks a child for every request. Returns only in a child, with the command line that it shall run."""
    requests, replies = os.fdopen(os.dup(0), "rb"), os.dup(1)
    _replace(0, os.devnull, os.O_RDONLY)
    _replace(1, os.devnull, os.O_WRONLY)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for pytest and the command
    logging.disable()
    for name in (*PRELOADED, *sys.argv[1:]):
        importlib.import_module(name)
    # The grammar of hydra's overrides, which fairseq makes of every option, is slow until each form was parsed once.
    parser = sys.modules["hydra.core.override_parser.overrides_parser"].OverridesParser.create()
    parser.parse_overrides(["a.b_c='/d'", "a=1", "+a.b=-0.5", "a=1e-06", "a=true", "a=null", "a=[1,'b']", "a=[]"])
    logging.disable(logging.NOTSET)
    HiddenPackage(HIDDEN)
    assert "truneg_fairseq" not in sys.modules
    assert threading.active_count() == len(list(Path("/proc/self/task").iterdir())) == 1, "a thread"
    gc.collect()
    gc.freeze()
    for line in requests:
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            requests.close()
            os.close(replies)
            become(request)
            return request["command"]
        os.write(replies, b"%d\n" % pid)
        status = os.waitpid(pid, 0)[1]
        os.write(replies, b"%d\n" % os.waitstatus_to_exitcode(status))
    os._exit(0)


def _replace(descriptor: int, file: str, flags: int) -> None:
    opened = os.open(file, flags)
    os.dup2(opened, descriptor)
    os.close(opened)


def become(request: dict) -> None:
    """Gives this process the place, the environment and the files of a command, and what is drawn at random."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.executable = request["python"]
    _replace(0, request["stdin"], os.O_RDONLY)
    _replace(1, request["stdout"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    _replace(2, request["stderr"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.modules["multiprocessing.process"].ORIGINAL_DIR = request["cwd"]  # type: ignore[attr-defined]
    sys.modules["numpy"].random.seed()  # Python's own generator cares for itself
    sys.modules["torch"].seed()
    importlib.invalidate_caches()


def run(command: Sequence[str]) -> None:
    """Runs "-m module", "-c code" or "script" with its arguments as the interpreter's ``__main__``."""
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    if command[0] == "-m":
        sys.path[0], sys.argv = str(Path.cwd()), ["-m", *command[2:]]
        runpy._run_module_as_main(command[1])  # type: ignore[attr-defined]
    elif command[0] == "-c":
        sys.path[0], sys.argv = "", ["-c", *command[2:]]
        exec(compile(command[1], "<string>", "exec", dont_inherit=True), main.__dict__)
    else:
        script = str(Path(command[0]).absolute())
        sys.path[0], sys.argv = str(Path(command[0]).resolve().parent), list(command)
        main.__file__ = script
        main.__dict__["__cached__"] = None
        main.__loader__ = importlib.machinery.SourceFileLoader("__main__", script)
        exec(compile(Path(script).read_bytes(), script, "exec", dont_inherit=True), main.__dict__)


def run_and_end(command: Sequence[str]) -> None:
    """Runs a command and ends the process: threads are waited for, exit functions run, output is flushed.

    The interpreter would also take down its modules, which touches all memory that is shared with the server and takes
    longer than most commands. It does so after an error.
    """
    code = 0
    try:
        run(command)
    except SystemExit as end:
        if end.code is not None and not isinstance(end.code, int):
            print(end.code, file=sys.stderr)
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code & 0xFF)


if __name__ == "__main__":
    run_and_end(serve())
