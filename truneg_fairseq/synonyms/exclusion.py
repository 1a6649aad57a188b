"""Pairs of words that do not count as synonyms, even where a lexicon lists them."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import Any, Protocol

from .lexicon import Lexicon, prepare
from .tsv import TsvLexicon
from .wordnet_database import PARTS_OF_SPEECH, WordNetDatabase, open_database


class Exclusion(Protocol):
    """Answers "is this name no synonym of that word"."""

    options: dict[str, Any]  # what decides its answers, JSON-able; recorded in every table

    def prepare(self, words: Collection[str], *, show_progress: bool = False) -> None:
        """See :class:`~.lexicon.BulkLexicon`."""
        ...

    def excludes(self, word: str, name: str) -> bool:
        """Whether the name is excluded from the synonyms of the word."""
        ...


class LexiconExclusion:
    """Excludes what a lexicon lists: the right side of a difference."""

    def __init__(self, lexicon: Lexicon) -> None:
        self.options: dict[str, Any] = dict(lexicon.options)
        self._lexicon = lexicon
        self._names = lru_cache(maxsize=16)(self._listed)

    def prepare(self, words: Collection[str], *, show_progress: bool = False) -> None:
        """See :class:`~.lexicon.BulkLexicon`."""
        prepare(self._lexicon, words, show_progress=show_progress)

    def excludes(self, word: str, name: str) -> bool:
        """See :class:`Exclusion`."""
        return name.lower() in self._names(word)

    def _listed(self, word: str) -> frozenset[str]:
        return frozenset(name.lower() for name in self._lexicon.synonyms(word))


class ListExclusion:
    """Excludes the pairs of a user's list, in both directions and whatever their case."""

    def __init__(self, pairs: TsvLexicon) -> None:
        self.options: dict[str, Any] = {}
        self._pairs = pairs

    def prepare(self, words: Collection[str], *, show_progress: bool = False) -> None:
        """Nothing to prepare."""

    def excludes(self, word: str, name: str) -> bool:
        """See :class:`Exclusion`."""
        return self._lists(word, name) or self._lists(name, word)

    def _lists(self, word: str, name: str) -> bool:
        return name.lower() in map(str.lower, self._pairs.in_any_case(word))


class AntonymExclusion:
    """Excludes WordNet's antonyms in all their forms: "cold" for "hot", and "fell" for "rose" as well as "fall".

    WordNet links lemmas: a name is excluded where one of its lemmas is an antonym of one of the word's, by WordNet's
    morphology. Of adjectives the indirect antonyms are excluded too, which WordNet gives by the heads of their
    clusters: "warm" and "cold" are opposites because "hot" and "cold" are. An indirect one that shares a synset with
    the word stays: "serious" is far from "severe" in one sense, and the same in another.
    """

    def __init__(self, database: WordNetDatabase | None = None) -> None:
        self._database = database or open_database()
        self.options: dict[str, Any] = {"wordnet": self._database.version}
        self._antonyms_of = lru_cache(maxsize=16)(self._antonyms)

    def prepare(self, words: Collection[str], *, show_progress: bool = False) -> None:
        """Nothing to prepare."""

    def excludes(self, word: str, name: str) -> bool:
        """See :class:`Exclusion`."""
        antonyms = self.antonyms(word)
        if not antonyms:
            return False
        name = name.lower()
        lemmas = {(lemma, pos) for pos in PARTS_OF_SPEECH for lemma in self._database.lemmas(name, pos)}
        return not lemmas.isdisjoint(antonyms)

    def antonyms(self, word: str) -> frozenset[tuple[str, str]]:
        """The lemmas, each with its part of speech, that are antonyms of one of a word's."""
        return self._antonyms_of(word.lower())

    def _antonyms(self, word: str) -> frozenset[tuple[str, str]]:
        readings = [(lemma, pos) for pos in PARTS_OF_SPEECH for lemma in self._database.lemmas(word, pos)]
        direct = {
            (antonym.lower(), pos)
            for lemma, pos in readings
            for synset in self._database.synsets(lemma, pos)
            for name, antonym in synset.antonyms
            if name.lower() == lemma
        }
        indirect: set[tuple[str, str]] = set().union(
            *(self._opposite_cluster(lemma) for lemma, pos in readings if pos == "a")
        )
        synonyms = {
            (name.lower(), pos)
            for lemma, pos in readings
            for synset in self._database.synsets(lemma, pos)
            for name in synset.names
        }
        return frozenset(direct | (indirect - synonyms))

    def _opposite_cluster(self, adjective: str) -> set[tuple[str, str]]:
        clusters = [
            near
            for synset in self._database.synsets(adjective, "a")
            for near in (synset, *self._database.similar(synset))
        ]
        heads = {antonym.lower() for synset in clusters for _, antonym in synset.antonyms}
        opposites = [synset for head in heads for synset in self._database.synsets(head, "a")]
        return {
            (name.lower(), "a")
            for synset in opposites
            for near in (synset, *self._database.similar(synset))
            for name in near.names
        }
