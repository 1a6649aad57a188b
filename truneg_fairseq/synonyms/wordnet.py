"""WordNet as a lexicon: the paper's synonym source."""

from __future__ import annotations

from typing import Any

from .stop_words import ENGLISH_STOP_WORDS
from .wordnet_database import PARTS_OF_SPEECH, open_database


class WordNetLexicon:
    """All lemma names of all synsets of a word: every part of speech, WordNet's morphology on (Section 3.2).

    With WordNet 3.0 this gives the 13 names of Figure 3 for "primary".
    """

    source = "wordnet"
    stop_words = ENGLISH_STOP_WORDS

    def __init__(self) -> None:
        self._database = open_database()
        self.options: dict[str, Any] = {"wordnet": self._database.version}

    def synonyms(self, word: str) -> list[str]:
        """The lemma names, sorted; empty where WordNet does not know the word."""
        word = word.lower()
        return sorted(
            {
                name
                for pos in PARTS_OF_SPEECH
                for lemma in self._database.lemmas(word, pos)
                for synset in self._database.synsets(lemma, pos)
                for name in synset.names
            }
        )
