"""Wordnets of the package ``wn`` as a lexicon: the Open English WordNet and others in WN-LMF."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from ..errors import TrueNegError
from ..extras import require
from .lexicon import Lexicon, with_accents
from .settings import LexiconSettings
from .stop_words import read_stop_words


class WnLexicon(Lexicon):
    """All lemmas of all synsets of a word in one wordnet of wn's database.

    English words are found in their inflected forms too (wn's Morphy); other languages have no morphology.
    """

    source = "wn"

    def __init__(self, settings: LexiconSettings) -> None:
        require("wn", extra="wn")
        import wn
        from wn.morphy import Morphy

        found = wn.lexicons(lexicon=settings.wn)
        if len(found) != 1:
            installed = ", ".join(each.specifier() for each in wn.lexicons()) or "none"
            raise TrueNegError(
                f"--wn {settings.wn}: names {len(found)} wordnets of wn's database, expected one of "
                f"{installed}; get one with python -m wn download oewn:2024, or wn.add('FILE.xml')"
            )
        (lexicon,) = found
        self._wordnet: Any = wn.Wordnet(lexicon.specifier())
        if lexicon.language.partition("-")[0] == "en":
            self._wordnet = wn.Wordnet(lexicon.specifier(), lemmatizer=Morphy(self._wordnet))
        self.stop_words, described = read_stop_words(lexicon.language)
        self.options: dict[str, Any] = {"wordnet": lexicon.specifier(), "stop_words": described}

    def synonyms(self, word: str) -> list[str]:
        synsets = self._synsets(word) or self._synsets(word.lower())
        return sorted({lemma.replace(" ", "_") for synset in synsets for lemma in synset.lemmas()})

    def _synsets(self, word: str) -> list[Any]:
        """Those of the word in any case; wn also gives words that differ by accents, as "schön" for "schon"."""
        lemmas = self._wordnet.lemmatizer(word).values() if self._wordnet.lemmatizer else ()
        spelled = {form.lower() for form in {word}.union(*lemmas)}
        words = self._wordnet.words(word)
        return [s for each in words if any(f.lower() in spelled for f in each.forms()) for s in each.synsets()]

    def accented(self, words: Collection[str]) -> Iterator[str]:
        return with_accents((form for word in self._wordnet.words() for form in word.forms()), words)
