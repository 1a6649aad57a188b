"""Stand-ins of ``python``, ``truneg`` and fairseq's commands for shell scripts: what they start is forked."""

from __future__ import annotations

import contextlib
import json
import socketserver
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from .commands import TRUNEG
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


@contextlib.contextmanager
def stand_ins(folder: Path) -> Iterator[Path]:
    """Fills a new folder, for the front of ``PATH``."""
    folder.mkdir()
    address = str(folder / "socket")
    for name, command in COMMANDS.items():
        (folder / name).write_text(STAND_IN.format(python=sys.executable, address=address, command=list(command)))
        (folder / name).chmod(0o755)
    with socketserver.ThreadingUnixStreamServer(address, _Request) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield folder
        server.shutdown()
