"""The interface of a lexicon."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

from ..vocabulary import without_accents


class Lexicon(Protocol):
    """Answers "synonyms of this word"."""

    source: str  # the lexicon's name, one of :data:`~.sources.SOURCES`, or the expression that combines some
    options: dict[str, Any]  # what else decides its answers (versions, languages), JSON-able; recorded in every table
    stop_words: frozenset[str]  # words, in lower case, that have no synonyms whatever the lexicon lists

    def synonyms(self, word: str) -> Sequence[str]:
        """The names listed for a word, the word itself included where listed; spaces in names as ``_``.

        In alphabetical order, or in the lexicon's own where that says more. Empty where the word is not known.
        """
        ...


@runtime_checkable
class BulkLexicon(Lexicon, Protocol):
    """A lexicon that answers many words at little more than the cost of one."""

    def prepare(self, words: Collection[str], *, show_progress: bool = False) -> None:
        """Gets ready to answer for these words. Look-ups of other words stay possible."""
        ...


def prepare(lexicon: Lexicon, words: Collection[str], *, show_progress: bool = False) -> None:
    """Tells a lexicon which words are going to be looked up, if that makes a difference to it."""
    if isinstance(lexicon, BulkLexicon):
        lexicon.prepare(words, show_progress=show_progress)


@runtime_checkable
class AccentedLexicon(Lexicon, Protocol):
    """A lexicon of words with accents, which some vocabularies leave out."""

    def accented(self, words: Collection[str]) -> Iterable[str]:
        """The spellings with accents, as listed, of words in lower case without them."""
        ...


def accented(lexicon: Lexicon, words: Collection[str]) -> dict[str, list[str]]:
    """The spellings with accents that a lexicon lists for words in lower case without them, sorted."""
    spellings: dict[str, set[str]] = {}
    if isinstance(lexicon, AccentedLexicon):
        for spelling in lexicon.accented(words):
            spellings.setdefault(without_accents(spelling).lower(), set()).add(spelling)
    return {word: sorted(found) for word, found in spellings.items()}


def with_accents(listed: Iterable[str], words: Collection[str]) -> Iterator[str]:
    """Those of the listed words that have accents, and without them are one of the words (in lower case)."""
    wanted = frozenset(words)
    return (each for each in listed if not each.isascii() and without_accents(each).lower() in wanted)
