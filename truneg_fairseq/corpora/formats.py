"""Corpora as they are published, to documents: any length, one line in memory."""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import TrueNegError, reason
from ..parallel import Advance
from ..paths import require_once
from .compression import COMPRESSIONS, open_compressed
from .text import BrokenLines, read_stream
from .wikipedia import read_articles

DOCUMENT_END = None
"""What ends a document among its lines."""

Documents = Iterator[str | None]
"""Lines without their ends, and :data:`DOCUMENT_END` behind the last one of every document."""

_LINE_ENDS = re.compile(r"\r\n|\r|\n")
_WIKITEXT_TITLE = re.compile(r" ?= [^=].* = ?")
_PARQUET_ROWS = 256
_SURROGATES = re.compile("[\ud800-\udfff]")


@dataclass
class Source:
    """One file to read."""

    path: Path  # the file
    text_field: str = "text"  # where .jsonl and .parquet keep the text
    broken_utf8: str = "error"  # one of :data:`truneg_fairseq.corpora.text.BROKEN_UTF8`
    advance: Advance = lambda count: None  # called with the bytes of the file as they are read
    broken: BrokenLines = field(default_factory=BrokenLines)  # counts what was done about lines that are not UTF-8

    def lines(self, stream: BinaryIO, name: str | None = None) -> Iterator[str]:
        """The lines of a stream of this file; old Macs' single carriage returns end lines too."""
        for line, _ in read_stream(stream, name or str(self.path), self.broken_utf8, self.broken):
            yield from _LINE_ENDS.split(line) if "\r" in line else (line,)

    def text(self, text: str, where: str) -> Iterator[str]:
        """The lines of a document that another format has decoded."""
        try:
            text.encode()
        except UnicodeEncodeError as error:
            if self.broken_utf8 == "error":
                raise TrueNegError(
                    f"{where}: has half a surrogate pair at character {error.start:,}; mend the file, or add "
                    "--broken-utf8 replace or skip"
                ) from None
            if self.broken_utf8 == "skip":
                self.broken.skipped += 1
                return
            self.broken.replaced += 1
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        yield from _LINE_ENDS.split(text)

    def mended(self, line: str) -> str:
        """A line with U+FFFD for every half of a surrogate pair, as browsers show ``&#xD800;``; counted as replaced."""
        if line.isascii() or not _SURROGATES.search(line):
            return line
        self.broken.replaced += 1
        return _SURROGATES.sub("\ufffd", line)


_LONG_HEADERS = (
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
)
_LONGEST_HEADER = 1 << 20
"""Bytes; tarfile reads these headers whole, and of a compressed archive a small file may have gigabytes of them."""


class _Member(tarfile.TarInfo):
    """An archive's file; tarfile takes an archive that was cut, or has a damaged header, for one that ends there."""

    @classmethod
    def frombuf(cls, buf: Any, encoding: Any, errors: Any) -> Any:
        member = super().frombuf(buf, encoding, errors)
        if member.type in _LONG_HEADERS and member.size > _LONGEST_HEADER:
            raise tarfile.InvalidHeaderError(  # type: ignore[attr-defined]
                f"a name of {member.size:,} bytes, expected {_LONGEST_HEADER:,} at most"
            )
        return member

    @classmethod
    def fromtarfile(cls, tarfile_: Any) -> Any:
        try:
            return super().fromtarfile(tarfile_)
        except tarfile.EmptyHeaderError:  # type: ignore[attr-defined]
            raise tarfile.ReadError("it ends without the mark of an archive's end") from None
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]  # a block of zeros; two of them are the mark
            if tarfile_.fileobj.read(tarfile.BLOCKSIZE).strip(b"\0"):
                raise tarfile.ReadError("the header of a file in it is gone") from None
            raise
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(f"the header of a file in it is damaged: {error}") from None


@dataclass(frozen=True)
class Format:
    """How a corpus is published."""

    read: Callable[[Source], Documents]  # a file's documents
    endings: tuple[str, ...]  # of the files to read in a folder, each also compressed
    summary: str  # for the help

    def files(self, flag: str, inputs: list[Path]) -> list[Path]:
        """The files of files and folders, those of a folder in the order of their names."""
        files: list[Path] = []
        for path in inputs:
            found = sorted(p for p in path.rglob("*") if p.is_file() and self._is_one(p)) if path.is_dir() else [path]
            if not found:
                raise TrueNegError(f"{flag} {path}: has no {', '.join(self.endings)}; expected such files there")
            files += found
        for path in files:
            if not path.is_file():
                raise TrueNegError(f"{path}: no such file; {flag} expects files or folders")
            if not self._is_one(path):
                raise TrueNegError(
                    f"{path}: expected {', '.join(self.endings)}, or compressed {', '.join(COMPRESSIONS)}"
                )
            if path.stat().st_size == 0:
                raise TrueNegError(f"{path}: the file is empty; remove it, or get it again")
        require_once(flag, files)
        return files

    def _is_one(self, path: Path) -> bool:
        return ending(path) in self.endings


def ending(path: Path) -> str:
    """A file's ending without that of its compression: ".txt" of "a.txt.gz"."""
    inner = path.with_suffix("").suffix if path.suffix in COMPRESSIONS else ""
    return inner or path.suffix


def read_text(source: Source) -> Documents:
    """Documents of .txt (apart by blank lines), .jsonl (one a line) or .parquet (one a row)."""
    kind = ending(source.path)
    if kind == ".parquet":
        yield from _read_parquet(source)
        return
    with open_compressed(source.path, source.advance) as stream:
        if kind == ".jsonl":
            yield from _read_jsonl(source, stream)
            return
        inside = False
        for line in source.lines(stream):
            if line.strip():
                yield line
            elif inside:
                yield DOCUMENT_END
            inside = bool(line.strip())
        if inside:
            yield DOCUMENT_END


def read_books(source: Source) -> Documents:
    """A .txt is one document, blank lines or not."""
    with open_compressed(source.path, source.advance) as stream:
        yield from source.lines(stream)
    yield DOCUMENT_END


def read_wikitext(source: Source) -> Documents:
    """WikiText: a title between single ``=``, alone between blank lines, opens an article."""
    with open_compressed(source.path, source.advance) as stream:
        before, inside = "", False
        for line, after in pairwise(chain(source.lines(stream), ("",))):
            alone = not before.strip() and not after.strip()
            if inside and alone and _WIKITEXT_TITLE.fullmatch(line):
                yield DOCUMENT_END
            yield line
            before, inside = line, inside or bool(line.strip())
    yield DOCUMENT_END


def read_wikipedia(source: Source) -> Documents:
    """Wikipedia's pages-articles.xml."""
    with open_compressed(source.path, source.advance) as stream:
        for article in read_articles(stream, str(source.path)):
            for line in article or ():
                yield source.mended(line)
            yield DOCUMENT_END


def read_openwebtext(source: Source) -> Documents:
    """OpenWebText: texts in archives, in an archive of archives, or as they are."""
    if ending(source.path) == ".txt":
        yield from read_books(source)
        return
    with open_compressed(source.path, source.advance) as stream:
        yield from _read_archive(source, stream, str(source.path))


FORMATS = {
    "text": Format(
        read_text, (".txt", ".jsonl", ".parquet"), ".txt with blank lines between documents, .jsonl, .parquet"
    ),
    "books": Format(read_books, (".txt",), "BooksCorpus and the like: a .txt is a document"),
    "wikitext": Format(read_wikitext, (".raw", ".tokens", ".txt"), "WikiText-2 and -103"),
    "wikipedia": Format(read_wikipedia, (".xml",), "a dump, pages-articles.xml"),
    "openwebtext": Format(read_openwebtext, (".tar", ".xz", ".txt"), "OpenWebText: archives of texts"),
}


def _read_jsonl(source: Source, stream: BinaryIO) -> Documents:
    broken = BrokenLines()  # source.broken counts what text() skips, too
    for number, (line, _) in enumerate(read_stream(stream, str(source.path), source.broken_utf8, broken), start=1):
        if not line.strip():
            continue
        where = f"{source.path}: line {number + broken.skipped}"
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise TrueNegError(f"{where} is no JSON ({error}); expected one object a line") from None
        yield from source.text(_text_of(record, source.text_field, where), where)
        yield DOCUMENT_END
    source.broken.replaced += broken.replaced
    source.broken.skipped += broken.skipped


def _text_of(record: Any, name: str, where: str) -> str:
    if not isinstance(record, dict) or name not in record:
        found = ", ".join(map(repr, record)) if isinstance(record, dict) else type(record).__name__
        raise TrueNegError(f"{where} has no field {name!r} but {found or 'none'}; name the text's with --field")
    text = record[name]
    if text is None:
        return ""
    if not isinstance(text, str):
        raise TrueNegError(f"{where}: field {name!r} is {type(text).__name__}; expected a string (see --field)")
    return text


def _read_parquet(source: Source) -> Documents:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise TrueNegError(f"{source.path}: .parquet needs the package pyarrow; pip install pyarrow") from None
    if source.path.suffix != ".parquet":
        raise TrueNegError(f"{source.path}: is compressed around its own compression; unpack it first")
    size = source.path.stat().st_size
    row = 0
    try:
        with parquet.ParquetFile(source.path) as file:
            if source.text_field not in file.schema_arrow.names:
                found = ", ".join(map(repr, file.schema_arrow.names))
                raise TrueNegError(
                    f"{source.path}: has no column {source.text_field!r} but {found}; name the text's with --field"
                )
            rows, groups = file.metadata.num_rows, range(file.num_row_groups)
            if rows != (held := sum(file.metadata.row_group(group).num_rows for group in groups)):
                raise TrueNegError(
                    f"{source.path}: is damaged: its footer says {rows} rows, its row groups {held}; get the file again"
                )
            for batch in file.iter_batches(_PARQUET_ROWS, columns=[source.text_field]):
                for text in batch.column(0).to_pylist():
                    where = f"{source.path}: row {row}"
                    yield from source.text(_text_of({source.text_field: text}, source.text_field, where), where)
                    yield DOCUMENT_END
                    row += 1
                source.advance(row * size // rows - (row - batch.num_rows) * size // rows)
    except (pyarrow.ArrowException, OSError) as error:
        raise TrueNegError(f"{source.path}: is truncated or no parquet ({reason(error)}); get the file again") from None
    except UnicodeDecodeError as error:
        raise TrueNegError(
            f"{source.path}: row {row} or a later one is not UTF-8 ({error.reason}); mend the file"
        ) from None


def _read_archive(source: Source, stream: Any, name: str) -> Documents:
    """A tar archive's texts; an archive in it is read as the outer one is, and nothing is unpacked to the disk."""
    with tarfile.open(fileobj=stream, mode="r|*", tarinfo=_Member) as archive:
        while (member := archive.next()) is not None:
            archive.members = []  # type: ignore[attr-defined]  # it would remember millions of them
            content = archive.extractfile(member) if member.isfile() else None
            if content is None:
                continue
            inner = f"{name}:{member.name}"
            if Path(member.name).suffix in (".tar", *COMPRESSIONS):
                yield from _read_archive(source, content, inner)
            else:
                yield from source.lines(content, inner)  # type: ignore[arg-type]
                yield DOCUMENT_END
