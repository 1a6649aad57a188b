"""WordNet as a lexicon: the paper's synonym source."""

from __future__ import annotations

from typing import Any

from .lexicon import Lexicon
from .stop_words import ENGLISH_STOP_WORDS
from .wordnet_database import open_database


class WordNetLexicon(Lexicon):
    """All lemma names of all synsets of a word: every part of speech, WordNet's morphology on (Section 3.2).

    With WordNet 3.0 this gives the 13 names of Figure 3 for "primary".
    """

    source = "wordnet"
    stop_words = ENGLISH_STOP_WORDS

    def __init__(self) -> None:
        self._database = open_database()
        self.options: dict[str, Any] = {"wordnet": self._database.version}

    def synonyms(self, word: str) -> list[str]:
        return sorted({name for synset in self._database.synsets_of(word) for name in synset.names})
