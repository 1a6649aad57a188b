"""The sources of synonyms by name, and expressions that combine them.

``wordnet+embeddings`` lists what either lists, ``wordnet&embeddings`` what both list, ``embeddings-antonyms`` no
antonyms. Expressions are read from left to right. Names are the same when they differ in case only: WordNet writes
"Paris" where a file of word vectors has "paris".
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock

from ..errors import TrueNegError, reason
from ..files import VERSION
from ..vocabulary import Vocabulary, fingerprint, without_accents
from ..workers import Progress
from .inflected import InflectedLexicon
from .lists import NEEDS, Lexicon, LexiconSettings, TsvLexicon, WnLexicon
from .model import ModelLexicon
from .table import SynonymTable
from .vectors import EmbeddingLexicon, pair_cosines
from .wordnet import Antonyms, ExclusionLexicon, WordNetLexicon


def build_table(
    lexicon: Lexicon,
    vocabulary: Vocabulary,
    *,
    other_cases: bool = False,
    vectors: Path | None = None,
    show_progress: bool = False,
) -> SynonymTable:
    """Looks every whole word of the vocabulary up.

    Only names that are single whole-word tokens of the vocabulary enter the table: no other can ever be predicted. The
    word itself is left out. Stop words get no synonyms. In a vocabulary without accents (BERT's uncased ones) a word
    stands for every spelling that the lexicon lists: "cote" for "cote", "côte", "côté" and "coté".

    With ``other_cases``, another case of the word itself may enter too. With a file of word vectors the table has the
    cosine of each pair. Its ``known_words`` counts the vocabulary's words that the lexicon lists, stop words included:
    62.5 % of BERT's words in WordNet (Section 3.2).
    """
    ids_of = _token_ids(vocabulary)
    stop_words = {*lexicon.stop_words, *map(vocabulary.spelled, lexicon.stop_words)}
    gold_ids: list[int] = []
    synonym_ids: list[int] = []
    known_words = 0
    words = dict.fromkeys(word for word in vocabulary.words if word is not None)
    spellings: dict[str, set[str]] = {}  # with accents, as the lexicon lists them, by the word without
    for accented in lexicon.accented(words) if vocabulary.strips_accents else ():
        spellings.setdefault(without_accents(accented).lower(), set()).add(accented)
    lexicon.prepare({**words, **dict.fromkeys(chain(*spellings.values()))}, show_progress=show_progress)
    title = f"synonyms from {lexicon.source}"
    for gold, word in enumerate(Progress(vocabulary.words, desc=title, unit=" tokens", disable=not show_progress)):
        if word is None:
            continue
        spelled = [word, *sorted(spellings.get(word, ()))]
        names = [name for each in spelled for name in lexicon.synonyms(each)]
        if not names:
            continue
        known_words += 1
        if word.lower() in stop_words:
            continue
        others = names if other_cases else [name for name in names if name.lower() != word.lower()]
        forms = (form for name in others for form in _forms(name, word, vocabulary))
        synonyms = {token for form in forms for token in ids_of.get(form, ())}
        synonyms.difference_update(ids_of[word])
        gold_ids.extend([gold] * len(synonyms))
        synonym_ids.extend(sorted(synonyms))
    gold_tokens, synonym_tokens = (np.asarray(ids, dtype=np.int32) for ids in (gold_ids, synonym_ids))
    return SynonymTable(
        gold=gold_tokens,
        synonym=synonym_tokens,
        cosine=None if vectors is None else pair_cosines(vectors, vocabulary.words, gold_tokens, synonym_tokens),
        vocabulary_size=len(vocabulary),
        fingerprint=vocabulary.fingerprint,
        tokenization=vocabulary.tokenization,
        source=lexicon.source,
        options=dict(lexicon.options),
        known_words=known_words,
        version=VERSION,
    )


def predictable_names(names: Iterable[str], word: str, vocabulary: Vocabulary) -> list[str]:
    """The names of a word that are single whole-word tokens of a vocabulary, without the word itself."""
    ids_of = _token_ids(vocabulary)
    own = vocabulary.spelled(word)
    others = (name for name in names if name.lower() != word.lower())
    return [name for name in others if any(form in ids_of and form != own for form in _forms(name, word, vocabulary))]


def _token_ids(vocabulary: Vocabulary) -> dict[str, list[int]]:
    ids: dict[str, list[int]] = {}
    for token, word in enumerate(vocabulary.words):
        if word is not None:
            ids.setdefault(word, []).append(token)
    return ids


def _forms(name: str, word: str, vocabulary: Vocabulary) -> list[str]:
    """How a listed name can be written in this vocabulary, given the gold word it stands for."""
    if vocabulary.lower_case:
        return [vocabulary.spelled(name)]
    if word.isupper() and len(word) > 1:
        return [name, name.upper()]
    return [name, name[:1].upper() + name[1:]] if word[:1].isupper() else [name]


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


logger = logging.getLogger(__name__)

TABLE_NAME = "synonyms.npz"
EXCLUSIONS_NAME = "exclusions.npz"
_LOW_COVERAGE = 0.1


def provide_table(
    vocabulary: Vocabulary, data: Path, table_path: Path | None = None, source: str | None = None
) -> SynonymTable:
    """The table given by path (--synonym-table), or the one beside the data, or a new one beside the data.

    Of several workers one builds and the others wait. Where the data folder cannot be written the table goes to the
    user's cache folder, which is said in the log. A table that is there must be from the expression of sources
    ``source`` (--synonym-source), where it is given.
    """
    expression = None if source is None else parse_source(source, "--synonym-source")
    asked = None if expression is None else str(expression)
    if table_path is not None:
        path, table = table_path, _load(table_path, vocabulary, asked, "leave --synonym-table out, and it is built")
    else:
        path = table_beside(data, asked)
        flags = [f"--{NEEDS[name]}" for name in sorted(NEEDS) if expression is not None and name in expression.names]

        def build() -> SynonymTable:
            if flags:
                raise TrueNegError(
                    f"--synonym-source {source}: needs {' and '.join(flags)} of 'truneg synonyms build'; build the "
                    "table with that command, and give it with --synonym-table"
                )
            return new_table(vocabulary, asked or DEFAULT_SOURCE)

        table = _load_or_build(path, cache_path(vocabulary, asked), vocabulary, asked, build)
        if table.version != VERSION:
            logger.warning(f"{path}: was built by another version than {VERSION}; remove it, and it is built again")
    logger.info("synonym table %s: %s", path, table.summary)
    return table


def table_beside(data: Path, source: str | None) -> Path:
    """Where the table of a source is, or will be built; :data:`TABLE_NAME` is that of runs that ask for no source."""
    default = data / TABLE_NAME
    if source is None:
        return default
    fits = SynonymTable.load(default).source == source if default.exists() else source == DEFAULT_SOURCE
    return default if fits else data / f"synonyms.{_in_file_names(source)}.npz"


def provide_exclusions(vocabulary: Vocabulary, data: Path) -> SynonymTable:
    """The pairs that no score may accept (:mod:`~.exclusions`), beside the data, else cached."""
    cached = cache_path(vocabulary, "exclusions")
    build = lambda: build_table(ExclusionLexicon(), vocabulary, other_cases=True, show_progress=True)  # noqa: E731
    return _load_or_build(data / EXCLUSIONS_NAME, cached, vocabulary, ExclusionLexicon.source, build)


def new_table(
    vocabulary: Vocabulary,
    source: str,
    settings: LexiconSettings = LexiconSettings(),  # noqa: B008  (frozen)
) -> SynonymTable:
    """Builds a table with a progress bar."""
    lexicon = open_lexicon(source, settings)
    table = build_table(lexicon, vocabulary, vectors=settings.vectors, show_progress=True)
    if len(table) == 0:
        raise TrueNegError(
            f"dictionary: {lexicon.source} has no synonyms for any of its {len(vocabulary)} tokens (read as "
            f"{vocabulary.tokenization}); expected a vocabulary of words of the lexicon's language; check the "
            "dictionary, or set --tokenization"
        )
    if table.coverage < _LOW_COVERAGE:
        logger.warning(
            f"{lexicon.source} knows only {100 * table.coverage:.1f} % of the dictionary's {len(vocabulary)} tokens "
            f"(read as {vocabulary.tokenization}): few false negatives can be found"
        )
    return table


def cache_path(vocabulary: Vocabulary, source: str | None) -> Path:
    """Where the table goes when the data folder cannot be written: a file for each source, dictionary, understanding of
    its words and version of this package.
    """
    root = os.environ.get("XDG_CACHE_HOME")
    folder = (Path(root) if root else Path.home() / ".cache") / "truneg_fairseq"
    name = _in_file_names(source or DEFAULT_SOURCE)
    made_of = fingerprint([VERSION, *vocabulary.symbols, *(word or "" for word in vocabulary.words)])
    return folder / f"{name}-{vocabulary.tokenization}-{made_of[:16]}.npz"


def _in_file_names(source: str) -> str:
    """A source without the character that a shell reads."""
    return source.replace("&", ",")


def _load_or_build(
    path: Path, cached: Path, vocabulary: Vocabulary, source: str | None, build: Callable[[], SynonymTable]
) -> SynonymTable:
    try:
        return _build_once(path, vocabulary, source, build)
    except OSError as error:
        why = reason(error)
        logger.warning("%s: cannot be written (%s); the synonym table is kept in %s", path.parent, why, cached)
    return _build_once(cached, vocabulary, source, build)


def _build_once(
    path: Path, vocabulary: Vocabulary, source: str | None, build: Callable[[], SynonymTable]
) -> SynonymTable:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        with FileLock(path.with_name(f".{path.name}.lock")):
            if not path.exists():  # else another worker was faster
                logger.info("%s: not there, building it from %s", path, source or DEFAULT_SOURCE)
                table = build()
                table.save(path)
                return table
    return _load(path, vocabulary, source)


def _load(
    path: Path, vocabulary: Vocabulary, source: str | None, remedy: str = "remove it, and it is built again"
) -> SynonymTable:
    table = SynonymTable.load(path)
    table.check_dictionary(vocabulary.fingerprint, path, "the task's dictionary")
    if table.tokenization != vocabulary.tokenization:
        raise TrueNegError(
            f"{path}: was built for {table.tokenization} tokens, but --tokenization reads the dictionary as "
            f"{vocabulary.tokenization}; expected the same; build the table again with that flag"
        )
    if source not in (None, table.source):
        raise TrueNegError(
            f"{path}: its synonyms are from {table.source}, but --synonym-source is {source}; expected the same; "
            f"{remedy}"
        )
    return table
