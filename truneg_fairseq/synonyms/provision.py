"""Finds the synonym table of a training run, or builds it once for all its workers."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock

from ..errors import TrueNegError, reason
from ..vocabulary import Vocabulary
from .builder import build_table
from .exclusions import ExclusionLexicon
from .settings import LexiconSettings
from .sources import DEFAULT_SOURCE, open_lexicon, parse_source
from .table import SynonymTable

logger = logging.getLogger(__name__)

TABLE_NAME = "synonyms.npz"
EXCLUSIONS_NAME = "exclusions.npz"
_LOW_COVERAGE = 0.1


class _Request(NamedTuple):
    """The source and settings that the user asks for."""

    source: str | None  # the expression in its normal form, or None where any table will do
    settings: LexiconSettings  # of the sources
    options: dict[str, Any]  # what of the settings a table remembers; empty where any table will do


def provide_table(
    vocabulary: Vocabulary,
    data: Path,
    table_path: Path | None = None,
    source: str | None = None,
    settings: LexiconSettings = LexiconSettings(flags="--synonym-"),  # noqa: B008  (frozen)
) -> SynonymTable:
    """The table given by path, or the one beside the data, or a new one beside the data.

    Beside the data :data:`TABLE_NAME` is the table of those who ask for no source. Another source or other settings
    have a file of their own, so runs with different ones share a folder. Of several workers one builds and the others
    wait. Where the data folder cannot be written the table goes to the user's cache folder, which is said in the log.

    Args:
        table_path: an existing table (--synonym-table).
        source: an expression of sources (--synonym-source), None for WordNet, or whatever the given table is from.
        settings: of the sources; a table that is there must be from the same, files by their content.
    """
    request = _request(source, settings)
    path = table_path or _place_beside(data, request)
    if table_path is not None:
        table = _load(table_path, vocabulary, request, "leave --synonym-table out, and it is built")
    else:
        cached = cache_path(vocabulary, request.source, request.options)
        build = lambda: new_table(vocabulary, request.source, settings)  # noqa: E731
        table = _load_or_build(path, cached, vocabulary, request, build)
    logger.info("synonym table %s: %s", path, table.summary)
    return table


def table_beside(data: Path, source: str | None, settings: LexiconSettings) -> Path:
    """Where the table of a run with this source and these settings is, or will be built."""
    return _place_beside(data, _request(source, settings))


def provide_exclusions(vocabulary: Vocabulary, data: Path) -> SynonymTable:
    """The pairs that no score may accept (:mod:`~.exclusions`), beside the data, else cached."""
    request = _Request(ExclusionLexicon.source, LexiconSettings(), {})
    cached = cache_path(vocabulary, "exclusions")
    build = lambda: build_table(ExclusionLexicon(), vocabulary, other_cases=True, show_progress=True)  # noqa: E731
    return _load_or_build(data / EXCLUSIONS_NAME, cached, vocabulary, request, build)


def new_table(
    vocabulary: Vocabulary,
    source: str | None = None,
    settings: LexiconSettings = LexiconSettings(),  # noqa: B008  (frozen)
) -> SynonymTable:
    """Builds a table with a progress bar."""
    lexicon = open_lexicon(source, settings)
    table = build_table(lexicon, vocabulary, show_progress=True)
    if len(table) == 0:
        raise TrueNegError(
            f"dictionary: {lexicon.source} has no synonyms for any of its {len(vocabulary)} tokens (read as "
            f"{vocabulary.tokenization}); expected a vocabulary of words of the lexicon's language; check the "
            "dictionary, or set --tokenization"
        )
    if table.coverage < _LOW_COVERAGE:
        logger.warning(
            "%s knows only %.1f %% of the dictionary's %d tokens (read as %s): few false negatives can be found",
            lexicon.source,
            100 * table.coverage,
            len(vocabulary),
            vocabulary.tokenization,
        )
    return table


def cache_path(vocabulary: Vocabulary, source: str | None, options: dict[str, Any] | None = None) -> Path:
    """Where the table goes when the data folder cannot be written; each source and dictionary has a file."""
    root = os.environ.get("XDG_CACHE_HOME")
    folder = (Path(root) if root else Path.home() / ".cache") / "truneg_fairseq"
    made_from = _made_from(source or DEFAULT_SOURCE, options)
    return folder / f"{made_from}-{vocabulary.tokenization}-{vocabulary.fingerprint[:16]}.npz"


def _made_from(source: str, options: dict[str, Any] | None) -> str:
    """A source and its options in the name of a file, without characters that a shell reads."""
    name = source.replace("&", ",")
    if not options:
        return name
    return f"{name}-{hashlib.sha256(json.dumps(options, sort_keys=True).encode()).hexdigest()[:8]}"


def _place_beside(data: Path, request: _Request) -> Path:
    default = data / TABLE_NAME
    if request.source is None:
        return default
    if default.exists():
        fits = _difference(SynonymTable.load(default), request) is None
    else:
        fits = request.source == DEFAULT_SOURCE and not request.options
    return default if fits else data / f"synonyms.{_made_from(request.source, request.options)}.npz"


def _request(source: str | None, settings: LexiconSettings) -> _Request:
    expression = parse_source(source, settings)
    if source is None and settings.exclude is None:
        return _Request(None, settings, {})
    return _Request(str(expression), settings, settings.record(expression.names))


def _load_or_build(
    path: Path, cached: Path, vocabulary: Vocabulary, request: _Request, build: Callable[[], SynonymTable]
) -> SynonymTable:
    try:
        return _build_once(path, vocabulary, request, build)
    except OSError as error:
        logger.warning(
            "%s: cannot be written (%s); the synonym table is kept in %s", path.parent, reason(error), cached
        )
    return _build_once(cached, vocabulary, request, build)


def _build_once(
    path: Path, vocabulary: Vocabulary, request: _Request, build: Callable[[], SynonymTable]
) -> SynonymTable:
    if path.exists():
        return _load(path, vocabulary, request)
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_name(f".{path.name}.lock")):
        if path.exists():  # another worker was faster
            return _load(path, vocabulary, request)
        logger.info("%s: not there, building it from %s", path, request.source or DEFAULT_SOURCE)
        table = build()
        table.save(path)
        return table


def _load(
    path: Path, vocabulary: Vocabulary, request: _Request, remedy: str = "remove it, and it is built again"
) -> SynonymTable:
    table = SynonymTable.load(path)
    table.check_dictionary(vocabulary.fingerprint, path, "the task's dictionary")
    if table.tokenization != vocabulary.tokenization:
        raise TrueNegError(
            f"{path}: was built for {table.tokenization} tokens, but --tokenization reads the dictionary as "
            f"{vocabulary.tokenization}; expected the same; build the table again with that flag"
        )
    if (told := _difference(table, request)) is not None:
        raise TrueNegError(f"{path}: {told}; expected the same; {remedy}")
    return table


def _difference(table: SynonymTable, request: _Request) -> str | None:
    """What a table was made from that the user does not ask for; None where it is what they ask for."""
    if request.source is None:
        return None
    flags = request.settings.flags
    if table.source != request.source:
        return f"its synonyms are from {table.source}, but {flags}source is {request.source}"
    for option in dict.fromkeys((*request.options, "exclude_sha256")):  # a list is recorded only where it was given
        found, wanted = table.options.get(option), request.options.get(option)
        if found != wanted:
            flag = f"{flags}{option.removesuffix('_sha256')}"
            return f"was built with {option} {found!s:.12}, but {flag} gives {wanted!s:.12}"
    return None
