"""Commands that start in a second where they would import for ten, for scripts and for commands that start others.

A folder has stand-ins of ``python``, ``truneg`` and fairseq's commands. Each hands its command line, environment,
folder and files to this process, which has it forked from what is imported already (:mod:`.command_server`). To the
command, ``sys.executable`` is the stand-in of ``python``, so that what it starts is forked too. Signals are handed on,
and a stand-in that is killed takes its command along.
"""

from __future__ import annotations

import contextlib
import functools
import json
import select
import socket
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .command_server import CommandServer
from .commands import CUDA, ENVIRONMENT, SERVERS, TRUNEG

_NAMES: dict[str, Sequence[str]] = {"python": (), "truneg": TRUNEG} | {
    f"fairseq-{name}": ("-m", f"fairseq_cli.{name}") for name in ("train", "generate", "preprocess")
}
_STAND_IN = """\
#!{python} -IS
import json, os, signal, socket, sys
command = {command!r} + sys.argv[1:]
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
request = {{"command": command, "environment": dict(os.environ), "cwd": os.getcwd(), "pid": os.getpid()}}
server.sendall(json.dumps(request).encode() + b"\\n")
answers = server.makefile()
pid = int(answers.readline())
if not pid:
    os.execv({python!r}, [{python!r}, *command])
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT):
    signal.signal(number, lambda number, frame: os.kill(pid, number))
signal.pthread_sigmask(signal.SIG_SETMASK, ())
code = int(answers.readline())
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
sys.exit(code)
"""


@functools.cache
def stand_ins() -> Forwarded:
    """For commands of the tests' own environment, by the servers that run these anyway."""
    return Forwarded(ENVIRONMENT, servers=SERVERS)


class Forwarded:
    """A folder of stand-ins for one environment; ``imports`` are modules that its commands need beside fairseq."""

    def __init__(
        self, environment: dict[str, str], imports: Sequence[str] = (), servers: list[CommandServer] | None = None
    ) -> None:
        self._removed = tempfile.TemporaryDirectory(prefix="forwarded-")  # at the end of this process
        self.folder = Path(self._removed.name)
        self.python = self.folder / "python"
        self._environment, self._imports = environment, imports
        self._servers = [] if servers is None else servers
        self._choosing = threading.Lock()
        address = str(self.folder / "socket")
        for name, command in _NAMES.items():
            text = _STAND_IN.format(python=sys.executable, command=list(command), address=address)
            (self.folder / name).write_text(text)
            (self.folder / name).chmod(0o755)
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(address)
        self._socket.listen()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            stand_in, _ = self._socket.accept()
            threading.Thread(target=self._run, args=(stand_in,), daemon=True).start()

    def _run(self, stand_in: socket.socket) -> None:
        with stand_in, contextlib.suppress(BrokenPipeError, ConnectionResetError):
            request = json.loads(stand_in.makefile().readline())
            server = self._idle(request)
            if server is None:
                stand_in.sendall(b"0\n")
                return
            environment = request["environment"]
            environment.pop("TRUNEG_FAIRSEQ_PARENT", None)  # the parent is the server
            stdin, stdout, stderr = (Path(f"/proc/{request['pid']}/fd/{number}") for number in range(3))
            place, command = Path(request["cwd"]), request["command"]
            process = server.start(command, environment, stdout, stderr, place, stdin=stdin, python=self.python)
            watched: list[Any] = [stand_in, server.replies]
            try:
                stand_in.sendall(b"%d\n" % process.pid)
                if stand_in in select.select(watched, [], [])[0]:  # the stand-in was killed
                    process.kill()
            finally:
                code = process.wait()
            stand_in.sendall(b"%d\n" % code)

    def _idle(self, request: dict) -> CommandServer | None:
        """A command and the one that it starts have two; others start as ever."""
        is_known = request["command"][:1] in (["-m"], ["-c"]) or "".join(request["command"][:1]).endswith(".py")
        if CUDA or not is_known or "RANK" in request["environment"]:
            return None
        with self._choosing:
            idle = next((server for server in self._servers if not server.busy), None)
            if idle is None and len(self._servers) < 2:
                # The second one has trainings, which other commands start.
                idle = CommandServer(self._environment, () if self._servers else self._imports)
                self._servers.append(idle)
            if idle is not None:
                idle.busy = True
            return idle
