"""What the package asks of WordNet: lemmas, names, antonyms and clusters, as NLTK (3.9 or later) reads them."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from .lexicon import Lexicon
from .stop_words import ENGLISH_STOP_WORDS
from .wordnet_data import require_wordnet

PAPERS_VERSION = "3.0"
"""The WordNet of the paper's tables."""

PARTS_OF_SPEECH = ("n", "v", "a", "r")
"""Nouns, verbs, adjectives (satellites included) and adverbs, as WordNet writes them and in NLTK's order."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Synset:
    """A set of synonyms."""

    names: tuple[str, ...]  # the lemma names, spaces as ``_``
    antonyms: tuple[tuple[str, str], ...]  # (name, antonym) pairs: antonymy holds between words, not between sets
    similar: tuple[int, ...]  # offsets of the adjectives' synsets called similar


class WordNetDatabase:
    """WordNet's lemmas and synsets, of NLTK's ``WordNetCorpusReader``."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader
        self.version: str = reader.get_version() or "unknown"
        # Bound to the object, not to the class: the caches go when the database goes.
        self.lemmas: Callable[[str, str], tuple[str, ...]] = lru_cache(maxsize=1 << 17)(self._lemmas)
        self._synset: Callable[[str, int], Synset] = lru_cache(maxsize=1 << 18)(self._read_synset)

    def _lemmas(self, word: str, pos: str) -> tuple[str, ...]:
        """The lemmas of a word in lower case: itself where WordNet lists it, then its base forms."""
        return tuple(self._reader._morphy(word, pos))  # morphy() gives the first one only

    def synsets(self, lemma: str, pos: str) -> list[Synset]:
        """The synsets of one lemma (lower case, spaces as ``_``) in one part of speech, without morphology."""
        offsets = self._reader._lemma_pos_offset_map.get(lemma, {}).get(pos, ())
        return [self._synset(pos, offset) for offset in offsets]

    def similar(self, synset: Synset) -> list[Synset]:
        """The synsets that WordNet calls similar to one: of an adjective the rest of its cluster, or the head of it."""
        return [self._synset("a", offset) for offset in synset.similar]

    def synsets_of(self, word: str) -> list[Synset]:
        """The synsets of a word in any form, in every part of speech; only those that list its spelling, if some do.

        "Polish" has no synset of "polish", and "Paris" none of "paris"; a word in lower case has both kinds.
        """
        lower = word.lower()
        readings = [(lemma, pos) for pos in PARTS_OF_SPEECH for lemma in self.lemmas(lower, pos)]
        synsets = [synset for lemma, pos in readings for synset in self.synsets(lemma, pos)]
        return ([each for each in synsets if word in each.names] if word != lower else []) or synsets

    def _read_synset(self, pos: str, offset: int) -> Synset:
        synset = self._reader.synset_from_pos_and_offset(pos, offset)
        antonyms = [(lemma.name(), other.name()) for lemma in synset.lemmas() for other in lemma.antonyms()]
        similar = [other.offset() for other in synset.similar_tos()]
        return Synset(tuple(synset.lemma_names()), tuple(antonyms), tuple(similar))


class WordNetLexicon(Lexicon):
    """The paper's source: all lemma names of all synsets of a word in every part of speech, with WordNet's morphology.

    With WordNet 3.0 this gives the 13 names of Figure 3 for "primary".
    """

    source = "wordnet"
    stop_words = ENGLISH_STOP_WORDS

    def __init__(self) -> None:
        self._database = open_database()
        self.options: dict[str, Any] = {"wordnet": self._database.version}

    def synonyms(self, word: str) -> list[str]:
        return sorted({name for synset in self._database.synsets_of(word) for name in synset.names})


def open_database() -> WordNetDatabase:
    """The WordNet that NLTK finds, read once."""
    return _read(require_wordnet())


@lru_cache(maxsize=1)
def _read(location: Path) -> WordNetDatabase:
    from nltk.corpus.reader import WordNetCorpusReader

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it knows no other languages
        root = str(location) if location.is_dir() else f"{location}/wordnet/"
        database = WordNetDatabase(WordNetCorpusReader(root, None))
    if database.version != PAPERS_VERSION:
        _logger.warning(
            f"{location}: is WordNet {database.version}, the paper has {PAPERS_VERSION}: other synonyms; 'truneg "
            f"wordnet' gets {PAPERS_VERSION}"
        )
    return database
