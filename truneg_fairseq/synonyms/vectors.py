"""Word vectors in text: GloVe's and word2vec's (fastText's .vec too), and the words nearest to a word."""

from __future__ import annotations

import codecs
import logging
from collections import Counter
from collections.abc import Collection, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import TrueNegError
from ..files import unpacked
from ..workers import Progress
from .lists import ENGLISH_STOP_WORDS, Lexicon, with_accents

logger = logging.getLogger(__name__)

BLOCK = 8192
"""Vectors read at once; 10 MB at 300 dimensions."""

_LONGEST_LINE = 1 << 22  # bytes
_DIGITS = 20  # the numbers of a header have fewer; Python refuses to read one of thousands
_SAMPLE = 100  # lines that tell how many numbers the others have
_SCORES_AT_ONCE = 1 << 24
_GROUP = 64  # columns


def read_vectors(path: Path) -> Iterator[tuple[list[bytes], NDArray[np.float32]]]:
    """The words of a file and their vectors, fp32, shape (N, E), :data:`BLOCK` lines at a time.

    Words may have blanks in them, as "area 51" and ". . ." of published files: the last numbers of a line are the
    vector, and what is before them is the word. A first line of two numbers, word2vec's header, announces how many
    vectors of how many dimensions follow.
    """
    with path.open("rb") as raw, unpacked(path, raw) as stream:
        first, *sample = list(islice(iter(lambda: stream.readline(_LONGEST_LINE), b""), _SAMPLE)) or [b""]
        first = first.removeprefix(codecs.BOM_UTF8)
        fields = first.split()
        has_header = len(fields) == 2 and all(field.isdigit() and len(field) < _DIGITS for field in fields)
        announced = int(fields[0]) if has_header else None
        if announced is None:
            sample = [first, *sample]
            dimensions = Counter(len(line.split()) for line in sample).most_common(1)[0][0] - 1
        else:
            dimensions = int(fields[1])
        if dimensions < 1 or (announced is None and dimensions < 2):
            raise TrueNegError(f"{path}: line 1 is {_shown(first)}; expected GloVe's or word2vec's vectors as text")
        total = 0
        lines = enumerate(chain(sample, stream), start=1 if announced is None else 2)
        filled = ((number, line) for number, line in lines if not line.isspace())
        while block := list(islice(filled, BLOCK)):
            total += len(block)
            yield _parse(path, block, dimensions)
    if announced not in (None, total):
        raise TrueNegError(
            f"{path}: the header announces {announced} vectors of {dimensions} dimensions, found {total}; the file is "
            "truncated, or its header is wrong; get it again"
        )


def _parse(path: Path, block: list[tuple[int, bytes]], dimensions: int) -> tuple[list[bytes], NDArray[np.float32]]:
    rows = [line.rsplit(None, dimensions) for _, line in block]
    try:
        values = np.fromiter(map(float, chain.from_iterable(row[1:] for row in rows)), np.float32)
    except ValueError:
        values = np.empty(0, np.float32)
    if len(values) != len(rows) * dimensions or not np.isfinite(values).all():
        if len(block) > 1:  # finds the line
            for each in block:
                _parse(path, [each], dimensions)
        raise TrueNegError(
            f"{path}: line {block[0][0]} ({_shown(block[0][1].split(None, 1)[0])}): expected a word and {dimensions} "
            "finite numbers; the file is damaged or truncated, or word2vec's binary format, which gensim writes as text"
        )
    return [b" ".join(row[0].split()) for row in rows], values.reshape(-1, dimensions)


class EmbeddingLexicon(Lexicon):
    """The words nearest to a word by cosine, among all words of a file of vectors.

    Neighbours are taken among the whole file, as in the paper (footnote 9: the 10 most similar words of the "whole
    vocabulary" of GloVe): a word whose nearest words are not single tokens of the dictionary gets few synonyms in its
    table or none, rather than words further away. A word that the file lacks is looked up in lower case, then in any.
    """

    source = "embeddings"
    stop_words = ENGLISH_STOP_WORDS

    def __init__(self, path: Path, neighbours: int = 10, threshold: float | None = None) -> None:
        self._path, self._count, self._threshold = path, neighbours, threshold
        self._answers: dict[str, list[str]] = {}
        self._blocks: list[NDArray[np.float32]] = []  # rows of length 1, zero for what is left out
        self._words: list[str] = []  # by row, empty for what is left out
        self._rows: dict[str, int] = {}

    @property
    def options(self) -> dict[str, Any]:  # type: ignore[override]
        self._read(show_progress=False)
        return {"dimensions": self._blocks[0].shape[1]}

    def prepare(self, words: Collection[str], *, show_progress: bool = False) -> None:
        """Finds the neighbours of many words."""
        missing = [word for word in words if word not in self._answers]
        if not missing:
            return
        self._read(show_progress)
        wanted = {word.lower() for word in missing if word not in self._rows}
        any_case: dict[str, int] = {}
        for spelled, row in self._rows.items() if wanted else ():
            if (lower := spelled.lower()) in wanted:
                any_case.setdefault(lower, row)
        # The row of each word: spelled the same, else in lower case, else in any case.
        rows = {
            each: self._rows.get(each, self._rows.get(each.lower(), any_case.get(each.lower()))) for each in missing
        }
        nearest = self._nearest(sorted({row for row in rows.values() if row is not None}), show_progress)
        self._answers |= {word: [] if row is None else nearest[row] for word, row in rows.items()}

    def accented(self, words: Collection[str]) -> Iterator[str]:
        self._read(show_progress=False)
        return with_accents(self._rows, words)

    def synonyms(self, word: str) -> list[str]:
        self.prepare([word])
        return self._answers[word]

    def _read(self, show_progress: bool) -> None:
        if self._words:
            return
        with Progress(desc=f"reading {self._path.name}", unit=" vectors", disable=not show_progress) as progress:
            for names, vectors in read_vectors(self._path):
                lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
                self._blocks.append(np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0))
                for name, length in zip(names, lengths[:, 0], strict=True):
                    word = name.decode("utf-8", "ignore")
                    if not word or word in self._rows or length == 0 or word.encode() != name:
                        word = ""
                    else:
                        self._rows[word] = len(self._words)
                    self._words.append(word)
                progress.update(len(names))
        if left_out := len(self._words) - len(self._rows):
            message = "%s: left out %d of its %d vectors: repeated words (the first vector counts), zeros, or not UTF-8"
            logger.warning(message, self._path, left_out, len(self._words))

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
                vectors = np.stack([self._blocks[row // BLOCK][row % BLOCK] for row in chunk])
                scores = np.concatenate([vectors @ block.T for block in self._blocks], axis=1)
                scores[:, absent] = -np.inf
                scores[np.arange(len(chunk)), chunk] = -np.inf
                for row, columns in zip(chunk, _largest(scores, count, self._threshold), strict=True):
                    answers[row] = [self._words[each].replace(" ", "_") for each in (row, *columns)]
                progress.update(len(chunk))
        return answers


def _largest(scores: NDArray[np.float32], count: int, threshold: float | None) -> Iterator[NDArray[np.int64]]:
    """The columns of the largest scores of each row, largest first, of equal ones the earlier first."""
    floor = -np.inf if threshold is None else np.nextafter(np.float32(threshold), np.float32(-np.inf))
    # The K-th largest maximum of a group of columns is a lower bound of the K-th largest score: smaller ones are
    # passed over.
    groups = np.maximum.reduceat(scores, np.arange(0, scores.shape[1], _GROUP), axis=1)
    enough = 0 < count <= groups.shape[1]
    limits = np.partition(groups, -count, axis=1)[:, -count] if enough else np.full(len(scores), -np.inf)
    for row, limit in zip(scores, limits, strict=True):
        columns = np.flatnonzero((row >= limit) & (row > floor))
        yield columns[np.argsort(-row[columns], kind="stable")[:count]]


def _shown(content: bytes) -> str:
    return repr(content[:40].decode("utf-8", "backslashreplace"))
