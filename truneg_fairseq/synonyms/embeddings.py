"""Word vectors as a lexicon: the paper's second synonym source."""

from __future__ import annotations

import itertools
import logging
from collections import Counter
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..progress import Progress
from .lexicon import with_accents
from .neighbours import NearestNeighbours, unit_rows
from .settings import DEFAULT_LANGUAGE, LexiconSettings
from .stop_words import read_stop_words
from .vectors import Record, VectorFile

logger = logging.getLogger(__name__)

_T = TypeVar("_T")
_BLOCK = 8192  # vectors; 10 MB at 300 dimensions


class EmbeddingLexicon:
    """The words nearest to a word by cosine, among all words of a file of vectors.

    Neighbours are taken among the whole file, as in the paper (footnote 9: the 10 most similar words of the "whole
    vocabulary" of GloVe): a word whose nearest words are not single tokens of the dictionary gets few synonyms in its
    table or none, rather than words further away. A word that the file lacks is looked up in lower case.

    The file is streamed twice, for the vectors of the words asked for and for their neighbours; memory is that of the
    former and of the file's words.

    Args:
        settings: ``vectors``, ``neighbours``, ``threshold``, and ``lang`` for the stop words.
    """

    source = "embeddings"

    def __init__(self, settings: LexiconSettings) -> None:
        assert settings.vectors is not None
        self._file = VectorFile.open(settings.vectors)
        self._count = settings.neighbour_count
        self._threshold = settings.threshold
        self.stop_words, described = read_stop_words(settings.lang or DEFAULT_LANGUAGE)
        self.options: dict[str, Any] = {"dimensions": self._file.dimensions, "stop_words": described}
        self._answers: dict[str, list[tuple[str, float]]] = {}

    def prepare(self, words: Collection[str], *, show_progress: bool = False) -> None:
        """Finds the neighbours of many words at the cost of two passes through the file."""
        missing = dict.fromkeys(word for word in words if word not in self._answers)
        if not missing:
            return
        spelled, queries, total = self._find(missing, show_progress)
        for word in missing:
            self._answers[word] = []
        if not spelled:
            return
        neighbours, file_words = self._search(spelled, queries, total, show_progress)
        answers = {
            word: [(word, 1.0)] + [(file_words[index], float(cosine)) for index, cosine in row if index >= 0]
            for word, row in zip(spelled, neighbours, strict=True)
        }
        for word in missing:
            self._answers[word] = answers.get(word) or answers.get(word.lower(), [])

    def accented(self, words: Collection[str]) -> Iterator[str]:
        """See :class:`~.lexicon.AccentedLexicon`."""
        return with_accents((record.word.decode("utf-8", "ignore") for record in self._file.records()), words)

    def similar(self, word: str) -> list[tuple[str, float]]:
        """The word itself, where the file has it, and its neighbours with their cosines, nearest first."""
        self.prepare([word])
        return self._answers[word]

    def synonyms(self, word: str) -> list[str]:
        """See :class:`~.lexicon.Lexicon`; nearest first."""
        return [name.replace(" ", "_") for name, _ in self.similar(word)]

    def _find(self, words: Collection[str], show_progress: bool) -> tuple[list[str], NDArray[np.float32], int]:
        """The words that the file has, as it spells them, their unit vectors, and the number of its vectors."""
        wanted = {form.encode() for word in words for form in (word, word.lower())}
        found: dict[bytes, Record] = {}
        total = 0
        for record in Progress(
            self._file.records(),
            desc=f"looking words up in {self._file.path.name}",
            unit=" vectors",
            total=self._file.announced,
            disable=not show_progress,
        ):
            total += 1
            if record.word in wanted:
                found.setdefault(record.word, record)
        vectors = unit_rows(self._file.parse(list(found.values())))
        # A zero vector is near nothing.
        kept = np.flatnonzero(_filled(vectors))
        words_found = list(found)
        return [words_found[row].decode() for row in kept], vectors[kept], total

    def _search(
        self, spelled: list[str], queries: NDArray[np.float32], total: int, show_progress: bool
    ) -> tuple[list[list[tuple[int, float]]], list[str]]:
        """The neighbours, as indices and cosines, of every query, and the file's words by index."""
        query_of = {word: query for query, word in enumerate(spelled)}
        search = NearestNeighbours(queries, self._count, self._threshold)
        file_words: dict[str, None] = {}  # in the order of the file
        left_out: Counter[str] = Counter()
        with Progress(
            desc=f"{self._count} nearest of {len(spelled)} words",
            unit=" vectors",
            total=total,
            disable=not show_progress,
        ) as progress:
            for records, vectors in _ahead(self._blocks()):
                kept: list[int] = []
                own: list[int] = []
                for row, (record, filled) in enumerate(zip(records, _filled(vectors), strict=True)):
                    word, reason = _read_word(record.word, bool(filled), file_words)
                    if word is None:
                        left_out[reason] += 1
                        continue
                    file_words[word] = None
                    kept.append(row)
                    own.append(query_of.get(word, -1))
                search.add(unit_rows(vectors[kept]), np.asarray(own, dtype=np.int64))
                progress.update(len(records))
        for reason, number in sorted(left_out.items()):
            logger.warning("%s: left out %d of its %d vectors: %s", self._file.path, number, total, reason)
        indices, cosines = search.result()
        rows = [list(zip(*pair, strict=True)) for pair in zip(indices.tolist(), cosines.tolist(), strict=True)]
        return rows, list(file_words)

    def _blocks(self) -> Iterator[tuple[list[Record], NDArray[np.float32]]]:
        records = self._file.records()
        while block := list(itertools.islice(records, _BLOCK)):
            yield block, self._file.parse(block)


def _filled(vectors: NDArray[np.float32]) -> NDArray[np.bool_]:
    """bool, shape (N,): the rows that are not zero."""
    return np.abs(vectors).max(axis=1, initial=0) > 0


def _read_word(word: bytes, filled: bool, known: Collection[str]) -> tuple[str | None, str]:
    """The word of a vector; None and the reason where the vector is left out."""
    try:
        text = word.decode("utf-8")
    except UnicodeDecodeError:
        return None, "their words are not UTF-8"
    if text in known:
        return None, "their words are repeated (the first vector counts)"
    return (text, "") if filled else (None, "they are zero")


def _ahead(items: Iterator[_T]) -> Iterator[_T]:
    """The same items, each made in another thread while the one before is worked on."""
    with ThreadPoolExecutor(1) as pool:
        upcoming = pool.submit(next, items, None)
        while (item := upcoming.result()) is not None:
            upcoming = pool.submit(next, items, None)
            yield item
