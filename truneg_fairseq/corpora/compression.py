"""Compressed files as streams of bytes that never end early without an error."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import tarfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import TrueNegError, reason
from ..parallel import Advance

_READ_BYTES = 1 << 20
_PIECE_BYTES = 1 << 12  # decompressed at once: of a file that is made to fill memory, some 200 MB at most
_LARGEST_WINDOW = 1 << 31  # bytes; of "zstd --long=31"

COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst")
"""The endings that :func:`open_compressed` understands."""


@contextlib.contextmanager
def open_compressed(path: Path, advance: Advance) -> Iterator[BinaryIO]:
    """The uncompressed bytes of a file, by its ending; one with another ending is read as it is.

    Args:
        path: the file.
        advance: called with the bytes of the file itself as they are read.
    """
    try:
        with _Counted(path, advance) as raw, io.BufferedReader(raw, _READ_BYTES) as buffered:
            yield _decompressed(path, buffered)
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, tarfile.TarError) as error:
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
        return io.BufferedReader(_Streams(stream, bz2.BZ2Decompressor, OSError), _READ_BYTES)
    if path.suffix == ".xz":
        return io.BufferedReader(_Streams(stream, lzma.LZMADecompressor, lzma.LZMAError, padding=b"\0"), _READ_BYTES)
    if path.suffix == ".zst":
        try:
            import zstandard
        except ImportError:
            raise TrueNegError(f"{path}: .zst needs the package zstandard; pip install zstandard") from None
        decompressor = zstandard.ZstdDecompressor(max_window_size=_LARGEST_WINDOW)
        return io.BufferedReader(_Streams(stream, decompressor.decompressobj, zstandard.ZstdError), _READ_BYTES)
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


class _Streams(io.RawIOBase):
    """Compressed streams one after another.

    Python's readers of bz2 and xz take for the end what follows a stream and is none, zstandard's also a truncated one.

    Args:
        stream: the compressed bytes.
        start: makes the decompressor of a stream.
        error: what it raises for data that are none.
        padding: what may lie between streams.

    Raises:
        EOFError: while it is read; the file ends inside a stream, or has other data.
    """

    def __init__(
        self, stream: BinaryIO, start: Callable[[], Any], error: type[Exception], *, padding: bytes = b""
    ) -> None:
        self._stream, self._start, self._error, self._padding = stream, start, error, padding
        self._decompressor: Any = None
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
        data = self._waiting or self._stream.read(_PIECE_BYTES)
        self._waiting = b""
        if not data:
            if self._decompressor is not None:
                raise EOFError("the file ends inside a stream")
            return False
        if self._decompressor is None:
            data = data.lstrip(self._padding) if self._padding else data
            if not data:
                return True
            self._decompressor = self._start()
        try:
            self._ready = memoryview(self._decompressor.decompress(data))
        except self._error as error:
            raise EOFError(str(error)) from None
        if self._decompressor.eof:
            self._waiting, self._decompressor = self._decompressor.unused_data, None
        return True
