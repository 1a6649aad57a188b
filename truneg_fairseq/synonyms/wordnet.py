"""WordNet as a lexicon: the paper's synonym source."""

from __future__ import annotations

from typing import Any

from ..errors import TrueNegError
from .stop_words import ENGLISH_STOP_WORDS
from .wordnet_data import find_wordnet


class WordNetLexicon:
    """All lemma names of all synsets of a word: every part of speech, WordNet's morphology on (Section 3.2).

    With WordNet 3.0 this gives the 13 names of Figure 3 for "primary".

    Raises:
        TrueNegError: WordNet is not installed for NLTK.
    """

    source = "wordnet"
    stop_words = ENGLISH_STOP_WORDS

    def __init__(self) -> None:
        import nltk
        from nltk.corpus import wordnet

        if find_wordnet() is None:
            raise TrueNegError(
                "WordNet: not found in NLTK's data folders; get it with 'truneg wordnet' "
                "(or python -m nltk.downloader wordnet, or set NLTK_DATA to a folder that holds corpora/wordnet)"
            )
        self._corpus = wordnet
        self._corpus.ensure_loaded()
        self.options: dict[str, Any] = {"wordnet": self._corpus.get_version(), "nltk": nltk.__version__}

    def synonyms(self, word: str) -> list[str]:
        """The lemma names, sorted; empty where WordNet does not know the word."""
        return sorted({name for synset in self._corpus.synsets(word) for name in synset.lemma_names()})
