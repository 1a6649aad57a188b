"""Errors that a user can act on, and how they leave a command."""

from __future__ import annotations

import contextlib
import errno
import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType


class TrueNegError(Exception):
    """A problem the user can solve.

    The message is one line: it names the file or flag, says what was found and what was expected, and what to do.
    """

    def __str__(self) -> str:
        """The message; names of files and addresses may have line ends."""
        return super().__str__().replace("\n", "\\n").replace("\r", "\\r")


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


def reason(error: BaseException) -> str:
    """An error's message as one line, to be put into another message."""
    if isinstance(error, pickle.UnpicklingError):  # torch's advice would be to load it unsafely
        unsafe = re.search(r"GLOBAL (\S+)", str(error))
        return f"it needs {unsafe[1]}, which is not safe to load" if unsafe else "it is not a file of torch.save"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return (str(error).strip() or type(error).__name__).splitlines()[0]


_ADVICE = {
    errno.EACCES: "change its permissions, or name another one",
    errno.EPERM: "change its permissions, or name another one",
    errno.EROFS: "name a place that can be written",
    errno.ENAMETOOLONG: "give it a shorter name",
    errno.ENOENT: "check the name",
    errno.ENOTDIR: "a file is where a folder should be; check the name",
    errno.EISDIR: "a folder is where a file should be; check the name",
    errno.ENOSPC: "free space there",
    errno.EDQUOT: "free space there",
    errno.EMFILE: "raise the limit of open files (ulimit -n), or use fewer workers",
    errno.EIO: "the disk or the network failed; try again",
}


def describe(error: Exception) -> str:
    """What went wrong, as one line for the end of a command.

    An :class:`OSError` is told by its file. What nobody foresaw is told with the file that was in use, and with the
    request to report it.
    """
    if isinstance(error, TrueNegError):
        return str(error)
    file = _file_in_use(error.__traceback__)
    if isinstance(error, OSError) and error.strerror:
        name = error.filename if error.filename is not None else file
        names = str(name) if error.filename2 is None else f"{name} -> {error.filename2}"
        advice = _ADVICE.get(error.errno or 0, "see the system's message")
        return f"{names if name is not None else 'a file'}: {error.strerror}; {advice}"
    place = "" if file is None else f" while {file} was in use"
    if isinstance(error, MemoryError):
        return f"not enough memory{place}; use a smaller input or batch, or a machine with more memory"
    return (
        f"{type(error).__name__}: {reason(error)}{place}; this was not foreseen: please report it with what the same "
        "command prints with --traceback"
    )


def _file_in_use(traceback: TracebackType | None) -> Path | None:
    """The innermost path that a function of the traceback has as a variable."""
    found = None
    while traceback is not None:
        paths = [value for value in traceback.tb_frame.f_locals.values() if isinstance(value, Path)]
        found = paths[-1] if paths else found
        traceback = traceback.tb_next
    return found
