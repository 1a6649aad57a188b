"""Wordnets of the package ``wn`` as a lexicon: the Open English WordNet and others in WN-LMF."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from ..errors import TrueNegError, reason
from .lexicon import with_accents
from .stop_words import read_stop_words


class WnLexicon:
    """All lemmas of all synsets of a word in one wordnet of wn's database.

    English words are found in their inflected forms too (wn's Morphy); other languages have no morphology. Stop words
    are those of :func:`read_stop_words`.

    Args:
        wordnet: wn's name of an installed wordnet with its version, such as ``oewn:2024``.
        flags: how the user's flags begin, for messages.
    """

    source = "wn"

    def __init__(self, wordnet: str, flags: str = "--") -> None:
        try:
            import wn
            from wn.morphy import Morphy
        except ImportError:
            raise TrueNegError(
                "wn: not installed, and the source 'wn' needs it; run pip install 'truneg_fairseq[wn]'"
            ) from None
        try:
            lexicon = _lexicon(wn, wordnet)
            self._wordnet: Any = wn.Wordnet(lexicon.specifier())
            language = lexicon.language.partition("-")[0]
            if language == "en":
                self._wordnet = wn.Wordnet(lexicon.specifier(), lemmatizer=Morphy(self._wordnet))
        except wn.Error as error:
            installed = ", ".join(each.specifier() for each in wn.lexicons()) or "none"
            raise TrueNegError(
                f"{flags}wn: found {wordnet!r} ({reason(error)}), expected one wordnet of wn's database, which has "
                f"{installed}; get one with python -m wn download oewn:2024, or wn.add('FILE.xml')"
            ) from None
        self.stop_words, described = read_stop_words(_iso639_3(language))
        self.options: dict[str, Any] = {"wordnet": lexicon.specifier(), "stop_words": described}

    def synonyms(self, word: str) -> list[str]:
        """The lemmas, sorted; empty where the wordnet does not know the word."""
        synsets = self._wordnet.synsets(word.lower())
        return sorted({lemma.replace(" ", "_") for synset in synsets for lemma in synset.lemmas()})

    def accented(self, words: Collection[str]) -> Iterator[str]:
        """See :class:`~.lexicon.AccentedLexicon`."""
        # wn finds a word without its accents only where no other is spelled so.
        return with_accents((form for word in self._wordnet.words() for form in word.forms()), words)


def _lexicon(wn: Any, wordnet: str) -> Any:
    found = wn.lexicons(lexicon=wordnet)
    if len(found) != 1:
        raise wn.Error(f"{len(found)} such wordnets")
    return found[0]


def _iso639_3(language: str) -> str:
    from nltk.langnames import iso639short

    return next((long for long, short in iso639short.items() if short == language), language)
