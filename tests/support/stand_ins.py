"""Shell scripts in which ``python``, ``truneg`` and fairseq's commands are stand-ins: what they start is forked."""

from __future__ import annotations

import json
import os
import socketserver
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from .commands import TRUNEG, command_environment
from .forks import ForkedCommand

FAIRSEQ = {f"fairseq-{name}": ("-m", f"fairseq_cli.{name}") for name in ("train", "generate", "preprocess")}
COMMANDS: dict[str, tuple[str, ...]] = {"python": (), "truneg": TRUNEG, **FAIRSEQ}
STAND_IN = """\
#!{python} -IS
import json, os, socket, sys
command = {command!r} + sys.argv[1:]
if command[0] not in ("-m", "-c") and not command[0].endswith(".py"):
    os.execv({python!r}, [{python!r}, *command])
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
request = [os.getpid(), os.getcwd(), dict(os.environ), command]
server.sendall(json.dumps(request).encode() + b"\\n")
sys.exit(int(server.makefile().readline()))
"""


class _Request(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        pid, cwd, environment, command = json.loads(self.rfile.readline())
        stdin, stdout, stderr = (f"/proc/{pid}/fd/{number}" for number in range(3))
        process = ForkedCommand(command, environment, cwd, stdout, stderr, stdin)
        self.wfile.write(b"%d\n" % process.wait())


def run_bash(*arguments: object, cwd: Path, commands: Sequence[Path] = (), **environment: str) -> str:
    """What bash prints; it finds the commands of other folders first, and then the stand-ins."""
    with tempfile.TemporaryDirectory() as name:
        folder, address = Path(name), f"{name}/socket"
        for program, command in COMMANDS.items():
            stand_in = STAND_IN.format(python=sys.executable, address=address, command=list(command))
            (folder / program).write_text(stand_in)
            (folder / program).chmod(0o755)
        path = [*commands, folder, Path(sys.executable).parent, os.environ["PATH"]]
        with socketserver.ThreadingUnixStreamServer(address, _Request) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            done = subprocess.run(
                ["bash", *map(str, arguments)],
                cwd=cwd,
                env=command_environment(PATH=os.pathsep.join(map(str, path)), **environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            server.shutdown()
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout
