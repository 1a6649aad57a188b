"""Progress on stderr: a bar on a terminal, a line now and then in a log file."""

from __future__ import annotations

import sys
import time
from typing import Any

from tqdm import tqdm

SECONDS_A_LINE = 30.0


class Progress(tqdm):
    """tqdm's bar; where stderr is not a terminal, a line every half minute, and one at the end of what took longer.

    Arguments are those of tqdm.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("file", sys.stderr)
        self._drawn = kwargs["file"].isatty()
        self._began = self._printed = time.monotonic()
        if not self._drawn:
            kwargs |= {"mininterval": SECONDS_A_LINE, "maxinterval": SECONDS_A_LINE, "ncols": 0, "leave": False}
        super().__init__(*args, **kwargs)

    def display(self, msg: str | None = None, pos: int | None = None) -> bool | None:
        """Draws the bar, or prints its line where there is something to tell."""
        if self._drawn:
            shown: bool | None = super().display(msg, pos)
            return shown
        now = time.monotonic()
        waited = now - (self._began if msg == "" else self._printed)  # "" at its end
        if waited > SECONDS_A_LINE:
            self._printed = now
            self.fp.write(f"{self}\n")
            self.fp.flush()
        return None

    def clear(self, nolock: bool = False) -> None:
        """Makes room for another line on a terminal."""
        if self._drawn:
            super().clear(nolock)
