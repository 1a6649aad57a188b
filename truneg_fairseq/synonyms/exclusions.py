"""Antonyms and other forms of the same word: close in embedding space, but never false negatives."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..vocabulary import Vocabulary
from .lexicon import Lexicon
from .stop_words import is_content_word
from .wordnet_database import PARTS_OF_SPEECH, Synset, WordNetDatabase, open_database

_UNITS = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
_REST = "eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety zero hundred thousand million billion"
_ORDINALS = "second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth twentieth thirtieth hundredth"
_MORE = "first trillion dozen dozens hundreds thousands millions billions once twice thrice half halves quarter"
_NUMBER_WORDS = frozenset(f"{_UNITS} {_REST} {_ORDINALS} {_MORE}".split())


class Antonyms:
    """WordNet's antonyms in all their forms: "cold" for "hot", and "fell" for "rose" as well as "fall".

    WordNet links lemmas: two words are antonyms where a lemma of the one is linked to a lemma of the other, by
    WordNet's morphology. Adjectives have indirect antonyms too, which WordNet gives by the heads of their clusters:
    "warm" and "cold" are opposites because "hot" and "cold" are. An indirect one that shares a synset with the word is
    none: "serious" is far from "severe" in one sense, and the same in another.
    """

    def __init__(self) -> None:
        self._database = open_database()
        self.options: dict[str, Any] = {"wordnet": self._database.version}
        # Bound to the object, not to the class.
        self.antonyms = lru_cache(maxsize=16)(self._antonyms)

    def excludes(self, word: str, name: str) -> bool:
        """Whether the name is an antonym of the word."""
        antonyms = self.antonyms(word)
        return bool(antonyms) and not antonyms.isdisjoint(readings(self._database, name))

    def _antonyms(self, word: str) -> frozenset[tuple[str, str]]:
        """The lemmas, each with its part of speech, that are antonyms of a lemma of a word."""
        direct: set[tuple[str, str]] = set()
        indirect: set[tuple[str, str]] = set()
        synonyms: set[tuple[str, str]] = set()
        for lemma, pos in readings(self._database, word):
            synsets = self._database.synsets(lemma, pos)
            linked = [(name, antonym) for synset in synsets for name, antonym in synset.antonyms]
            direct.update((antonym.lower(), pos) for name, antonym in linked if name.lower() == lemma)
            synonyms.update((name.lower(), pos) for synset in synsets for name in synset.names)
            if pos == "a":
                heads = {antonym.lower() for near in self._clusters(synsets) for _, antonym in near.antonyms}
                opposites = [synset for head in heads for synset in self._database.synsets(head, "a")]
                indirect.update((name.lower(), "a") for near in self._clusters(opposites) for name in near.names)
        return frozenset(direct | (indirect - synonyms))

    def _clusters(self, synsets: list[Synset]) -> list[Synset]:
        return [near for synset in synsets for near in (synset, *self._database.similar(synset))]


class ExclusionLexicon(Lexicon):
    """Lists for a word its antonyms in all their forms and the other forms of its own lemmas, by WordNet.

    A table of them tells the detectors that score what never to accept. Only words that are prepared for are listed.
    """

    source = "antonyms and other forms"

    def __init__(self) -> None:
        self._database = open_database()
        self._antonyms = Antonyms()
        self.options: dict[str, Any] = {"wordnet": self._database.version}
        self._words_of: defaultdict[tuple[str, str], set[str]] = defaultdict(set)

    def prepare(self, words: Collection[str], *, show_progress: bool = False) -> None:
        """Groups the words by their lemmas."""
        for word in words:
            for lemma in readings(self._database, word):
                self._words_of[lemma].add(word)

    def synonyms(self, word: str) -> list[str]:
        """The words that are never accepted in place of this one, sorted."""
        lemmas = readings(self._database, word) | self._antonyms.antonyms(word)
        found = set[str]().union(*(self._words_of.get(lemma, ()) for lemma in lemmas))
        return sorted(found - {word})


def readings(database: WordNetDatabase, word: str) -> set[tuple[str, str]]:
    """The lemmas of a word, each with its part of speech."""
    return {(lemma, pos) for pos in PARTS_OF_SPEECH for lemma in database.lemmas(word.lower(), pos)}


def eligible_words(vocabulary: Vocabulary) -> NDArray[np.bool_]:
    """The tokens that a score can accept or be accepted for: whole content words, without numbers; bool, shape (V,)."""
    words = (word or "" for word in vocabulary.words)
    return np.array([is_content_word(word) and word.lower() not in _NUMBER_WORDS for word in words], dtype=np.bool_)
