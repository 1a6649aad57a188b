"""Compressed files as streams of bytes that never end early without an error."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import TrueNegError, reason
from ..parallel import Advance

_READ_BYTES = 1 << 20
_LARGEST_WINDOW = 1 << 31  # bytes; of "zstd --long=31"

COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst")
"""The endings that :func:`open_compressed` understands."""


@contextlib.contextmanager
def open_compressed(path: Path, advance: Advance) -> Iterator[BinaryIO]:
    """The uncompressed bytes of a file, by its ending; one with another ending is read as it is.

    Args:
        path: the file.
        advance: called with the bytes of the file itself as they are read.

    Raises:
        TrueNegError: the file cannot be read, is truncated or broken, also while the caller reads; or ``.zst`` without
            the package zstandard.
    """
    try:
        with _Counted(path, advance) as raw, io.BufferedReader(raw, _READ_BYTES) as buffered:
            yield _decompressed(path, buffered)
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, tarfile.TarError, _BrokenZstandard) as error:
        raise TrueNegError(
            f"{path}: is truncated or broken ({reason(error).rstrip('.')}); get the file again"
        ) from None
    except OSError as error:
        if error.errno is None:  # of bz2, for broken data
            raise TrueNegError(f"{path}: is truncated or broken ({error}); get the file again") from None
        if error.filename not in (None, str(path)):
            raise
        raise TrueNegError(f"{path}: cannot be read ({reason(error)})") from None


def _decompressed(path: Path, stream: BinaryIO) -> BinaryIO:
    if path.suffix == ".gz":
        return io.BufferedReader(gzip.GzipFile(fileobj=stream), _READ_BYTES)
    if path.suffix == ".bz2":
        return io.BufferedReader(bz2.BZ2File(stream), _READ_BYTES)
    if path.suffix == ".xz":
        return io.BufferedReader(lzma.LZMAFile(stream), _READ_BYTES)
    if path.suffix == ".zst":
        return io.BufferedReader(_Zstandard(path, stream), _READ_BYTES)
    return stream


class _Counted(io.FileIO):
    """A file that tells how much of it is read."""

    def __init__(self, path: Path, advance: Advance) -> None:
        super().__init__(path)
        self._advance = advance

    def readinto(self, buffer: Any) -> int | None:
        count = super().readinto(buffer)
        if count:
            self._advance(count)
        return count


class _BrokenZstandard(Exception):
    """The data are not complete zstandard frames."""


class _Zstandard(io.RawIOBase):
    """Zstandard frames; zstandard's own reader takes a truncated frame for the end of the file."""

    def __init__(self, path: Path, stream: BinaryIO) -> None:
        try:
            import zstandard
        except ImportError:
            raise TrueNegError(f"{path}: .zst needs the package zstandard; pip install zstandard") from None
        self._zstandard = zstandard
        self._stream = stream
        self._frame: Any = None
        self._waiting = b""
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            if not self._fill():
                return 0
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def _fill(self) -> bool:
        """Decompresses the next bytes; False at the end of the file."""
        data = self._waiting or self._stream.read(1 << 17)
        if not data:
            if self._frame is not None:
                raise _BrokenZstandard("the file ends inside a frame")
            return False
        if self._frame is None:
            self._frame = self._zstandard.ZstdDecompressor(max_window_size=_LARGEST_WINDOW).decompressobj()
        try:
            self._ready = memoryview(self._frame.decompress(data))
        except self._zstandard.ZstdError as error:
            raise _BrokenZstandard(str(error)) from None
        self._waiting = self._frame.unused_data if self._frame.eof else b""
        if self._frame.eof:
            self._frame = None
        return True
