"""One training at a time in a folder."""

from __future__ import annotations

import errno
import json
import logging
import os
import socket
from pathlib import Path
from typing import Any

from ..errors import TrueNegError
from ..files import writing

logger = logging.getLogger(__name__)

LOCK_NAME = ".training.lock"
_HELD = (errno.EACCES, errno.EAGAIN)


def lock_folder(folder: Path) -> None:
    """Takes a POSIX record lock on a file of the folder.

    It ends with its process, however that ends. Processes that are forked from it do not inherit it, so workers that
    read data and outlive a kill by seconds do not hold it. Network file systems carry it between machines where their
    lock service runs (NFS, Lustre with -o flock, GPFS); where a file system has no locks, a warning says so.
    """
    import fcntl

    with writing(folder / LOCK_NAME):
        folder.mkdir(parents=True, exist_ok=True)
        # The file stays at the end: removing it would let two processes lock two files.
        file = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(file)
            if error.errno not in _HELD:
                logger.warning(f"{folder}: its file system has no locks ({error.strerror}); start one training there")
                return
            facts = holder(folder)
            who = f"process {facts.get('pid')} on {facts.get('host')}" if facts else "another process"
            raise TrueNegError(
                f"--save-dir {folder}: {who} is training there; wait for its end, or choose another folder"
            ) from None
        os.ftruncate(file, 0)
        os.write(file, json.dumps({"host": socket.gethostname(), "pid": os.getpid()}).encode() + b"\n")


def holder(folder: Path) -> dict[str, Any]:
    """Host and process that has, or had, the lock; {} where that is unknown."""
    try:
        return dict(json.loads((folder / LOCK_NAME).read_text()))
    except (OSError, ValueError):  # it is being written
        return {}


def is_held(folder: Path) -> bool:
    """Whether a training is at work in a folder. Not to be asked by the process that has its lock."""
    import fcntl

    # A shared lock is refused where the training has its own, and may be asked for with permission to read alone.
    try:
        file = os.open(folder / LOCK_NAME, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in _HELD
    finally:
        os.close(file)
    return False
