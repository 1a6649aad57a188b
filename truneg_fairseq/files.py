"""Files: their checksums, and writing them so that a half-written one is never seen."""

from __future__ import annotations

import bz2
import contextlib
import errno
import glob
import gzip
import hashlib
import io
import json
import lzma
import math
import os
import secrets
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from filelock import FileLock

from .errors import TrueNegError, reason

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# A link from here, such as /dev/stdout, names an open file, which must not be replaced by another.
_DEVICES = Path("/dev")
_LOCK = "lock"  # in a folder that is being filled
_OPEN_FILES = {_DEVICES / "fd", Path("/proc")}


def file_digest(path: Path) -> str:
    """The SHA-256 (hexadecimal) of a file's bytes."""
    if path.is_fifo():  # what was read of it before is gone, and would be left out
        raise TrueNegError(f"{path}: is a pipe, which can be read only once; expected a file")
    digest = hashlib.sha256()
    try:
        with path.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    except OSError as error:
        raise TrueNegError(f"{path}: cannot be read ({reason(error)}); expected a file") from None
    return digest.hexdigest()


def _zstandard(stream: Any) -> Any:
    import pyarrow  # others stop at the end of the first frame

    return pyarrow.CompressedInputStream(pyarrow.PythonFile(stream), "zstd")


_PACKED: dict[bytes, Callable[[Any], Any]] = {
    **{b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\0": lzma.open},
    b"\x28\xb5\x2f\xfd": _zstandard,
}
"""How to read what begins so, whatever its name."""


@contextlib.contextmanager
def unpacking(name: object, raw: Any) -> Iterator[io.BufferedReader]:
    """The content of a stream, unpacked where it is gzip, bzip2, xz or Zstandard; damage is one line with the name."""
    stream = io.BufferedReader(raw, 1 << 22)
    try:
        beginning = stream.peek(8)
        unpack = next((each for magic, each in _PACKED.items() if beginning.startswith(magic)), None)
        yield stream if unpack is None else io.BufferedReader(unpack(stream), 1 << 22)
    except (EOFError, OSError, lzma.LZMAError, zlib.error) as error:
        if getattr(error, "strerror", None):  # of the disk
            raise
        raise TrueNegError(f"{name}: is truncated or damaged ({reason(error)}); get the file again") from None


def without_nan(content: Any) -> Any:
    """The same with null for NaN and infinities, which JSON does not have."""
    if isinstance(content, dict):
        return {name: without_nan(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [without_nan(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def json_line(record: Any) -> str:
    """A record as a line of a file of JSON lines, without its end."""
    return json.dumps(without_nan(record), ensure_ascii=False, allow_nan=False)


def make_output_folder(folder: Path) -> None:
    """Makes a folder and its parents where they are missing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TrueNegError(f"{folder}: cannot be made a folder ({reason(error)}); choose another one") from None


def is_new(folder: Path) -> bool:
    """Whether nothing is there yet, or an empty folder that a finished one can be renamed to."""
    if not folder.is_dir() or folder.is_symlink() or folder.is_mount():
        return not folder.exists()
    return not any(folder.iterdir())


@contextlib.contextmanager
def replacing_file(path: Path, *, durable: bool = False, follow_link: bool = True) -> Iterator[BinaryIO]:
    """A stream that becomes the file ``path`` when the block ends well, and leaves nothing when it fails.

    Devices, pipes and links to open files (``/dev/stdout``) are written directly. ``durable`` waits until the disk has
    the file, so that it survives a crash of the machine. Of a symbolic link the file that it names is replaced, or,
    without ``follow_link``, the link.
    """
    target = path.resolve() if follow_link else path.parent.resolve() / path.name
    open_file = path.absolute().parent == _DEVICES or _OPEN_FILES & set(path.absolute().parents)
    if open_file or (target.exists() and not target.is_file()):
        with writing(path), path.open("wb") as stream:
            yield stream
        return
    # Machines that share a folder may have the same process numbers; "x" follows no link that lies there.
    part = target.with_name(f".{target.name}.{secrets.token_hex(8)}.part")
    with writing(path), contextlib.ExitStack() as stack:
        stack.callback(part.unlink, missing_ok=True)
        with part.open("xb") as stream:
            yield stream
            if durable:
                stream.flush()
                os.fsync(stream.fileno())
        part.replace(target)
        if durable:
            folder = os.open(target.parent, os.O_RDONLY)
            stack.callback(os.close, folder)
            with contextlib.suppress(OSError):  # some network file systems cannot; the file's own bytes are safe
                os.fsync(folder)


@contextlib.contextmanager
def replacing_text(path: Path) -> Iterator[TextIO]:
    """:func:`replacing_file` for UTF-8 text."""
    with replacing_file(path) as stream, io.TextIOWrapper(stream, encoding="utf-8", newline="\n") as text:
        yield text


@contextlib.contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A folder to fill that takes the name ``folder`` when the block ends well, and leaves nothing when it fails.

    What a killed process left of an earlier one is removed; a living one holds the lock in its own.
    """
    make_output_folder(folder.parent)
    staging = tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-", suffix=".part")
    with writing(folder), staging as name, contextlib.ExitStack() as held:
        with contextlib.suppress(OSError, NotImplementedError):  # a file system without locks
            held.enter_context(FileLock(Path(name, _LOCK), timeout=0))
        for left in folder.parent.glob(f".{glob.escape(folder.name)}-????????.part"):
            with contextlib.suppress(OSError, NotImplementedError), FileLock(left / _LOCK, timeout=0):
                shutil.rmtree(left)
        filled = Path(name) / folder.name
        filled.mkdir()
        yield filled
        filled.rename(folder)


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns what goes wrong while a file is written into one line."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        own = (path.parent, path.resolve().parent)
        if error.filename is not None and Path(os.fsdecode(error.filename)).parent not in own:
            raise
        hint = "free space there, or choose another folder" if error.errno in _FULL else "choose another folder"
        raise TrueNegError(f"{path}: cannot be written ({reason(error)}); {hint}") from None
