"""Starts commands in milliseconds: forks them from a process that has already imported what they import.

Most of a short command's time is the import of torch and fairseq. A :class:`CommandServer` imports them once, never
truneg_fairseq, and forks a child for every command. A folder has stand-ins of ``python``, ``truneg`` and fairseq's
commands: each hands its command to the server, its signals to the command, and ends as that does; killed, it takes its
command along. The child takes over the command's working directory, environment, arguments and files, runs it as
``__main__`` as the interpreter would, and ends as the interpreter ends. To it ``sys.executable`` is the stand-in of
``python``, so that what it starts is forked too. What differs from a fresh process: its number is not the stand-in's,
the hash seed is the server's, tracebacks begin with frames of this file, messages that packages log while they are
imported are missing, and modules are not taken down at the end.
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
import socket
import subprocess
import sys
import tempfile
import threading
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

CUDA = Path("/dev/nvidiactl").exists()  # which does not survive a fork
TRUNEG = ["-c", "from truneg_fairseq.commands.main import main; main()"]
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
STAND_INS: dict[str, Sequence[str]] = {"python": (), "truneg": TRUNEG} | {
    f"fairseq-{name}": ("-m", f"fairseq_cli.{name}") for name in ("train", "generate", "preprocess")
}
STAND_IN = """\
#!{python} -IS
import json, os, select, signal, socket, sys
command = {command!r} + sys.argv[1:]
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
request = {{"command": command, "environment": dict(os.environ), "cwd": os.getcwd(), "python": {stand_in!r}}}
socket.send_fds(server, [b"-"], [0, 1, 2])
server.sendall(json.dumps(request).encode() + b"\\n")
answers = server.makefile()
pid = int(answers.readline())
if not pid:
    os.execv({python!r}, [{python!r}, *command])
signals, arrived = os.pipe()  # handlers alone would be late where a signal comes just before the wait for an answer
os.set_blocking(arrived, False)
signal.set_wakeup_fd(arrived)
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT):
    signal.signal(number, lambda number, frame: None)
signal.pthread_sigmask(signal.SIG_SETMASK, ())
while signals in select.select([server, signals], [], [])[0]:
    for number in os.read(signals, 99):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass
code = int(answers.readline())
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
sys.exit(code)
"""


class CommandServer:
    """A process for one environment; ``imports`` are modules that its commands need beside fairseq.

    It ends when this process ends. ``folder`` has the stand-ins.
    """

    def __init__(self, environment: dict[str, str], imports: Sequence[str] = ()) -> None:
        self._removed = tempfile.TemporaryDirectory(prefix="commands-")  # at the end of this process
        self.folder = Path(self._removed.name)
        self.python, address = self.folder / "python", str(self.folder / "socket")
        names = {"python": sys.executable, "address": address, "stand_in": str(self.python)}
        for name, command in STAND_INS.items():
            (self.folder / name).write_text(STAND_IN.format(command=list(command), **names))
            (self.folder / name).chmod(0o755)
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(address)
            listening.listen()
            # pyarrow's allocator, which fairseq imports, would start a thread: forks need a single one.
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(listening.fileno()), *imports],
                pass_fds=[listening.fileno()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,  # sys.stdout is made for it, and does not seek in the pipes of commands
                env={**environment, "JE_ARROW_MALLOC_CONF": "background_thread:false"},
            )
        atexit.register(self._process.communicate)  # closes its stdin


def is_forkable(request: dict) -> bool:
    """Whether a command may start from what was imported before: its own first act would be to import that."""
    kind = "".join(request["command"][:1])
    known = kind in ("-m", "-c") or kind.endswith(".py")
    launches = request["command"][1:2] == ["torch.distributed.run"] or "RANK" in request["environment"]
    return known and not CUDA and not launches


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
    """Forks a keeper for every request. Returns only in the command that this forks, with its command line."""
    listening = socket.socket(fileno=int(sys.argv[1]))
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for pytest and the command
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the keepers
    logging.disable()
    for name in (*PRELOADED, *sys.argv[2:]):
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
    watched: list[Any] = [0, listening]
    while listening in select.select(watched, [], [])[0]:  # stdin is closed when the tests end
        client, _ = listening.accept()
        if os.fork() == 0:
            listening.close()
            return keep(client)
        client.close()
    os._exit(0)


def keep(client: socket.socket) -> list[str]:
    """Forks the command that a client asks for, waits for it, and answers with its process and its exit code."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    files = socket.recv_fds(client, 1, 3)[1]
    with client.makefile("r") as lines:
        request = json.loads(lines.readline())
    if not is_forkable(request):
        client.sendall(b"0\n")
        os._exit(0)
    pid = os.fork()
    if pid == 0:
        client.close()
        become(request, files)
        return request["command"]
    for file in files:
        os.close(file)
    with contextlib.suppress(BrokenPipeError):
        client.sendall(b"%d\n" % pid)
        watched: list[Any] = [client, os.pidfd_open(pid)]
        if client in select.select(watched, [], [])[0]:  # who asked was killed
            os.kill(pid, signal.SIGKILL)
        client.sendall(b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    os._exit(0)


def become(request: dict, files: Sequence[int]) -> None:
    """Gives this process the place, the environment and the files of a command, and what is drawn at random."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.executable = request["python"]
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    os.environ.pop("TRUNEG_FAIRSEQ_PARENT", None)  # the parent is the keeper
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
