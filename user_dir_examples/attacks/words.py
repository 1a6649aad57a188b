"""Other words for the words of a question, and an answer of the same kind (steps 3 and 4)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import Context, Decimal
from itertools import pairwise
from pathlib import Path

from nltk.stem import PorterStemmer
from parsed import Word

from truneg_fairseq.synonyms.inflected import Inflector
from truneg_fairseq.synonyms.lists import is_content_word
from truneg_fairseq.synonyms.wordnet import WordNetDatabase

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
    """The words nearest to a word in a file of vectors (GloVe's text), but those of its stem."""

    def __init__(self, vectors: Path) -> None:
        from gensim.models import KeyedVectors

        self._vectors = KeyedVectors.load_word2vec_format(str(vectors), no_header=True)
        self._stem = PorterStemmer().stem

    def __call__(self, word: str) -> Iterator[str]:
        """Nearest first, in lower case; none where the file lacks the word."""
        stem = self._stem(word)
        known = self._vectors.most_similar(word, topn=_NEIGHBOURS) if word in self._vectors else ()
        for name, _ in known:
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
                if word.text.isupper() and len(word.text) > 1:
                    return candidate.upper()
                return candidate[:1].upper() + candidate[1:] if word.text[:1].isupper() else candidate
        return None

    def _candidates(self, word: Word) -> Iterator[str]:
        """By the rules in their order."""
        lower = word.text.lower()
        fits = word.text.isupper() if lower in _ONLY_IN_CAPITALS else lower not in _ONLY_AS_NAME or word.tag in _NAMES
        if lower in _SPECIAL and fits:
            yield _SPECIAL[lower]
        if word.tag in ("NN", "JJ", "JJR", "JJS") and not word.entity:
            yield from self._antonyms(word)
        if self._nearby is not None and is_nearby_asked(word):
            yield from (name for name in self._nearby(lower) if self._is_alike(word, name))
        if word.tag == "CD" and _DIGITS.fullmatch(word.text):
            yield _another_number(word.text)
        if word.tag in _NAMES and word.entity in _CONSTANTS:
            yield _ABBREVIATION if word.entity == "ORGANIZATION" and word.text.isupper() else _CONSTANTS[word.entity]
        if word.tag == "NNPS":
            yield "Daleks"

    def _antonyms(self, word: Word) -> Iterator[str]:
        """Antonyms of the first synset, in the word's own form."""
        pos = "n" if word.tag == "NN" else "a"
        for lemma in self._database.lemmas(word.text.lower(), pos)[-1:]:
            for synset in self._database.synsets(lemma, pos)[:1]:
                linked = [
                    other for each in synset.lemmas() if each.name().lower() == lemma for other in each.antonyms()
                ]
                for antonym in (other.name() for other in linked):
                    if "_" not in antonym:
                        plain = word.tag in ("NN", "JJ")
                        yield from (antonym,) if plain else self._inflector.forms(antonym, pos).get(word.tag, ())

    def _is_alike(self, word: Word, name: str) -> bool:
        """Whether a nearby word can be of the word's part of speech; vectors are of words in lower case."""
        if word.tag == "CD":
            is_number = _DIGITS.fullmatch(name) or name.lower() in _NUMBER_WORDS
            return bool(is_number) and _is_year(name) == _is_year(word.text)
        if not is_content_word(name):
            return False
        if word.tag in _NAMES:
            # Vectors do not tell how a name is written: short ones are taken for abbreviations.
            if (len(name) <= _LONGEST_ABBREVIATION) != word.text.isupper():
                return False
            # WordNet writes all its nouns of this word with a capital, or has no such word.
            names = {noun for synset in self._database.synsets(name, "n") for noun in synset.lemma_names()}
            capitals = all(noun[0].isupper() for noun in names if noun.lower() == name)
            return capitals and not any(self._database.lemmas(name, pos) for pos in "var")
        pos = "n" if word.tag == "NN" else "a"
        return bool(self._database.synsets(name, pos))


def is_nearby_asked(word: Word) -> bool:
    """Whether a rule wants the neighbours of this word: numbers, names, and other nouns and adjectives of entities."""
    return word.tag in ("CD", *_NAMES) or (word.tag in ("NN", "JJ") and word.entity in _CONSTANTS)


def _is_year(text: str) -> bool:
    return text.isdigit() and len(text) == 4


def _another_number(text: str) -> str:
    """Beyond the description, for numbers in digits without neighbours: 10 less, 10 more up to 20, 1 for decimals."""
    value = Decimal(text.replace(",", ""))
    step = 1 if "." in text else -_STEP if value > _LARGEST_SMALL else _STEP
    other = Context(prec=len(text) + 2).add(value, Decimal(step))  # exact, however long the number is
    return f"{other:,f}" if "," in text else f"{other:f}"


_OF_ENTITY = {"PERSON": "Jeff Dean", "LOCATION": "Chicago", "ORGANIZATION": "Stark Industries", "MISC": "Jupiter"}
_OF_FIRST_TAG = {"VB": "learn", "VBP": "learn", "VBD": "learned", "VBN": "learned", "VBG": "learning", "VBZ": "learns"}
_OF_LAST_TAG = {
    **{"NN": "hamster", "NNP": "Central Park", "NNS": "hamsters", "NNPS": "Kew Gardens"},
    **{"JJ": "deep", "JJR": "deeper", "JJS": "deepest", "RB": "silently", "VBG": "learning"},
}
_OF_QUESTION = {"who": "Jeff Dean", "whom": "Jeff Dean", "when": "1956", "where": "Chicago"}
_NUMBER = "42"
_OTHERWISE = "aliens"


def fake_answer(answer: Sequence[Word], question: Sequence[Word]) -> str:
    """The first that fits: of the answer's entity type, an abbreviation, of the question word, of the part of speech.

    Beyond the description, which has them for "how many" and "when" only: 42 for every "how" with an adjective or
    adverb and for an answer that ends in a number, 1956 for "what year" and for an answer that ends in a year.
    """
    return next(filter(None, _fitting(answer, question)), _OTHERWISE)


def _fitting(answer: Sequence[Word], question: Sequence[Word]) -> Iterator[str | None]:
    """By the rules in their order; None where one does not fit."""
    words = [word for word in answer if word.tag != "DT" and not word.is_punctuation] or list(answer)
    first, last = words[0], words[-1]
    if last.tag != "CD" and all(word.entity == first.entity for word in words):
        yield _OF_ENTITY.get(first.entity)
    if len(words) == 1 and first.text.isupper() and first.text.isalpha() and len(first.text) > 1:
        yield "LSTM"
    yield _of_question(question)
    if last.tag == "CD":
        yield "1956" if len(last.text) == 4 and last.text.isdigit() else _NUMBER
    yield _OF_FIRST_TAG.get(first.tag)
    fake = _OF_LAST_TAG.get(last.tag)
    if fake and last.tag.startswith("NN") and answer[0].tag == "DT":
        determiner = answer[0].text.lower()
        if determiner not in ("a", "an"):
            fake = f"{determiner} {fake}"
        elif not last.tag.endswith("S"):
            fake = f"a {fake}"  # none begins with a vowel
    yield fake


def _of_question(question: Sequence[Word]) -> str | None:
    """By the first question word and the word behind it."""
    for word, following in pairwise((*question, Word("", 0))):
        text = word.text.lower()
        if word.tag.startswith("W"):
            if text == "how" and following.tag[:2] in ("JJ", "RB"):
                return _NUMBER
            asks_year = text in ("what", "which") and following.text.lower() in ("year", "date")
            return _OF_QUESTION.get("when" if asks_year else text)
    return None
