"""Errors that a user can act on, and how they leave a command."""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import pickle
import re
from collections.abc import Iterator


class TrueNegError(Exception):
    """A problem the user can solve.

    The message is one line: it names the file or flag, says what was found and what was expected, and what to do.
    """

    def __str__(self) -> str:  # names of files and addresses may have line ends
        return super().__str__().replace("\n", "\\n").replace("\r", "\\r")


def refuse(*cases: tuple[object, str]) -> None:
    """Raises the line of the first case that holds."""
    for holds, line in cases:
        if holds:
            raise TrueNegError(line)


@contextlib.contextmanager
def one_line_errors() -> Iterator[None]:
    """Turns a :class:`TrueNegError` into that one line on stderr and exit code 1.

    fairseq's commands print a traceback for every exception but ``SystemExit``, hence the conversion at the places
    where fairseq calls this package.
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
    if "allow_pickle" in str(error):  # numpy's advice is the same
        return "it is no file of arrays, or has Python objects in it"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def unreadable(error: BaseException) -> str:
    """Why a file could not be read, to be put behind its name."""
    return "no such file" if isinstance(error, FileNotFoundError) else f"cannot be read ({reason(error)[:200]})"


@contextlib.contextmanager
def reading(path: object, expected: str) -> Iterator[None]:
    """Names the file and what it should be, whatever a library raises: broken files fail in many ways."""
    try:
        yield
    except TrueNegError:
        raise
    except Exception as error:
        raise TrueNegError(f"{path}: {unreadable(error)}; expected {expected}") from None


def describe(error: Exception) -> str:
    """What went wrong, as one line for the end of a command."""
    if isinstance(error, TrueNegError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'a file'}: {error.strerror}"
    if str(error).startswith("Symlink loop"):  # pathlib's, before Python 3.13
        return f"{error}; expected a file"
    return f"{type(error).__name__}: {reason(error)}; run the same command with --traceback to see where it arose"


_OLDEST_TORCH = (2, 6)  # as in pyproject.toml

# fairseq is compiled against the torch that is there, hence two steps.
_FAIRSEQ = "pip install torch 'setuptools>=77,<82' wheel cython && pip install --no-build-isolation "


class MissingExtraError(TrueNegError, ImportError):
    """A part of the package was imported or run without what it needs."""


def installed_version(name: str) -> str | None:
    """Of a distribution; None where it is not installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def check_torch() -> str:
    """torch's version; pip lets a later command put an older one in its place than the package needs."""
    version = importlib.metadata.version("torch")
    if tuple(map(int, version.split(".")[:2])) < _OLDEST_TORCH:
        oldest = ".".join(map(str, _OLDEST_TORCH))
        raise TrueNegError(f"torch {version}: expected {oldest} or later; run pip install 'torch>={oldest}'")
    return version


def require(*modules: str, extra: str = "") -> None:
    """Refuses with a :class:`MissingExtraError` to go on without a part's modules; it has the command that installs
    the extra, or the modules themselves.
    """
    check_torch()
    for module in modules:
        if importlib.util.find_spec(module) is None:
            wanted = f"'.[{extra}]' in the clone of truneg_fairseq" if extra else module
            command = f"{_FAIRSEQ if extra == 'fairseq' else 'pip install '}{wanted}"
            raise MissingExtraError(f"{module}: not installed, and this part of truneg_fairseq needs it; run {command}")
