"""The interface of a lexicon."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from ..vocabulary import without_accents


class Lexicon(ABC):
    """Answers "synonyms of this word"."""

    source: str  # its name in :data:`~.sources.SOURCES`, or the expression that combines several
    options: dict[str, Any]  # what else decides its answers (versions, limits), JSON-able; recorded in every table
    stop_words: frozenset[str] = frozenset()  # in lower case; they have no synonyms whatever the lexicon lists

    @abstractmethod
    def synonyms(self, word: str) -> Sequence[str]:
        """The names listed for a word, the word itself included where listed; spaces in names as ``_``.

        Empty where the word is not known. A lexicon that tells cases apart looks the exact spelling up first.
        """

    def prepare(self, words: Collection[str], *, show_progress: bool = False) -> None:  # noqa: B027
        """Gets ready to answer for many words at once. Look-ups of other words stay possible."""

    def accented(self, words: Collection[str]) -> Iterable[str]:
        """The spellings with accents, as listed, of words in lower case without them."""
        return ()


def with_accents(listed: Iterable[str], words: Collection[str]) -> Iterator[str]:
    """Those of the listed words that have accents, and without them are one of the words (in lower case)."""
    wanted = frozenset(words)
    return (each for each in listed if not each.isascii() and without_accents(each).lower() in wanted)
