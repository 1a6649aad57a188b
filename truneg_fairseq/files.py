"""Writing files so that a half-written one is never seen."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, TextIO

from .errors import TrueNegError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def make_output_folder(folder: Path) -> None:
    """Makes a folder and its parents where they are missing.

    Raises:
        TrueNegError: it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TrueNegError(f"{folder}: cannot be made a folder ({error.strerror}); choose another one") from None


@contextlib.contextmanager
def replacing_file(path: Path, *, durable: bool = False) -> Iterator[BinaryIO]:
    """A stream that becomes the file ``path`` when the block ends well, and leaves nothing when it fails.

    Args:
        path: the file.
        durable: wait until the disk has it, so that it survives a crash of the machine.

    Raises:
        TrueNegError: the folder cannot be written, or the disk is full.
    """
    # Machines that share a folder may have the same process numbers.
    part = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        with writing(path):
            with part.open("wb") as stream:
                yield stream
                if durable:
                    stream.flush()
                    os.fsync(stream.fileno())
            part.replace(path)
            if durable:
                _sync_folder(path.parent)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError:
        pass  # some network file systems cannot; the file's own bytes are safe
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def replacing_text(path: Path) -> Iterator[TextIO]:
    """:func:`replacing_file` for UTF-8 text.

    Raises:
        TrueNegError: the folder cannot be written, or the disk is full.
    """
    with replacing_file(path) as stream, io.TextIOWrapper(stream, encoding="utf-8", newline="\n") as text:
        yield text


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns what goes wrong while a file is written into one line.

    Raises:
        TrueNegError: in place of an :class:`OSError`, unless that names a file of another folder.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.filename is not None and Path(os.fsdecode(error.filename)).parent != path.parent:
            raise
        hint = "free space there, or choose another folder" if error.errno in _FULL else "choose another folder"
        raise TrueNegError(f"{path}: cannot be written ({error.strerror}); {hint}") from None
