"""Files of text to documents: local or remote, compressed or not, one document in memory.

What a file holds is known by its content, and only then by its name. ``fsspec``, which Hugging Face's ``datasets``
brings, opens them: paths, s3://, hf:// and https:// addresses.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, pairwise
from pathlib import Path, PurePosixPath
from typing import Any

from ..errors import TrueNegError, reason, require
from ..files import unpacked
from .text import JSON_LINE

Documents = Iterator[list[str]]
"""The lines of each document; their ends may be left."""

_COMPRESSED = (".gz", ".bz2", ".xz", ".zst", ".zstd")
_JSON = (".json", ".jsonl", ".jsonlines", ".ndjson")
_USUAL = (".txt", ".raw", ".parquet", *_JSON)
_TITLE = re.compile(r" ?= [^=].* = ?")
_OTHERS = (".xml", ".tar", ".tgz", ".zip", ".csv", ".tsv", ".html")
_LOOKED_AT = 1 << 12  # bytes of a file, to know a binary one
_SURROGATES = re.compile("[\ud800-\udfff]")


def find_files(address: str) -> list[tuple[str, int]]:
    """The files, with their sizes, that an address names: a file, a pattern, or a folder with all below it.

    Of a folder those with the usual names; where none has one, those without any ending. Hidden files are passed over.
    """
    import fsspec

    filesystem, path = fsspec.url_to_fs(address)
    pattern = any(character in path for character in "*?[") and not filesystem.exists(path)
    found = filesystem.glob(path, detail=True) if pattern else filesystem.find(path, detail=True)
    found = {name: facts or filesystem.info(name) for name, facts in found.items()}  # HTTP's have no facts
    shown = {
        name: facts["size"]
        for name, facts in found.items()
        if facts["type"] == "file" and (pattern or name == path or "/." not in name.removeprefix(path))
    }
    usual = [name for name in shown if name == path or _ending(name) in _USUAL]
    usual = usual or [name for name in shown if not _ending(name)]
    if not usual or _ending(path) in _OTHERS:
        wanted = f"expected a file or folder of {', '.join(_USUAL)}, as they are or compressed"
        raise TrueNegError(f"{address}: {wanted if found else 'no such file or folder'}")
    return [(filesystem.unstrip_protocol(name), shown[name]) for name in sorted(usual) if shown[name] != 0]


def read_documents(address: str) -> Documents:
    """The documents of a file that :func:`find_files` found: rows, JSON lines, or text between blank lines."""
    import fsspec

    with fsspec.open(address, "rb") as raw:
        stream = unpacked(address, raw)
        if _ending(address) == ".parquet":
            yield from _read_parquet(raw, address)
            return
        if b"\0" in stream.peek(_LOOKED_AT)[:_LOOKED_AT]:
            raise TrueNegError(f"{address}: is a binary file, or text in UTF-16; expected text in UTF-8")
        first = next(stream, b"").removeprefix(b"\xef\xbb\xbf")
        lines = (line.decode(errors="replace") for line in chain((first,), stream))
        yield from (
            _read_json(lines, address)
            if _ending(address) in _JSON or JSON_LINE.match(first)
            else _paragraph_groups(lines)
        )


def document_of(row: Any, where: str) -> list[str]:
    """The lines of the field "text" of a row of a dataset, parquet or JSON."""
    text = row.get("text", ...) if isinstance(row, Mapping) else ...
    if not isinstance(text, str | None):
        found = ", ".join(row) if isinstance(row, Mapping) else type(row).__name__
        raise TrueNegError(f"{where}: has no field 'text' with the text, but {found}; call the text's field so")
    # JSON may have half a surrogate pair, which is not a character.
    return re.split(r"\r\n|\r|\n", _SURROGATES.sub("\ufffd", text or ""))


def articles(lines: Iterable[str]) -> Documents:
    """WikiText: a title between single ``=``, alone between blank lines, opens an article."""
    article: list[str] = []
    before = ""
    for line, after in pairwise(chain(lines, ("",))):
        is_title = _TITLE.fullmatch(line.rstrip("\r\n")) and not before.strip() and not after.strip()
        if is_title and any(map(str.strip, article)):
            yield article
            article = []
        article.append(line)
        before = line
    yield article


def _name(address: str) -> str:
    """A file's name without the ending of its compression."""
    path = PurePosixPath(address)
    return path.stem if path.suffix.lower() in _COMPRESSED else path.name


def _ending(address: str) -> str:
    return PurePosixPath(_name(address)).suffix.lower()


def read_table(path: Path) -> Any:
    """A file of rows as Hugging Face's ``datasets`` writes them, Parquet, CSV or JSON lines: a table of pyarrow."""
    require("pyarrow", extra="corpora")
    from pyarrow import csv, json, parquet

    if path.suffix == ".parquet":
        return parquet.read_table(path)
    if path.suffix == ".csv":
        return csv.read_csv(path, parse_options=csv.ParseOptions(newlines_in_values=True))
    return json.read_json(path)


def _read_parquet(stream: Any, address: str) -> Documents:
    from pyarrow import ArrowInvalid, parquet

    try:
        with parquet.ParquetFile(stream) as file:
            columns = ["text"] if "text" in file.schema_arrow.names else None
            for batch in file.iter_batches(256, columns=columns):
                yield from (document_of(row, address) for row in batch.to_pylist())
    except ArrowInvalid as error:
        raise TrueNegError(f"{address}: is truncated or damaged ({reason(error)}); get the file again") from None


def _read_json(lines: Iterable[str], address: str) -> Documents:
    for number, line in enumerate(lines, start=1):
        if line.strip():
            where = f"{address}: line {number}"
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise TrueNegError(f"{where}: is not JSON ({error}); expected an object per line") from None
            yield document_of(row, where)


def _paragraph_groups(lines: Iterable[str]) -> Documents:
    document: list[str] = []
    for line in lines:
        if line.strip():
            document.append(line)
        elif document:
            yield document
            document = []
    yield document
