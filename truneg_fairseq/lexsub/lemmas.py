"""Lemmas by part of speech, as SWORDS's own evaluation takes them, and those that a vocabulary can express."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ..synonyms.wordnet_database import WordNetDatabase, open_database
from ..vocabulary import Vocabulary

NO_LEMMA = -1


class Lemmatizer:
    """WordNet's morphology: of the lemmas it gives, the shortest, which is the rule of NLTK's ``WordNetLemmatizer``."""

    def __init__(self, database: WordNetDatabase | None = None) -> None:
        self._database = database or open_database()
        # Bound to the object, not to the class.
        self.lemma = lru_cache(maxsize=1 << 18)(self._lemma)

    def _lemma(self, word: str, pos: str) -> str:
        """The lemma of a word, in lower case; the word itself where WordNet knows none."""
        lower = word.lower()
        return min(self._database.lemmas(lower.replace(" ", "_"), pos), key=len, default=lower).replace("_", " ")


class TokenLemmas:
    """The lemmas of a vocabulary's whole words.

    Args:
        vocabulary: whose tokens without a letter, pieces and special symbols have none.
        lemmatizer: gives the lemmas.
    """

    def __init__(self, vocabulary: Vocabulary, lemmatizer: Lemmatizer) -> None:
        self._words = vocabulary.words
        self._lemmatizer = lemmatizer
        self._numbers: dict[str, int] = {}
        self.of_tokens = lru_cache(maxsize=4)(self._of_tokens)

    def number(self, lemma: str) -> int:
        """A number for a lemma, the same for every part of speech; new ones are given as they come."""
        return self._numbers.setdefault(lemma, len(self._numbers))

    def of_word(self, word: str, pos: str) -> int:
        """The number of a word's lemma."""
        return self.number(self._lemmatizer.lemma(word, pos))

    def _of_tokens(self, pos: str) -> NDArray[np.int64]:
        """The number of every token's lemma, shape (V,); :data:`NO_LEMMA` where a token is not a word."""
        return np.array(
            [
                self.of_word(word, pos) if word is not None and any(map(str.isalpha, word)) else NO_LEMMA
                for word in self._words
            ],
            dtype=np.int64,
        )
