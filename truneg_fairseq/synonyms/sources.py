"""The sources of synonyms by name, and expressions that combine them.

``wordnet+embeddings`` lists what either lists, ``wordnet&embeddings`` what both list, ``embeddings-antonyms`` no
antonyms. Expressions are read from left to right. Names are the same when they differ in case only: WordNet writes
"Paris" where a file of word vectors has "paris".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from ..errors import TrueNegError
from .embeddings import EmbeddingLexicon
from .exclusions import Antonyms
from .inflected import InflectedLexicon
from .lexicon import Lexicon
from .model import ModelLexicon
from .settings import NEEDS, LexiconSettings
from .tsv import TsvLexicon
from .wn import WnLexicon
from .wordnet_database import WordNetLexicon

SOURCES: dict[str, Callable[[LexiconSettings], Lexicon]] = {
    "wordnet": lambda settings: WordNetLexicon(),
    "inflected": lambda settings: InflectedLexicon(),
    "wn": WnLexicon,
    "embeddings": EmbeddingLexicon,
    "tsv": lambda settings: TsvLexicon(Path(settings.tsv or "")),
    "model": ModelLexicon,
}
"""How to open each source of synonyms, by the name that --synonym-source and --source take."""

DEFAULT_SOURCE = "wordnet"
_ANTONYMS = "antonyms"
_STEP = re.compile(r"([+&-])([a-z]+)")


@dataclass(frozen=True)
class Expression:
    """Sources and how they are combined."""

    steps: tuple[tuple[str, str], ...]  # (sign, name), the first with "+"; "-" is before antonyms only

    def __str__(self) -> str:
        return "".join(sign + name for sign, name in self.steps)[1:]

    @property
    def names(self) -> frozenset[str]:
        return frozenset(name for sign, name in self.steps if sign != "-")


def parse_source(source: str, flag: str = "--source") -> Expression:
    """Reads an expression of sources, which was given with a flag."""
    text = "+" + "".join(source.split())
    expression = Expression(tuple(_STEP.findall(text)))
    fits = [name == _ANTONYMS if sign == "-" else name in SOURCES for sign, name in expression.steps]
    if not fits or not all(fits) or f"+{expression}" != text:
        raise TrueNegError(
            f"{flag} {source!r}: expected {', '.join(SOURCES)}, or some of them as in wordnet+tsv, "
            "wordnet&embeddings or embeddings-antonyms"
        )
    return expression


def open_lexicon(source: str = DEFAULT_SOURCE, settings: LexiconSettings = LexiconSettings()) -> Lexicon:  # noqa: B008
    """Opens a source of synonyms, or an expression of several."""
    expression = parse_source(source)
    settings.check(expression.names)
    opened = {name: SOURCES[name](settings) for name in sorted(expression.names)}
    (_, first), *rest = expression.steps
    lexicon = opened[first]
    for sign, name in rest:
        if sign == "-":
            antonyms = Antonyms()
            lexicon = _Filtered(lexicon, antonyms.excludes, antonyms.options)
        else:
            lexicon = _OfTwo(sign, lexicon, opened[name])
    if settings.exclude is not None:
        lexicon = _Filtered(lexicon, TsvLexicon(settings.exclude).pairs, {})
    lexicon.source = str(expression)
    lexicon.options = {**lexicon.options, **settings.record(expression.names)}
    return lexicon


def open_lexicons(sources: Sequence[str] | None, settings: LexiconSettings) -> tuple[list[Lexicon], list[str]]:
    """Lexicons to be shown side by side, by default all that there is data for, and a line for each source without."""
    if sources is not None:
        return [open_lexicon(source, settings) for source in sources], []
    lexicons, unavailable = [], []
    for source in SOURCES:
        try:
            lexicons.append(open_lexicon(source, settings))
        except TrueNegError as error:
            if getattr(settings, NEEDS.get(source, ""), None) is not None:  # asked for: it must not fail in passing
                raise
            unavailable.append(f"not shown: {error}")
    if not lexicons:
        raise TrueNegError("; ".join(unavailable))
    return lexicons, unavailable


class _OfTwo(Lexicon):
    """The names of either of two lexicons or of both, ordered and spelled as in the first; each has its stop words."""

    def __init__(self, sign: str, left: Lexicon, right: Lexicon) -> None:
        self.options: dict[str, Any] = {**left.options, **right.options}
        self._sign = sign
        self._parts = (left, right)

    def prepare(self, words: Collection[str], *, show_progress: bool = False) -> None:
        for part in self._parts:
            part.prepare(words, show_progress=show_progress)

    def accented(self, words: Collection[str]) -> Iterable[str]:
        return chain.from_iterable(part.accented(words) for part in self._parts)

    def synonyms(self, word: str) -> list[str]:
        left, right = (_listed(part, word) for part in self._parts)
        if self._sign == "+":
            return list(dict.fromkeys([*left, *right]))
        common = {name.lower() for name in right}
        return [name for name in left if name.lower() in common]


class _Filtered(Lexicon):
    """A lexicon without the names that are excluded for a word; the word itself stays."""

    def __init__(self, lexicon: Lexicon, excludes: Callable[[str, str], bool], options: dict[str, Any]) -> None:
        self.options: dict[str, Any] = {**lexicon.options, **options}
        self.stop_words = lexicon.stop_words
        self._lexicon = lexicon
        self._excludes = excludes

    def prepare(self, words: Collection[str], *, show_progress: bool = False) -> None:
        self._lexicon.prepare(words, show_progress=show_progress)

    def accented(self, words: Collection[str]) -> Iterable[str]:
        return self._lexicon.accented(words)

    def synonyms(self, word: str) -> list[str]:
        names = self._lexicon.synonyms(word)
        return [name for name in names if name.lower() == word.lower() or not self._excludes(word, name)]


def _listed(lexicon: Lexicon, word: str) -> list[str]:
    """The names of a word; of a stop word, if it is known, the word alone."""
    names = list(lexicon.synonyms(word))
    return [word] if names and word.lower() in lexicon.stop_words else names
