"""One process at a time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from ..errors import TrueNegError


@contextlib.contextmanager
def alone(lock: Path, what: str, patience: float = 0) -> Iterator[None]:
    """Holds a lock that ends with this process, however that ends.

    Args:
        lock: its file, in a folder that is there.
        what: what another process that holds it does, for the message: "RUN: another process trains there".
        patience: seconds to wait for the other process.
    """
    held = FileLock(lock, timeout=patience)
    try:
        held.acquire()
    except Timeout:
        raise TrueNegError(f"{what}; wait for its end, or end it and start again") from None
    except OSError as error:
        raise TrueNegError(f"{lock.parent}: cannot be written ({error.strerror}); choose another folder") from None
    try:
        yield
    finally:
        held.release()
