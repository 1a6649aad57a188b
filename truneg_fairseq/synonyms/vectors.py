"""Reads files of word vectors: GloVe text, word2vec text (fastText's .vec too) and word2vec binary, packed or not.

The format is detected from the content. Words may have blanks in them, as "area 51" and ". . ." of published files:
the last numbers of a line are the vector, and what is before them is the word.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import itertools
import logging
import re
import warnings
import zipfile
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import TrueNegError, reason
from ..files import unpacked
from ..workers import Progress
from .lists import ENGLISH_STOP_WORDS, Lexicon, LexiconSettings, with_accents

BLOCK = 8192
"""Vectors read at once; 10 MB at 300 dimensions."""

_FORMATS = "GloVe text, word2vec text or word2vec binary"
_HEADER_FIELDS = 2  # number of vectors, dimensions
_READ_SIZE = 1 << 22  # bytes
_LONGEST_WORD = 1 << 12  # bytes
_MOST_DIMENSIONS = 1 << 16
_SAMPLE = 100  # lines that tell how many numbers the others have
# The highest byte of a float32 that is zero or whose absolute value is between 2 ** -51 and 2 ** 51. Read out of step,
# a vector has others: 0x20 where the word's last blank is taken for a part of a number, and letters.
_NUMBER_BYTES = bytes([0, *range(0x26, 0x59), 0x80, *range(0xA6, 0xD9)])

_Record = tuple[int, bytes, bytes]  # number of the line or vector from 1, word, values as text or as float32


@dataclass(frozen=True)
class VectorFile:
    """A file of word vectors."""

    path: Path
    dimensions: int
    announced: int | None  # number of vectors in the header; GloVe has no header
    binary: bool  # word2vec's binary format

    @classmethod
    def open(cls, path: Path) -> VectorFile:
        """Detects the format."""
        with _reading(path) as file:
            first = file.readline(_READ_SIZE)
            sample = [first, *(line for _ in range(_SAMPLE) if (line := file.readline(_READ_SIZE)))]
        fields = first.split()
        if len(fields) == _HEADER_FIELDS and all(field.isdigit() and len(field) < 12 for field in fields):
            announced, dimensions = map(int, fields)
            if announced and 0 < dimensions <= _MOST_DIMENSIONS:
                # What follows a word is printable ASCII, as numbers in text are and float32 numbers hardly ever.
                word, _, values = b"".join(sample[1:2]).rstrip().replace(b"\t", b" ").partition(b" ")
                values = values or word
                return cls(path, dimensions, announced, not (values.isascii() and values.decode().isprintable()))
        ((columns, _),) = Counter(len(line.split()) for line in sample).most_common(1)
        if columns > _HEADER_FIELDS and _numbers(b" ".join(fields[1 - columns :])) is not None:
            return cls(path, columns - 1, None, binary=False)
        raise TrueNegError(f"{path}: line 1 is {_shown(first)}; expected {_FORMATS}")

    def blocks(self) -> Iterator[tuple[list[bytes], NDArray[np.float32]]]:
        """The words and vectors of the file, float32, shape (N, dimensions), :data:`BLOCK` at a time."""
        total = 0
        with _reading(self.path) as file:
            records = self._binary(file) if self.binary else self._text(file)
            while block := list(itertools.islice(records, BLOCK)):
                total += len(block)
                yield [word for _, word, _ in block], self._parse(block)
        if self.announced not in (None, total):
            raise TrueNegError(
                f"{self.path}: the header announces {self.announced} vectors of {self.dimensions} dimensions, found "
                f"{total}; the file is truncated, or its header is wrong; get it again"
            )

    def _parse(self, block: list[_Record]) -> NDArray[np.float32]:
        if (values := self._values([content for _, _, content in block])) is None:
            bad = next((number, word) for number, word, content in block if self._values([content]) is None)
            raise TrueNegError(
                f"{self.path}: {'vector' if self.binary else 'line'} {bad[0]} ({_shown(bad[1])}): expected a word and "
                f"{self.dimensions} finite numbers; the file is damaged or truncated; get it again"
            )
        return values.reshape(-1, self.dimensions)

    def _values(self, contents: list[bytes]) -> NDArray[np.float32] | None:
        """The numbers of some vectors; None where one is missing or not finite."""
        size = len(contents) * self.dimensions
        if self.binary:
            joined = b"".join(contents)
            values = np.frombuffer(joined, dtype="<f4") if len(joined) == 4 * size else None
        else:
            values = _numbers(b" ".join(contents))
        whole = values is not None and len(values) == size and np.isfinite(values).all()
        return values if whole else None

    def _text(self, file: IO[bytes]) -> Iterator[_Record]:
        for number, line in enumerate(file, start=1):
            stripped = line.rstrip().replace(b"\t", b" ")
            if not stripped or (number == 1 and self.announced is not None):
                continue
            if b"  " in stripped:
                stripped = re.sub(rb" +", b" ", stripped)
            word, _, values = stripped.partition(b" ")
            if values.count(b" ") >= self.dimensions:  # a word with blanks
                word, *fields = stripped.rsplit(b" ", self.dimensions)
                values = b" ".join(fields)
            yield number, word.strip(b" "), values

    def _binary(self, file: IO[bytes]) -> Iterator[_Record]:
        assert self.announced is not None
        file.readline(_READ_SIZE)
        size = 4 * self.dimensions
        buffer, start = b"", 0
        for number in range(1, self.announced + 2):  # one more, which must not be there
            if len(buffer) - start <= _LONGEST_WORD + size:
                buffer, start = buffer[start:] + file.read(_READ_SIZE + size), 0
            if not buffer[start:].strip():
                return
            blank = _end_of_word(buffer, start, size)
            # The original tool ends every vector with a newline, others do not.
            yield number, buffer[start:blank].lstrip(b"\n"), buffer[blank + 1 : blank + 1 + size]
            start = blank + 1 + size


def _end_of_word(buffer: bytes, start: int, size: int) -> int:
    """The first blank with numbers behind it; the first one where none has."""
    blank = first = buffer.find(b" ", start, start + _LONGEST_WORD)
    while blank >= 0:
        if not buffer[blank + 4 : blank + 1 + size : 4].translate(None, _NUMBER_BYTES):
            return blank
        blank = buffer.find(b" ", blank + 1, start + _LONGEST_WORD)
    return max(first, start)


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[IO[bytes]]:
    """The file's content, unpacked, without a byte order mark."""
    try:
        with path.open("rb") as raw:
            file = unpacked(path, _member(path, raw))
            if file.peek(len(codecs.BOM_UTF8)).startswith(codecs.BOM_UTF8):
                file.read(len(codecs.BOM_UTF8))
            yield file
    except zipfile.BadZipFile as error:
        raise TrueNegError(f"{path}: is truncated or damaged ({reason(error)}); get the file again") from None


def _member(path: Path, raw: io.BufferedReader) -> Any:
    """The one file of a zip archive; other files themselves."""
    if not raw.peek(4).startswith(b"PK\x03\x04"):
        return raw
    archive = zipfile.ZipFile(raw)
    names = [name for name in archive.namelist() if not name.endswith("/") and not name.startswith("__MACOSX/")]
    if len(names) != 1:
        raise TrueNegError(f"{path}: holds {len(names)} files ({', '.join(names)[:200]}); unpack it and give one")
    return archive.open(names[0])


def _numbers(text: bytes) -> NDArray[np.float32] | None:
    """Numbers separated by blanks; None if one is not a number."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)  # numpy < 2.3 only warns
            return np.fromstring(text, dtype=np.float32, sep=" ")
    except (ValueError, DeprecationWarning):
        return None


def _shown(content: bytes) -> str:
    return repr(content[:40].decode("utf-8", "backslashreplace"))


logger = logging.getLogger(__name__)

_SCORES_AT_ONCE = 1 << 24
_GROUP = 64  # columns


class EmbeddingLexicon(Lexicon):
    """The words nearest to a word by cosine, among all words of a file of vectors.

    Neighbours are taken among the whole file, as in the paper (footnote 9: the 10 most similar words of the "whole
    vocabulary" of GloVe): a word whose nearest words are not single tokens of the dictionary gets few synonyms in its
    table or none, rather than words further away. A word that the file lacks is looked up in lower case, then in any.
    """

    source = "embeddings"
    stop_words = ENGLISH_STOP_WORDS

    def __init__(self, settings: LexiconSettings) -> None:
        assert settings.vectors is not None
        self._file = VectorFile.open(settings.vectors)
        self._count = settings.neighbours
        self._threshold = settings.threshold
        self.options: dict[str, Any] = {"dimensions": self._file.dimensions}
        self._answers: dict[str, list[str]] = {}
        self._blocks: list[NDArray[np.float32]] = []  # rows of length 1, zero for what is left out
        self._words: list[str] = []  # by row, empty for what is left out
        self._rows: dict[str, int] = {}

    def prepare(self, words: Collection[str], *, show_progress: bool = False) -> None:
        """Finds the neighbours of many words."""
        missing = [word for word in words if word not in self._answers]
        if not missing:
            return
        self._read(show_progress)
        rows = self._find(missing)
        nearest = self._nearest(sorted(set(rows.values())), show_progress)
        for word in missing:
            self._answers[word] = nearest[rows[word]] if word in rows else []

    def accented(self, words: Collection[str]) -> Iterator[str]:
        self._read(show_progress=False)
        return with_accents(self._rows, words)

    def synonyms(self, word: str) -> list[str]:
        self.prepare([word])
        return self._answers[word]

    def _read(self, show_progress: bool) -> None:
        if self._words:
            return
        left_out: Counter[str] = Counter()
        title = f"reading {self._file.path.name}"
        with Progress(desc=title, unit=" vectors", total=self._file.announced, disable=not show_progress) as progress:
            for names, vectors in self._file.blocks():
                lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
                self._blocks.append(np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0))
                for name, length in zip(names, lengths[:, 0], strict=True):
                    word, fault = _read_word(name, length > 0, self._rows)
                    if fault:
                        left_out[fault] += 1
                    else:
                        self._rows[word] = len(self._words)
                    self._words.append("" if fault else word)
                progress.update(len(names))
        for fault, number in sorted(left_out.items()):
            logger.warning("%s: left out %d of its %d vectors: %s", self._file.path, number, len(self._words), fault)

    def _find(self, words: Collection[str]) -> dict[str, int]:
        """The row of each word that the file has: spelled the same, else in lower case, else in any case."""
        wanted = {word.lower() for word in words if word not in self._rows}
        any_case: dict[str, int] = {}
        if wanted:
            for spelled, row in self._rows.items():
                if (lower := spelled.lower()) in wanted:
                    any_case.setdefault(lower, row)
        found = {word: self._rows.get(word, self._rows.get(word.lower(), any_case.get(word.lower()))) for word in words}
        return {word: row for word, row in found.items() if row is not None}

    def _nearest(self, rows: list[int], show_progress: bool) -> dict[int, list[str]]:
        """The word of each row and its neighbours, blanks as ``_``."""
        absent = [row for row, word in enumerate(self._words) if not word]
        count = min(self._count, len(self._rows) - 1)
        answers: dict[int, list[str]] = {}
        at_once = max(1, _SCORES_AT_ONCE // max(1, len(self._words)))
        title = f"{self._count} nearest of {len(rows)} words"
        with Progress(desc=title, unit=" words", total=len(rows), disable=not show_progress) as progress:
            for first in range(0, len(rows), at_once):
                chunk = rows[first : first + at_once]
                queries = np.stack([self._blocks[row // BLOCK][row % BLOCK] for row in chunk])
                scores = np.concatenate([queries @ block.T for block in self._blocks], axis=1)
                scores[:, absent] = -np.inf
                scores[np.arange(len(chunk)), chunk] = -np.inf
                for row, columns in zip(chunk, _largest(scores, count, self._threshold), strict=True):
                    answers[row] = [self._words[each].replace(" ", "_") for each in (row, *columns)]
                progress.update(len(chunk))
        return answers


def pair_cosines(
    path: Path, words: Sequence[str | None], left: NDArray[np.int32], right: NDArray[np.int32]
) -> NDArray[np.float32]:
    """The cosines of pairs of words, float32, shape (P,), 0 where the file of vectors lacks one.

    ``left`` and ``right`` are indices into the words, which are looked up as spelled, then in lower case, then in
    any case.
    """
    paired = np.union1d(left, right)
    wanted = {word.lower() for word in map(words.__getitem__, paired) if word is not None}
    file = VectorFile.open(path)
    found: dict[str, NDArray[np.float32]] = {}
    any_case: dict[str, NDArray[np.float32]] = {}
    for names, vectors in file.blocks():
        for name, vector in zip(names, vectors, strict=True):
            word = name.decode("utf-8", "replace")
            if (lower := word.lower()) in wanted and word not in found and (vector != 0).any():
                found[word] = vector / np.linalg.norm(vector)
                any_case.setdefault(lower, found[word])
    rows = np.zeros((len(words), file.dimensions), dtype=np.float32)
    for index in paired:
        word = words[index] or ""
        vector = found.get(word, found.get(word.lower(), any_case.get(word.lower())))
        if vector is not None:
            rows[index] = vector
    return np.concatenate(
        [np.einsum("pe,pe->p", rows[a], rows[b]) for a, b in _blocks_of(left, right)] or [np.zeros(0, np.float32)]
    )


def _blocks_of(left: NDArray[np.int32], right: NDArray[np.int32]) -> Iterator[tuple[NDArray[np.int32], ...]]:
    return ((left[at : at + BLOCK], right[at : at + BLOCK]) for at in range(0, len(left), BLOCK))


def _largest(scores: NDArray[np.float32], count: int, threshold: float | None) -> Iterator[NDArray[np.int64]]:
    """The columns of the largest scores of each row, largest first, of equal ones the earlier first."""
    floor = -np.inf if threshold is None else np.nextafter(np.float32(threshold), np.float32(-np.inf))
    # Of so many groups of columns as are wanted, each has a score at least as large as the smallest of their maxima.
    groups = np.maximum.reduceat(scores, np.arange(0, scores.shape[1], _GROUP), axis=1)
    enough = 0 < count <= groups.shape[1]
    limits = np.partition(groups, -count, axis=1)[:, -count] if enough else np.full(len(scores), -np.inf)
    for row, limit in zip(scores, limits, strict=True):
        columns = np.flatnonzero((row >= limit) & (row > floor))
        yield columns[np.argsort(-row[columns], kind="stable")[:count]]


def _read_word(name: bytes, filled: bool, known: Collection[str]) -> tuple[str, str]:
    """The word of a vector, and why it is left out; empty where it is not."""
    try:
        word = name.decode("utf-8")
    except UnicodeDecodeError:
        return "", "their words are not UTF-8"
    if not word or word in known:
        return word, "their words are repeated (the first vector counts)" if word else "they have no word"
    return word, "" if filled else "they are zero"
