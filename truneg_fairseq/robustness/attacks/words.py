"""Other words for the words of a question (AddSentenceDiverse, step 3)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from decimal import Context, Decimal
from pathlib import Path

from nltk.stem import PorterStemmer

from ...synonyms.embeddings import EmbeddingLexicon
from ...synonyms.inflection import Inflector
from ...synonyms.settings import LexiconSettings
from ...synonyms.stop_words import is_content_word
from ...synonyms.wordnet_database import WordNetDatabase
from .english import Word

_NEVER = frozenset(
    """
    many much such few fewer fewest most more less least several some any all both each every other others another same
    own first last next second third only main various certain due able about
    kind kinds type types sort form name names term word number amount percentage percent part example
    one
    year years month months day days date dates week weeks century centuries decade decades time times age
    """.split()
)
_SPECIAL = {
    **{"states": "kingdom", "us": "uk", "uk": "us", "u.s.": "u.k.", "u.k.": "u.s.", "usa": "uk"},
    **{"largest": "smallest", "smallest": "largest", "highest": "lowest", "lowest": "highest"},
    **{"may": "april", "april": "may"},
}
_ONLY_IN_CAPITALS = frozenset({"us", "uk", "usa"})
_ONLY_AS_NAME = frozenset({"may", "states", "april"})
_NUMBER_WORDS = frozenset(
    """
    one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen
    nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million billion
    """.split()
)
_DIGITS = re.compile(r"\d[\d,]*(?:\.\d+)?")
_NAMES = ("NNP", "NNPS")
_CONSTANTS = {"PERSON": "Jackson", "LOCATION": "Berlin", "ORGANIZATION": "Acme", "MISC": "Neptune"}
_ABBREVIATION = "UNICEF"
_NEIGHBOURS = 50
_LARGEST_SMALL, _STEP = 20, 10
_LONGEST_ABBREVIATION = 3


class NearbyWords:
    """The words nearest to a word in a file of vectors, but those of its stem."""

    def __init__(self, vectors: Path, words: Collection[str]) -> None:  # all that will be asked for, in lower case
        self._lexicon = EmbeddingLexicon(LexiconSettings(vectors=vectors, neighbours=_NEIGHBOURS))
        self._lexicon.prepare(words)
        self._stem = PorterStemmer().stem

    def __call__(self, word: str) -> Iterator[str]:
        """Nearest first, in lower case; none where the file lacks the word."""
        stem = self._stem(word)
        for name in self._lexicon.synonyms(word)[1:]:
            other = self._stem(name)
            if not (stem.startswith(other) or other.startswith(stem)):
                yield name


class Alteration:
    """Alters the words of questions."""

    def __init__(self, database: WordNetDatabase, nearby: NearbyWords | None) -> None:
        self._database = database
        self._nearby = nearby
        self._inflector = Inflector()

    def __call__(self, words: Sequence[Word], place: int) -> str | None:
        """Another word for the one at a place, capitalised as it is and not in the question; None where it stays."""
        word = words[place]
        if word.text.lower() in _NEVER:
            return None
        taken = {other.text.lower() for other in words}
        for candidate in self._candidates(word):
            if candidate.lower() not in taken:
                return _capitalised_as(word.text, candidate)
        return None

    def _candidates(self, word: Word) -> Iterator[str]:
        """By the rules in their order."""
        lower = word.text.lower()
        if lower in _SPECIAL and _is_special(word):
            yield _SPECIAL[lower]
        if word.tag in ("NN", "JJ", "JJR", "JJS") and not word.entity:
            yield from self._antonyms(word)
        yield from self._near(word)
        if word.tag == "CD":
            yield from _another_number(word.text)
        if word.tag in _NAMES:
            yield from _constants(word)

    def _antonyms(self, word: Word) -> Iterator[str]:
        """Antonyms of the first synset, in the word's own form."""
        pos = "n" if word.tag == "NN" else "a"
        for lemma in self._database.lemmas(word.text.lower(), pos)[-1:]:
            for synset in self._database.synsets(lemma, pos)[:1]:
                for name, antonym in synset.antonyms:
                    if name.lower() == lemma and "_" not in antonym:
                        yield from self._in_form(antonym, pos, word.tag)

    def _in_form(self, lemma: str, pos: str, tag: str) -> Iterable[str]:
        return (lemma,) if tag in ("NN", "JJ") else self._inflector.forms(lemma, pos).get(tag, ())

    def _near(self, word: Word) -> Iterator[str]:
        if self._nearby is None or not is_nearby_asked(word):
            return
        for name in self._nearby(word.text.lower()):
            if self._is_alike(word, name):
                yield name

    def _is_alike(self, word: Word, name: str) -> bool:
        """Whether a nearby word can be of the word's part of speech; vectors are of words in lower case."""
        if word.tag == "CD":
            return _is_number(name) and _is_year(name) == _is_year(word.text)
        if not is_content_word(name):
            return False
        if word.tag in _NAMES:
            # Vectors do not tell how a name is written: short ones are taken for abbreviations.
            return (len(name) <= _LONGEST_ABBREVIATION) == word.text.isupper() and self._is_name(name)
        pos = "n" if word.tag == "NN" else "a"
        return bool(self._database.synsets(name, pos))

    def _is_name(self, word: str) -> bool:
        """Whether WordNet writes all its nouns of this word with a capital, or has no such word."""
        nouns = {name for synset in self._database.synsets(word, "n") for name in synset.names if name.lower() == word}
        return all(name[0].isupper() for name in nouns) and not any(self._database.lemmas(word, pos) for pos in "var")


def is_nearby_asked(word: Word) -> bool:
    """Whether a rule wants the neighbours of this word: numbers, names, and other nouns and adjectives of entities."""
    return word.tag in ("CD", *_NAMES) or (word.tag in ("NN", "JJ") and word.entity in _CONSTANTS)


def _is_special(word: Word) -> bool:
    lower = word.text.lower()
    if lower in _ONLY_IN_CAPITALS:
        return word.text.isupper()
    return lower not in _ONLY_AS_NAME or word.tag in _NAMES


def _is_number(text: str) -> bool:
    return bool(_DIGITS.fullmatch(text)) or text.lower() in _NUMBER_WORDS


def _is_year(text: str) -> bool:
    return text.isdigit() and len(text) == 4


def _another_number(text: str) -> Iterator[str]:
    """Beyond the description, for numbers in digits without neighbours: 10 less, 10 more up to 20, 1 for decimals."""
    if not _DIGITS.fullmatch(text):
        return
    value = Decimal(text.replace(",", ""))
    step = 1 if "." in text else -_STEP if value > _LARGEST_SMALL else _STEP
    other = Context(prec=len(text) + 2).add(value, Decimal(step))  # exact, however long the number is
    yield f"{other:,f}" if "," in text else f"{other:f}"


def _constants(word: Word) -> Iterator[str]:
    if word.entity == "ORGANIZATION":
        yield _ABBREVIATION if word.text.isupper() else _CONSTANTS[word.entity]
    elif word.entity in _CONSTANTS:
        yield _CONSTANTS[word.entity]
    if word.tag == "NNPS":
        yield "Daleks"


def _capitalised_as(model: str, word: str) -> str:
    if model.isupper() and len(model) > 1:
        return word.upper()
    if model[:1].isupper():
        return word[:1].upper() + word[1:]
    return word
