"""A real headless Chromium, driven over a pipe by its DevTools protocol: no package, no open port."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

PHONE, DESKTOP = 390, 1280
_READ, _WRITE = 3, 4  # the descriptors that --remote-debugging-pipe reads and writes
_TIMEOUT = 90.0


class Browser:
    """One tab. ``problems`` has what its console said of errors, and what it asked the network for."""

    def __init__(self, profile: Path) -> None:
        chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
        if chromium is None:
            pytest.skip("no Chromium is installed here (Debian: apt-get install chromium)")
        self._commands, theirs_in = os.pipe()[::-1]
        theirs_out, self._answers = os.pipe()[::-1]
        # The shell puts the ends of the pipes where Chromium looks for them.
        moved = f'exec {_READ}<&{theirs_in} {_WRITE}>&{theirs_out}; exec "$@"'
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage"]
        flags += [f"--user-data-dir={profile}", "--remote-debugging-pipe", "--hide-scrollbars", "about:blank"]
        self._process = subprocess.Popen(
            ["bash", "-c", moved, "chromium", chromium, *flags],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._number, self._buffer, self._session = 0, b"", None
        self.problems: list[str] = []
        self._loaded = False
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")

    def open(self, page: Path, width: int = DESKTOP, *, dark: bool = False) -> None:
        """Loads a file anew and waits until it is there."""
        self.problems.clear()
        self._call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width == PHONE
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])
        self._loaded = False
        self._call("Page.navigate", url=page.resolve().as_uri())
        end = time.monotonic() + _TIMEOUT
        while not self._loaded and time.monotonic() < end:
            self._receive(end)

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression."""
        result = self._call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def press(self, key: str, code: int) -> None:
        """Presses a key: "Tab" 9, "Enter" 13."""
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self._call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **text)

    def type(self, text: str) -> None:
        """Types into what has the focus."""
        self._call("Input.insertText", text=text)

    def close(self) -> None:
        """Ends the browser."""
        os.close(self._commands)
        os.close(self._answers)
        self._process.terminate()
        self._process.wait(timeout=30)

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        number = self._number
        message = {"id": number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + _TIMEOUT
        while True:
            answer = self._receive(end)
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]

    def _receive(self, end: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._answers], [], [], max(0.0, end - time.monotonic()))
            assert ready, "Chromium does not answer"
            part = os.read(self._answers, 1 << 20)
            assert part, "Chromium has ended"
            self._buffer += part
        line, self._buffer = self._buffer.split(b"\0", 1)
        message = json.loads(line)
        self._note(message.get("method"), message.get("params", {}))
        return message

    def _note(self, method: str | None, params: dict[str, Any]) -> None:
        if method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Runtime.exceptionThrown":
            self.problems.append(str(params["exceptionDetails"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.problems.append(params["entry"]["text"])
        elif method == "Runtime.consoleAPICalled":
            self.problems.append(str(params["args"]))
        elif method == "Network.requestWillBeSent" and not params["request"]["url"].startswith("file:"):
            self.problems.append(params["request"]["url"])
