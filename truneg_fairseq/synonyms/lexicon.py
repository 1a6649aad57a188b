"""Where synonyms come from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ..errors import TrueNegError


class Lexicon(Protocol):
    """Answers "synonyms of this word".

    Attributes:
        source: the lexicon's name, one of :data:`SOURCES`.
        options: what else decides its answers (versions, thresholds), JSON-able; recorded in every table.
        stop_words: words that have no synonyms whatever the lexicon lists.
    """

    source: str
    options: dict[str, Any]
    stop_words: frozenset[str]

    def synonyms(self, word: str) -> Sequence[str]:
        """The names listed for a word, sorted, the word itself included where listed; spaces in names as ``_``."""
        ...


def _wordnet() -> Lexicon:
    from .wordnet import WordNetLexicon

    return WordNetLexicon()


SOURCES: dict[str, Callable[[], Lexicon]] = {"wordnet": _wordnet}
"""How to open each source of synonyms, by the name that --synonym-source and --source take."""


def open_lexicon(source: str) -> Lexicon:
    """Opens a source of synonyms.

    Raises:
        TrueNegError: an unknown source, or one whose data is missing.
    """
    if source not in SOURCES:
        raise TrueNegError(f"--synonym-source: found {source!r}, expected one of {', '.join(sorted(SOURCES))}")
    return SOURCES[source]()
