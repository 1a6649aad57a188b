"""Reads files of word vectors: GloVe text, word2vec text (fastText's .vec too) and word2vec binary, also gzipped.

The format is detected from the content. Files are streamed: what is held in memory is what the caller keeps.

What is an error, and what is only counted: a line with a wrong number of values, a value that is not finite, a
header that announces another number of vectors, and a truncated file are errors that name the line. Words that are not
UTF-8, repeated words and zero vectors are left out and counted, as is the custom for these files: the published ones
have some of each.
"""

from __future__ import annotations

import codecs
import contextlib
import gzip
import io
import warnings
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import TrueNegError, reason

_GZIP_MAGIC = b"\x1f\x8b"
_READ_SIZE = 1 << 22  # bytes
_LONGEST_WORD = 1 << 12  # bytes; a longer one in a binary file is vectors read out of step
_MOST_DIMENSIONS = 1 << 16  # of a header: memory is taken for them
_VALUE_SIZE = 64  # bytes of a number as text, at most
_LONGEST_COUNT = 18  # digits
_HEADER_FIELDS = 2  # number of vectors, dimensions
_FORMATS = "GloVe text, word2vec text or word2vec binary"
# numpy < 2.3 only warns of text that is not a number, and returns the numbers before it.
_ONLY_WARNS = np.lib.NumpyVersion(np.__version__) < "2.3.0"


class Record(NamedTuple):
    """One word and its vector, not yet parsed."""

    number: int  # of the line, from 1, or of the vector in a binary file, from 1
    word: bytes  # as bytes
    values: bytes  # the numbers as text, separated by single spaces, or as little-endian float32


@dataclass(frozen=True)
class VectorFile:
    """A file of word vectors."""

    path: Path  # the file
    dimensions: int  # length of the vectors
    announced: int | None  # number of vectors in the header, None where there is no header (GloVe)
    binary: bool  # word2vec's binary format

    @classmethod
    def open(cls, path: Path) -> VectorFile:
        """Detects the format."""
        with _reading(path) as file:
            first = file.readline(_READ_SIZE)
            second = file.readline(_READ_SIZE)
        if not first.strip():
            raise TrueNegError(f"{path}: {'its first line ' if first else ''}is empty; expected {_FORMATS}")
        fields = first.split()
        if len(fields) == _HEADER_FIELDS and all(field.isdigit() for field in fields):
            if max(map(len, fields)) > _LONGEST_COUNT:
                raise TrueNegError(f"{path}: line 1 announces {_shown(first)}, numbers without sense; get it again")
            announced, dimensions = map(int, fields)
            if not (announced and 0 < dimensions <= _MOST_DIMENSIONS):
                raise TrueNegError(
                    f"{path}: line 1 announces {announced} vectors of {dimensions} dimensions; expected 1 to "
                    f"{_MOST_DIMENSIONS} dimensions"
                )
            return cls(path, dimensions, announced, binary=not _is_printable(second))
        if len(fields) > _HEADER_FIELDS - 1 and _ends_with_numbers(first, len(fields) - 1):
            return cls(path, len(fields) - 1, None, binary=False)
        raise TrueNegError(f"{path}: line 1 is {_shown(first)}; expected {_FORMATS}")

    def records(self) -> Iterator[Record]:
        """Every word with its unparsed vector, in the order of the file."""
        with _reading(self.path) as file:
            number = 0
            for number, record in enumerate(self._binary(file) if self.binary else self._text(file), start=1):
                if self.announced is not None and number > self.announced:
                    raise self._wrong_count(f"at least {number}")
                yield record
            if self.announced is not None and number < self.announced:
                raise self._wrong_count(str(number))

    def parse(self, records: Sequence[Record]) -> NDArray[np.float32]:
        """The vectors of some records.

        Returns:
            float32, shape (len(records), dimensions), finite.
        """
        shape = (len(records), self.dimensions)
        if self.binary:
            vectors = np.frombuffer(b"".join(record.values for record in records), dtype="<f4").reshape(shape)
        else:
            vectors = self._parse_text(records).reshape(shape)
        finite = np.isfinite(vectors).all(axis=1)
        if not finite.all():
            record = records[int(np.argmin(finite))]
            raise TrueNegError(
                f"{self._place(record)} ({_shown(record.word)}) has a value that is not finite (nan or inf); expected "
                f"{self.dimensions} finite numbers; {'the header may be wrong' if self.binary else 'remove the line'}"
            )
        return vectors

    def _parse_text(self, records: Sequence[Record]) -> NDArray[np.float32]:
        # One call for many lines: 5 times as fast as one call a line.
        values = _numbers(b" ".join(record.values for record in records))
        if values is not None and len(values) == len(records) * self.dimensions:
            return values
        for record in records:
            values = _numbers(record.values)
            if values is None or len(values) != self.dimensions:
                raise TrueNegError(
                    f"{self._place(record)} ({_shown(record.word)}) has a value that is not numeric; expected "
                    f"{self.dimensions} numbers; remove the line"
                )
        raise AssertionError("the lines can be read one by one, but not together")

    def _place(self, record: Record) -> str:
        return f"{self.path}: {'vector' if self.binary else 'line'} {record.number}"

    def _wrong_count(self, found: str) -> TrueNegError:
        return TrueNegError(
            f"{self.path}: the header announces {self.announced} vectors of {self.dimensions} dimensions, found "
            f"{found}; the file is truncated, or its header is wrong; get it again"
        )

    def _text(self, file: IO[bytes]) -> Iterator[Record]:
        first = 1 if self.announced is None else 2
        if self.announced is not None:
            file.readline(_READ_SIZE)
        longest = _LONGEST_WORD + _VALUE_SIZE * self.dimensions
        for number, line in enumerate(iter(lambda: file.readline(longest), b""), start=first):
            if len(line) == longest and not line.endswith(b"\n"):
                raise TrueNegError(
                    f"{self.path}: line {number} ({_shown(line)}) is longer than {longest:,} bytes; expected a word "
                    f"and {self.dimensions} numbers"
                )
            stripped = line.rstrip().replace(b"\t", b" ")
            word, _, values = stripped.partition(b" ")
            if values.count(b" ") != self.dimensions - 1:
                if not stripped:
                    continue
                word, values = self._split_uneven(number, stripped)
            yield Record(number, word, values)

    def _split_uneven(self, number: int, line: bytes) -> tuple[bytes, bytes]:
        """The word and the values of a line whose word has spaces in it (GloVe 840B has such words)."""
        fields = line.split(b" ")
        end = len(fields) - self.dimensions
        if end < 1 or any(_numbers(field) is not None for field in fields[1:end]):
            as_where = "in line 1" if self.announced is None else "in the header"
            raise TrueNegError(
                f"{self.path}: line {number} ({_shown(fields[0])}) has {len(fields) - 1} values, expected "
                f"{self.dimensions} as {as_where}; the file is damaged or truncated"
            )
        return b" ".join(fields[:end]), b" ".join(fields[end:])

    def _binary(self, file: IO[bytes]) -> Iterator[Record]:
        file.readline(_READ_SIZE)
        size = 4 * self.dimensions
        number, start, buffer = 1, 0, b""
        while True:
            space = buffer.find(b" ", start)
            if (space if space >= 0 else len(buffer)) - start > _LONGEST_WORD:
                raise TrueNegError(
                    f"{self.path}: vector {number} begins with no word; expected {self.announced} vectors of "
                    f"{self.dimensions} dimensions; the header is wrong, or the file is not word2vec's"
                )
            if space < 0 or space + 1 + size > len(buffer):
                more = file.read(_READ_SIZE + size)
                buffer, start = buffer[start:] + more, 0
                if more:
                    continue
                if buffer.strip():
                    raise TrueNegError(
                        f"{self.path}: ends inside vector {number}; expected {self.announced} vectors of "
                        f"{self.dimensions} dimensions; the file is truncated, or its header is wrong; get it again"
                    )
                return
            end = space + 1 + size
            # The original tool ends every vector with a newline, others do not.
            yield Record(number, buffer[start:space].lstrip(b"\n"), buffer[space + 1 : end])
            number, start = number + 1, end


def _after_mark(file: io.BufferedReader[Any]) -> io.BufferedReader[Any]:
    """The file without a byte order mark at its beginning."""
    if file.peek(len(codecs.BOM_UTF8)).startswith(codecs.BOM_UTF8):
        file.read(len(codecs.BOM_UTF8))
    return file


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[IO[bytes]]:
    """The file's content, unpacked."""
    try:
        with path.open("rb") as raw:
            packed = raw.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
            raw.seek(0)
            if packed:
                with io.BufferedReader(gzip.GzipFile(fileobj=raw), _READ_SIZE) as file:
                    yield _after_mark(file)
            else:
                yield _after_mark(raw)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise TrueNegError(f"{path}: its gzip stream is truncated or damaged ({error}); get the file again") from None
    except OSError as error:
        raise TrueNegError(f"{path}: cannot be read ({reason(error)}); expected {_FORMATS}") from None


def _ends_with_numbers(line: bytes, count: int) -> bool:
    values = line.split()[-count:]
    return len(values) == count and all(_numbers(value) is not None for value in values)


def _is_printable(line: bytes) -> bool:
    """Whether what follows a line's word is printable ASCII, as numbers in text are and float32 numbers hardly ever."""
    word, _, values = line.rstrip().replace(b"\t", b" ").partition(b" ")
    values = values or word
    return values.isascii() and values.decode("ascii", "replace").isprintable()


def _numbers(text: bytes) -> NDArray[np.float32] | None:
    """Numbers separated by spaces; None if one is not a number."""
    try:
        with warnings.catch_warnings() if _ONLY_WARNS else contextlib.nullcontext():
            if _ONLY_WARNS:
                warnings.simplefilter("error", DeprecationWarning)
            return np.fromstring(text, dtype=np.float32, sep=" ")
    except (ValueError, DeprecationWarning):
        return None


def _shown(content: bytes) -> str:
    return repr(content[:40].decode("utf-8", "backslashreplace"))
