"""Finds the synonym table of a training run, or builds it once for all its workers."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

from ..errors import TrueNegError, reason
from ..record import VERSION
from ..vocabulary import Vocabulary, fingerprint
from .builder import build_table
from .exclusions import ExclusionLexicon
from .settings import NEEDS, LexiconSettings
from .sources import DEFAULT_SOURCE, open_lexicon, parse_source
from .table import SynonymTable

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
