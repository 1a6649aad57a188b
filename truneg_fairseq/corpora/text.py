"""Lines of UTF-8 text files, whole files or ranges of their bytes, in bounded memory."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ..errors import TrueNegError, reason

MAX_LINE_BYTES = 64 << 20
"""A longer line is taken for a file without line ends."""

BROKEN_UTF8 = ("error", "replace", "skip")
"""What can be done about a line that is not UTF-8: stop, put U+FFFD where it is broken, or leave the line out."""


@dataclass(frozen=True)
class Chunk:
    """The lines of a file that begin at the bytes ``start`` to ``end`` - 1."""

    path: Path
    start: int
    end: int
    before_other: bool = False  # the file ends here, and another one follows


@dataclass
class BrokenLines:
    """Lines that were not UTF-8, by what was done about them."""

    replaced: int = 0
    skipped: int = 0


def plan_chunks(files: Sequence[Path], chunk_bytes: int) -> list[Chunk]:
    """Cuts files into ranges of ``chunk_bytes`` bytes, the last one of a file shorter. Nothing is read."""
    return [
        Chunk(path, start, min(start + chunk_bytes, size), start + chunk_bytes >= size and number < len(files))
        for number, path in enumerate(files, start=1)
        for size in [path.stat().st_size]
        for start in range(0, size, chunk_bytes)
    ]


def read_chunk(chunk: Chunk, broken_utf8: str, broken: BrokenLines) -> Iterator[tuple[str, int]]:
    """The lines of a chunk, each with its size in bytes; :func:`read_stream` says what a line is.

    Args:
        chunk: where the lines begin; the last one may end behind it.
        broken_utf8: one of :data:`BROKEN_UTF8`.
        broken: counts what was done about lines that are not UTF-8.
    """
    try:
        with chunk.path.open("rb") as stream:
            start = chunk.start
            if start > 0:
                # The line that is under way belongs to the chunk before, unless it ends just there.
                stream.seek(start - 1)
                start += len(_read_line(stream, str(chunk.path), start - 1)) - 1
            yield from read_stream(stream, str(chunk.path), broken_utf8, broken, start=start, end=chunk.end)
    except OSError as error:
        raise TrueNegError(f"{chunk.path}: cannot be read ({reason(error)})") from None


def read_stream(
    stream: BinaryIO, name: str, broken_utf8: str, broken: BrokenLines, *, start: int = 0, end: int | None = None
) -> Iterator[tuple[str, int]]:
    """The lines of a stream without their ends, each with its size in bytes.

    Only a line feed ends a line, with a carriage return before it or not; form feeds and the like stay inside. A byte
    order mark at the start is not part of the first line.

    Args:
        stream: the bytes, from ``start`` on.
        name: what a message calls the stream.
        broken_utf8: one of :data:`BROKEN_UTF8`.
        broken: counts what was done about lines that are not UTF-8.
        start: where the stream stands.
        end: lines that begin there and later are left; None reads all.
    """
    position = start
    while end is None or position < end:
        raw = _read_line(stream, name, position)
        if not raw:
            if end is None:
                return
            raise TrueNegError(
                f"{name}: ends at byte {position:,}, expected {end:,}; it became shorter while it was read"
            )
        mark = len(codecs.BOM_UTF8) if position == 0 and raw.startswith(codecs.BOM_UTF8) else 0
        line = _decode(name, position + mark, raw[mark:], broken_utf8, broken)
        if line is not None:
            yield line.rstrip("\r\n"), len(raw)
        position += len(raw)


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a file without their ends. Only a line feed ends a line: form feeds and the like stay inside."""
    try:
        with path.open("rb") as stream:
            for number, raw in enumerate(stream, start=1):
                try:
                    yield raw.decode("utf-8").rstrip("\r\n")
                except UnicodeDecodeError as error:
                    raise TrueNegError(
                        f"{path}: line {number} is not UTF-8 ({error.reason} at its byte {error.start + 1}); convert "
                        "the file to UTF-8"
                    ) from None
    except OSError as error:
        raise TrueNegError(f"{path}: cannot be read ({reason(error)})") from None


def _read_line(stream: BinaryIO, name: str, position: int) -> bytes:
    raw = stream.readline(MAX_LINE_BYTES + 1)
    if len(raw) > MAX_LINE_BYTES:
        raise TrueNegError(
            f"{name}: the line at byte {position:,} is longer than {MAX_LINE_BYTES >> 20} MiB; expected text with line "
            "feeds, a sentence, paragraph or document a line"
        )
    return raw


def _decode(name: str, position: int, raw: bytes, broken_utf8: str, broken: BrokenLines) -> str | None:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        if broken_utf8 == "replace":
            broken.replaced += 1
            return raw.decode("utf-8", errors="replace")
        if broken_utf8 == "skip":
            broken.skipped += 1
            return None
        raise TrueNegError(
            f"{name}: not UTF-8 at byte {position + error.start:,} ({error.reason}); convert the file, or add "
            "--broken-utf8 replace or skip"
        ) from None
