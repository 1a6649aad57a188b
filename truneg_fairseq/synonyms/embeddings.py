"""Word vectors as a lexicon: the paper's second synonym source."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..progress import Progress
from .lexicon import Lexicon, with_accents
from .settings import LexiconSettings
from .stop_words import ENGLISH_STOP_WORDS
from .vectors import BLOCK, VectorFile

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
