"""The sources of synonyms by name, and how an expression of names becomes one lexicon."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..errors import TrueNegError
from .combination import DifferenceLexicon, IntersectionLexicon, UnionLexicon
from .exclusion import AntonymExclusion, Exclusion, LexiconExclusion, ListExclusion
from .expression import ANTONYMS, Expression, Name, parse
from .lexicon import Lexicon
from .settings import LexiconSettings
from .tsv import TsvLexicon


def _wordnet(settings: LexiconSettings) -> Lexicon:
    from .wordnet import WordNetLexicon

    return WordNetLexicon()


def _inflected(settings: LexiconSettings) -> Lexicon:
    from .inflected import InflectedLexicon

    return InflectedLexicon()


def _omw(settings: LexiconSettings) -> Lexicon:
    from .omw import OmwLexicon

    assert settings.lang is not None
    return OmwLexicon(settings.lang, settings.flags)


def _embeddings(settings: LexiconSettings) -> Lexicon:
    from .embeddings import EmbeddingLexicon

    assert settings.vectors is not None
    return EmbeddingLexicon(settings)


def _tsv(settings: LexiconSettings) -> Lexicon:
    assert settings.tsv is not None
    return TsvLexicon(settings.tsv)


def _mythes(settings: LexiconSettings) -> Lexicon:
    from .mythes import MythesLexicon

    assert settings.lang is not None
    return MythesLexicon(settings.lang, settings.thesaurus, settings.flags)


def _wn(settings: LexiconSettings) -> Lexicon:
    from .wn import WnLexicon

    assert settings.wn is not None
    return WnLexicon(settings.wn, settings.flags)


def _model(settings: LexiconSettings) -> Lexicon:
    from .model import ModelLexicon

    return ModelLexicon(settings)


SOURCES: dict[str, Callable[[LexiconSettings], Lexicon]] = {
    "wordnet": _wordnet,
    "inflected": _inflected,
    "omw": _omw,
    "mythes": _mythes,
    "wn": _wn,
    "embeddings": _embeddings,
    "tsv": _tsv,
    "model": _model,
}
"""How to open each source of synonyms, by the name that --synonym-source and --source take."""

DEFAULT_SOURCE = "wordnet"


def parse_source(source: str | None, settings: LexiconSettings) -> Expression:
    """Reads a source expression (see :mod:`~.expression`) and checks the settings against it.

    Args:
        source: None for :data:`DEFAULT_SOURCE`.
        settings: what the user gave.
    """
    expression = parse(DEFAULT_SOURCE if source is None else source, SOURCES, settings.source_flag)
    settings.check(expression.names)
    return expression


def open_lexicon(source: str | None = None, settings: LexiconSettings = LexiconSettings()) -> Lexicon:  # noqa: B008
    """Opens a source of synonyms, or an expression of several.

    Args:
        source: for instance ``wordnet`` or ``wordnet+embeddings-antonyms``; None for :data:`DEFAULT_SOURCE`.
        settings: files, languages and limits of the sources, and the exclusion list.
    """
    expression = parse_source(source, settings)
    lexicon = _Opener(settings).open(expression)
    if settings.exclude is not None:
        lexicon = DifferenceLexicon(lexicon.source, lexicon, ListExclusion(TsvLexicon(settings.exclude)))
    lexicon.options = {**lexicon.options, **settings.record(expression.names)}
    return lexicon


class _Opener:
    """Opens each source once, however often the expression names it."""

    def __init__(self, settings: LexiconSettings) -> None:
        self._settings = settings
        self._opened: dict[str, Lexicon] = {}

    def open(self, expression: Expression) -> Lexicon:
        if isinstance(expression, Name):
            if expression.name not in self._opened:
                self._opened[expression.name] = SOURCES[expression.name](self._settings)
            return self._opened[expression.name]
        left = self.open(expression.left)
        if expression.operator == "-":
            return DifferenceLexicon(str(expression), left, self._exclusion(expression.right))
        combine = UnionLexicon if expression.operator == "+" else IntersectionLexicon
        return combine(str(expression), left, self.open(expression.right))

    def _exclusion(self, expression: Expression) -> Exclusion:
        if expression == Name(ANTONYMS):
            return AntonymExclusion()
        return LexiconExclusion(self.open(expression))


def open_lexicons(sources: Sequence[str] | None, settings: LexiconSettings) -> tuple[list[Lexicon], list[str]]:
    """Lexicons to be shown side by side.

    Args:
        sources: expressions; None for every source that there is data for.
        settings: what the user gave.

    Returns:
        The lexicons, and a line for each source without data.
    """
    if sources is not None:
        expressions = [parse(source, SOURCES, settings.source_flag) for source in sources]
        settings.check(frozenset().union(*(expression.names for expression in expressions)))
        return [open_lexicon(str(each), settings.only_for(each.names)) for each in expressions], []
    settings.check(frozenset(source for source in SOURCES if settings.lacks(source) is None))
    lexicons, unavailable = [], []
    for source in SOURCES:
        if (flag := settings.lacks(source)) is not None:
            unavailable.append(f"not shown: {source} needs {flag}")
            continue
        try:
            lexicons.append(open_lexicon(source, settings.only_for([source])))
        except TrueNegError as error:
            if settings.name_data:  # what was asked for must not fail in passing
                raise
            unavailable.append(f"not shown: {source}: {error}")
    if not lexicons:
        raise TrueNegError("; ".join(unavailable))
    return lexicons, unavailable
