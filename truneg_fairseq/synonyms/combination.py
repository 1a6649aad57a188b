"""Sources combined: what either lists, what both list, what one lists and the other does not.

Names are the same when they differ in case only: WordNet writes "Paris" where a file of word vectors has "paris".
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import chain
from typing import Any

from .exclusion import Exclusion
from .lexicon import Lexicon, accented, prepare


class _OfTwo:
    """Two lexicons, each of which applies its own stop words."""

    def __init__(self, source: str, left: Lexicon, right: Lexicon) -> None:
        self.source = source
        self.options: dict[str, Any] = {**left.options, **right.options}
        self.stop_words: frozenset[str] = frozenset()
        self._parts = (left, right)

    def prepare(self, words: Collection[str], *, show_progress: bool = False) -> None:
        """See :class:`~.lexicon.BulkLexicon`."""
        for part in self._parts:
            prepare(part, words, show_progress=show_progress)

    def accented(self, words: Collection[str]) -> Iterator[str]:
        """See :class:`~.lexicon.AccentedLexicon`."""
        return chain.from_iterable(chain(*accented(part, words).values()) for part in self._parts)


class UnionLexicon(_OfTwo):
    """The names of two lexicons, those of the first one first."""

    def synonyms(self, word: str) -> list[str]:
        """See :class:`~.lexicon.Lexicon`."""
        return list(dict.fromkeys(name for part in self._parts for name in listed(part, word)))


class IntersectionLexicon(_OfTwo):
    """The names that two lexicons have in common, in the order and the spelling of the first."""

    def synonyms(self, word: str) -> list[str]:
        """See :class:`~.lexicon.Lexicon`."""
        left, right = self._parts
        common = {name.lower() for name in listed(right, word)}
        return [name for name in listed(left, word) if name.lower() in common]


class DifferenceLexicon:
    """The names of a lexicon without those that an exclusion forbids; the word itself stays."""

    def __init__(self, source: str, lexicon: Lexicon, exclusion: Exclusion) -> None:
        self.source = source
        self.options: dict[str, Any] = {**lexicon.options, **exclusion.options}
        self.stop_words = lexicon.stop_words
        self._lexicon = lexicon
        self._exclusion = exclusion

    def prepare(self, words: Collection[str], *, show_progress: bool = False) -> None:
        """See :class:`~.lexicon.BulkLexicon`."""
        prepare(self._lexicon, words, show_progress=show_progress)
        self._exclusion.prepare(words, show_progress=show_progress)

    def accented(self, words: Collection[str]) -> Iterator[str]:
        """See :class:`~.lexicon.AccentedLexicon`."""
        return chain(*accented(self._lexicon, words).values())

    def synonyms(self, word: str) -> list[str]:
        """See :class:`~.lexicon.Lexicon`."""
        own = word.lower()
        names = self._lexicon.synonyms(word)
        return [name for name in names if name.lower() == own or not self._exclusion.excludes(word, name)]


def listed(lexicon: Lexicon, word: str) -> list[str]:
    """The names of a word; of a stop word, if it is known, the word alone."""
    names = list(lexicon.synonyms(word))
    return [word] if names and word.lower() in lexicon.stop_words else names
