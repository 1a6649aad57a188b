"""The sources of synonyms by name, tables of them and of expressions, and the tables that trainings find or build.

``wordnet+tsv`` lists what either lists, ``wordnet&tsv`` what both list, ``tsv-antonyms`` no antonyms. Expressions are
read from left to right. ``&`` compares words without regard to case: WordNet writes "Paris" where a list may have
"paris".
"""

from __future__ import annotations

import functools
import logging
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from ..errors import TrueNegError, reason
from ..files import VERSION, file_digest, require_same
from ..flags import option
from ..vocabulary import Vocabulary, fingerprint, without_accents
from ..workers import Progress
from .inflected import InflectedLexicon
from .lists import Lexicon, TsvLexicon
from .table import SynonymTable
from .wordnet import AntonymLexicon, WordNetLexicon

logger = logging.getLogger(__name__)

DEFAULT_SOURCE = "wordnet"
TABLE_NAME = "synonyms.npz"
EXCLUSIONS_NAME = "exclusions.npz"
_ANTONYMS = "antonyms"
_STEP = re.compile(r"([+&-])([a-z]+)")
_LOW_COVERAGE = 0.1


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """What tables of synonyms are made of."""

    tsv: Path | None = option(None, "for tsv: lines 'word<TAB>synonym,synonym'")
    exclude: Path | None = option(None, "pairs that are synonyms in no source, in the format of --tsv")

    def record(self, sources: Collection[str]) -> dict[str, Any]:
        """The SHA-256 of the files that a table from these sources was made of, JSON-able."""
        files = {"exclude": self.exclude, "tsv": self.tsv if "tsv" in sources else None}
        return {f"{name}_sha256": file_digest(path) for name, path in files.items() if path is not None}


SOURCES: dict[str, Callable[[Any], Lexicon]] = {
    "wordnet": lambda options: WordNetLexicon(),
    "inflected": lambda options: InflectedLexicon(),
    "tsv": lambda options: TsvLexicon(options.tsv),
}
"""How to open each source of synonyms, by the name that --synonym-source and --source take."""


def parse_source(source: str, flag: str = "--source") -> list[tuple[str, str]]:
    """The steps (sign, name) of an expression of sources, which was given with a flag; the first has "+"."""
    text = "+" + "".join(source.split())
    steps: list[tuple[str, str]] = _STEP.findall(text)
    fits = [name == _ANTONYMS if sign == "-" else name in SOURCES for sign, name in steps]
    if not fits or not all(fits) or "".join(map("".join, steps)) != text:
        raise TrueNegError(
            f"{flag} {source!r}: expected {', '.join(SOURCES)}, or some of them as in wordnet+tsv, "
            "wordnet&tsv or tsv-antonyms"
        )
    return steps


def normal_form(source: str, flag: str = "--source") -> str:
    """An expression of sources without white space."""
    return "".join(map("".join, parse_source(source, flag)))[1:]


def open_lexicon(name: str = DEFAULT_SOURCE, options: SourceOptions = SourceOptions()) -> Lexicon:
    """Opens a single source of synonyms."""
    if name == "tsv" and options.tsv is None:
        raise TrueNegError("source tsv: needs --tsv, an option of 'truneg synonyms build'")
    return SOURCES[name](options)


def build_table(
    source: str | Lexicon,
    vocabulary: Vocabulary,
    options: SourceOptions = SourceOptions(),
) -> SynonymTable:
    """The table of an expression of sources, or of one lexicon: every whole word of the vocabulary is looked up.

    Only names that are single whole-word tokens of the vocabulary enter the table: no other can ever be predicted. The
    word itself is left out. Stop words get no synonyms. In a vocabulary without accents (BERT's uncased ones) a word
    stands for every spelling that the lexicon lists: "cote" for "cote", "côte", "côté" and "coté". ``known_words``
    counts the vocabulary's words that are listed, stop words included: 62.5 % of BERT's words in WordNet (Section 3.2).
    """
    steps: Sequence[tuple[str, str | Lexicon]] = parse_source(source) if isinstance(source, str) else [("+", source)]
    recorded: dict[str, Any] = {}
    keys, known = np.empty(0, np.int64), np.zeros(len(vocabulary), dtype=np.bool_)
    for sign, name in steps:
        if isinstance(name, Lexicon):
            lexicon = name
        else:
            lexicon = AntonymLexicon(vocabulary.words) if sign == "-" else open_lexicon(name, options)
        found, listed = _look_up(lexicon, vocabulary, any_case=sign == "&")
        recorded |= lexicon.options
        if sign == "+":
            keys, known = np.union1d(keys, found), known | listed
        elif sign == "&":
            keys, known = np.intersect1d(keys, found), known & listed
        else:
            keys = np.setdiff1d(keys, found)
    if options.exclude is not None:
        excluded, _ = _look_up(TsvLexicon(options.exclude), vocabulary, any_case=True)
        gold, synonym = np.divmod(excluded, len(vocabulary))
        keys = np.setdiff1d(keys, np.concatenate([excluded, synonym * len(vocabulary) + gold]))
    golds, synonyms = np.divmod(keys, len(vocabulary))
    return SynonymTable(
        gold=golds.astype(np.int32),
        synonym=synonyms.astype(np.int32),
        vocabulary_size=len(vocabulary),
        fingerprint=vocabulary.fingerprint,
        tokenization=vocabulary.tokenization,
        source=source.source if isinstance(source, Lexicon) else normal_form(source),
        options=recorded | options.record([name for _, name in steps if isinstance(name, str)]),
        known_words=int(known.sum()),
        version=VERSION,
    )


def _look_up(
    lexicon: Lexicon, vocabulary: Vocabulary, *, any_case: bool = False
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The keys of a lexicon's pairs (:attr:`SynonymTable.pair_keys`), and which tokens it lists, bool, shape (V,).

    With ``any_case`` a name stands for every token that differs from it in case only.
    """
    ids_of = _token_ids(vocabulary, any_case=any_case)
    own_ids = _token_ids(vocabulary)
    stop_words = {*lexicon.stop_words, *map(vocabulary.spelled, lexicon.stop_words)}
    known = np.zeros(len(vocabulary), dtype=np.bool_)
    keys: list[int] = []
    words = {word for word in vocabulary.words if word is not None}
    spellings: dict[str, set[str]] = {}  # with accents, as the lexicon lists them, by the word without
    for accented in lexicon.accented(words) if vocabulary.strips_accents else ():
        spellings.setdefault(without_accents(accented).lower(), set()).add(accented)
    title = f"synonyms from {lexicon.source}"
    for gold, word in enumerate(Progress(vocabulary.words, desc=title, unit=" tokens", leave=False)):
        if word is None:
            continue
        names = [name for each in (word, *sorted(spellings.get(word, ()))) for name in lexicon.synonyms(each)]
        known[gold] = bool(names)
        if word.lower() in stop_words:
            continue
        others = names if lexicon.other_cases else [name for name in names if name.lower() != word.lower()]
        if any_case:
            forms = (vocabulary.spelled(name).lower() for name in others)
        else:
            forms = (form for name in others for form in _forms(name, word, vocabulary))
        synonyms = {token for form in forms for token in ids_of.get(form, ())}.difference(own_ids[word])
        keys += [gold * len(vocabulary) + token for token in sorted(synonyms)]
    return np.array(keys, dtype=np.int64), known


def predictable_names(names: Iterable[str], word: str, vocabulary: Vocabulary) -> list[str]:
    """The names of a word that are single whole-word tokens of a vocabulary, without the word itself."""
    ids_of = _token_ids(vocabulary)
    own = vocabulary.spelled(word)
    others = (name for name in names if name.lower() != word.lower())
    return [name for name in others if any(form in ids_of and form != own for form in _forms(name, word, vocabulary))]


def _token_ids(vocabulary: Vocabulary, *, any_case: bool = False) -> Mapping[str, list[int]]:
    ids: dict[str, list[int]] = {}
    for token, word in enumerate(vocabulary.words):
        if word is not None:
            ids.setdefault(word.lower() if any_case else word, []).append(token)
    return ids


def _forms(name: str, word: str, vocabulary: Vocabulary) -> list[str]:
    """How a listed name can be written in this vocabulary, given the gold word it stands for."""
    if vocabulary.lower_case:
        return [vocabulary.spelled(name)]
    if word.isupper() and len(word) > 1:
        return [name, name.upper()]
    return [name, name[:1].upper() + name[1:]] if word[:1].isupper() else [name]


def new_table(vocabulary: Vocabulary, source: str, options: SourceOptions = SourceOptions()) -> SynonymTable:
    """Builds the table of an expression, and says if it has few synonyms."""
    table = build_table(source, vocabulary, options)
    if len(table) == 0:
        raise TrueNegError(
            f"dictionary: {table.source} has no synonyms for any of its {len(vocabulary)} tokens (read as "
            f"{vocabulary.tokenization}); expected a vocabulary of words of the lexicon's language; check the "
            "dictionary, or set --tokenization"
        )
    if table.coverage < _LOW_COVERAGE:
        logger.warning(
            f"{table.source} knows only {100 * table.coverage:.1f} % of the dictionary's {len(vocabulary)} tokens "
            f"(read as {vocabulary.tokenization}): few false negatives can be found"
        )
    return table


def provide_table(
    vocabulary: Vocabulary, data: Path, table_path: Path | None = None, source: str | None = None
) -> SynonymTable:
    """The table given by path (--synonym-table), else the one beside the data, where one of several workers builds it;
    in the user's cache folder if that of the data cannot be written. It must be from the expression of sources
    ``source`` (--synonym-source), if that is given.
    """
    asked = None if source is None else normal_form(source, "--synonym-source")
    if table_path is not None:
        path, table = table_path, _load(table_path, vocabulary, asked, "leave --synonym-table out, and it is built")
    else:
        path = table_beside(data, asked)
        build = functools.partial(new_table, vocabulary, asked or DEFAULT_SOURCE)
        cached = cache_path(vocabulary, asked)
        table = _load_or_build(path, cached, vocabulary, asked, build)
        path = path if path.exists() else cached
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
    return default if fits else data / f"synonyms.{source.replace('&', ',')}.npz"  # a shell reads the character &


def provide_exclusions(vocabulary: Vocabulary, data: Path) -> SynonymTable:
    """The pairs that no score may accept, antonyms and other forms of a word: beside the data, else cached."""
    return _load_or_build(
        data / EXCLUSIONS_NAME,
        cache_path(vocabulary, "exclusions"),
        vocabulary,
        "antonyms and other forms",
        lambda: build_table(AntonymLexicon(vocabulary.words, other_forms=True), vocabulary),
    )


def cache_path(vocabulary: Vocabulary, source: str | None) -> Path:
    """Where the table goes when the data folder cannot be written: a file for each source, dictionary, understanding of
    its words and version of this package.
    """
    root = os.environ.get("XDG_CACHE_HOME")
    folder = (Path(root) if root else Path.home() / ".cache") / "truneg_fairseq"
    name = (source or DEFAULT_SOURCE).replace("&", ",")
    made_of = fingerprint([VERSION, *vocabulary.symbols, *(word or "" for word in vocabulary.words)])
    return folder / f"{name}-{vocabulary.tokenization}-{made_of[:16]}.npz"


def _load_or_build(
    path: Path, cached: Path, vocabulary: Vocabulary, source: str | None, build: Callable[[], SynonymTable]
) -> SynonymTable:
    """The table of one of two files, built there by one of several workers if it is missing."""
    for place in (path, cached):
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            if not place.exists():
                with FileLock(place.with_name(f".{place.name}.lock")):
                    if not place.exists():  # else another worker was faster
                        logger.info("%s: not there, building it from %s", place, source or DEFAULT_SOURCE)
                        table = build()
                        table.save(place)
                        return table
            return _load(place, vocabulary, source)
        except OSError as error:
            if place == cached:
                raise TrueNegError(
                    f"{path.parent}, {place.parent}: neither can be written ({reason(error)}); the synonym table is "
                    "kept in one of them, and XDG_CACHE_HOME can name another folder than the second"
                ) from None
            why = reason(error)
            logger.warning("%s: cannot be written (%s); the synonym table belongs in %s then", path.parent, why, cached)
    raise AssertionError


def _load(
    path: Path, vocabulary: Vocabulary, source: str | None, remedy: str = "remove it, and it is built again"
) -> SynonymTable:
    table = SynonymTable.load(path)
    table.check_dictionary(vocabulary.fingerprint, path, "the task's dictionary")
    made_with = {"--tokenization": table.tokenization, "--synonym-source": table.source}
    wanted = {"--tokenization": vocabulary.tokenization, "--synonym-source": source or table.source}
    require_same(str(path), made_with, wanted, remedy)
    return table
