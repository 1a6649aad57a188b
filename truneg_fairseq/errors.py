"""Errors that a user can act on, and how they leave a command."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


class TrueNegError(Exception):
    """A problem the user can solve.

    The message is one line: it names the file or flag, says what was found and what was expected, and what to do.
    """


@contextlib.contextmanager
def one_line_errors() -> Iterator[None]:
    """Turns a :class:`TrueNegError` into that one line on stderr and exit code 1.

    fairseq's commands print a traceback for every exception but ``SystemExit``, hence the conversion at the places
    where fairseq calls this package.

    Raises:
        SystemExit: in place of any :class:`TrueNegError`.
    """
    try:
        yield
    except TrueNegError as error:
        raise SystemExit(f"truneg_fairseq: error: {error}") from None
