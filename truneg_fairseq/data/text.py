"""Lines of UTF-8 text files, whole files or ranges of their bytes, in bounded memory; and files of rows."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from ..errors import TrueNegError, require

MAX_LINE_BYTES = 16 << 20
"""A longer line is taken for a file without line ends: tokenizers need a hundred bytes for each of its own."""

JSON_LINE = re.compile(rb'\s*(\{\s*("|$)|\[\s*(\{|$))')
"""How JSON begins, objects of lines too, whatever the file is called."""
_NOT_PLAIN = (".gz", ".bz2", ".xz", ".zst", ".zip", ".tar", ".json", ".jsonl", ".ndjson", ".csv", ".parquet")


@dataclass(frozen=True)
class Span:
    """The lines of a file that begin at the bytes ``start`` to ``end`` - 1."""

    path: Path
    start: int
    end: int
    before_other: bool = False  # the file ends here, and another one follows


class Line(NamedTuple):
    text: str  # without its end
    size: int  # bytes in the file
    replaced: bool  # it was not UTF-8: the broken bytes are U+FFFD now


def plan_chunks(files: Sequence[Path], chunk_bytes: int) -> list[list[Span]]:
    """Cuts files into ranges of ``chunk_bytes`` bytes, and joins small ones to about as much. Nothing is read."""
    chunks: list[list[Span]] = []
    room = 0
    for number, path in enumerate(files, start=1):
        size = path.stat().st_size
        for start in range(0, size, chunk_bytes):
            end = min(start + chunk_bytes, size)
            span = Span(path, start, end, before_other=end == size and number < len(files))
            if chunks and end - start <= room:
                chunks[-1].append(span)
            else:
                chunks.append([span])
                room = chunk_bytes
            room -= end - start
    return chunks


def read_span(span: Span) -> Iterator[Line]:
    """The lines of a span; the last one may end behind it.

    Only a line feed ends a line, with a carriage return before it or not; form feeds and the like stay inside. A byte
    order mark at the start is not part of the first line.
    """
    with span.path.open("rb") as stream:
        position = span.start
        if position > 0:
            # The line that is under way belongs to the span before, unless it ends just there.
            stream.seek(position - 1)
            position += len(_read_line(stream, span.path, position - 1)) - 1
        while position < span.end and (raw := _read_line(stream, span.path, position)):
            content = raw.removeprefix(codecs.BOM_UTF8) if position == 0 else raw
            text = content.decode(errors="replace")
            replaced = "\ufffd" in text and text.encode() != content
            yield Line(text.rstrip("\r\n"), len(raw), replaced)
            position += len(raw)


def require_plain(path: Path) -> None:
    """Refuses what would be read as text and is something else: packed files, JSON lines, tables, binary files."""
    with path.open("rb") as stream:
        _check_plain(path, stream.readline(1 << 20).removeprefix(codecs.BOM_UTF8))


def _check_plain(path: Path, first: bytes) -> None:
    if path.suffix.lower() in _NOT_PLAIN or JSON_LINE.match(first) or first.startswith(b"<doc id=") or b"\0" in first:
        raise TrueNegError(f"{path}: is not plain text; make it so with data-bin-scripts/extract_corpus.py first")


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a file of plain text without their ends, and without a byte order mark.

    Only a line feed ends a line: form feeds and the like stay inside.
    """
    with path.open("rb") as stream:
        yield from lines_of(stream, path)


def lines_of(stream: Iterable[bytes], path: Path) -> Iterator[str]:
    """The same of a stream; the path is for messages."""
    for number, raw in enumerate(stream, start=1):
        if number == 1:
            raw = raw.removeprefix(codecs.BOM_UTF8)  # noqa: PLW2901
            _check_plain(path, raw)
        try:
            yield raw.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            place = f"line {number} is not UTF-8 ({error.reason} at its byte {error.start + 1})"
            raise TrueNegError(f"{path}: {place}; convert the text to UTF-8") from None


def _read_line(stream: BinaryIO, path: Path, position: int) -> bytes:
    raw = stream.readline(MAX_LINE_BYTES + 1)
    if len(raw) > MAX_LINE_BYTES:
        raise TrueNegError(
            f"{path}: the line at byte {position:,} is longer than {MAX_LINE_BYTES >> 20} MiB; expected text with line "
            "feeds, a sentence, paragraph or document a line"
        )
    return raw


def read_table(path: Path) -> Any:
    """A file of rows as Hugging Face's ``datasets`` writes them, Parquet, CSV or JSON lines: a table of pyarrow."""
    require("pyarrow")
    from pyarrow import csv, json, parquet

    if path.suffix == ".parquet":
        return parquet.read_table(path)
    if path.suffix == ".csv":
        return csv.read_csv(path, parse_options=csv.ParseOptions(newlines_in_values=True))
    return json.read_json(path)
