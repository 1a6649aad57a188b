"""The pairs that are near in any embedding and yet no excuse for a mistake: antonyms, and other forms of the same word.

They become a table of the dictionary like any synonyms', beside the data, for the detectors that score
(:mod:`truneg_fairseq.objectives.detectors`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..vocabulary import Vocabulary
from .exclusion import AntonymExclusion
from .stop_words import is_content_word
from .wordnet_database import PARTS_OF_SPEECH, WordNetDatabase, open_database

_UNITS = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
_REST = "eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety zero hundred thousand million billion"
_ORDINALS = "second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth twentieth thirtieth hundredth"
_MORE = "first trillion dozen dozens hundreds thousands millions billions once twice thrice half halves quarter"
NUMBER_WORDS = frozenset(f"{_UNITS} {_REST} {_ORDINALS} {_MORE}".split())
"""English number words: one for another changes what a sentence says."""


class NoExcuseLexicon:
    """Lists for a word its antonyms in all their forms and the other forms of its own lemmas, by WordNet.

    Only words that are prepared for are listed: it is to be asked through :func:`~.builder.build_table`.
    """

    source = "antonyms and other forms"
    stop_words: frozenset[str] = frozenset()

    def __init__(self, database: WordNetDatabase | None = None) -> None:
        self._database = database or open_database()
        self._antonyms = AntonymExclusion(self._database)
        self.options: dict[str, Any] = {"wordnet": self._database.version}
        self._words_of: dict[tuple[str, str], set[str]] = {}

    def prepare(self, words: Collection[str], *, show_progress: bool = False) -> None:
        """Groups the words by their lemmas."""
        grouped: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        for word in words:
            for lemma in self._lemmas(word):
                grouped[lemma].add(word)
        self._words_of = dict(grouped)

    def synonyms(self, word: str) -> list[str]:
        """The words that no score excuses in place of this one, sorted."""
        lemmas = self._lemmas(word) | self._antonyms.antonyms(word)
        found = set[str]().union(*(self._words_of.get(lemma, ()) for lemma in lemmas))
        return sorted(found - {word})

    def _lemmas(self, word: str) -> set[tuple[str, str]]:
        word = word.lower()
        return {(lemma, pos) for pos in PARTS_OF_SPEECH for lemma in self._database.lemmas(word, pos)}


def eligible_words(vocabulary: Vocabulary) -> NDArray[np.bool_]:
    """The tokens that a score can excuse or excuse with: whole content words, without numbers; bool, shape (V,)."""
    return np.array([word is not None and _is_eligible(word) for word in vocabulary.words], dtype=np.bool_)


def _is_eligible(word: str) -> bool:
    return is_content_word(word) and word.lower() not in NUMBER_WORDS
