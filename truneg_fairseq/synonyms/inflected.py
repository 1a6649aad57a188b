"""WordNet made aware of forms: the synonym of "bought" is "purchased", not "purchase"."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from ..errors import require
from .lists import ENGLISH_STOP_WORDS, Lexicon
from .wordnet import PARTS_OF_SPEECH, open_database

BASE = ""
"""The tag of a form that a dictionary lists by itself; the other tags are those of the Penn Treebank."""

_UNIVERSAL = {"n": "NOUN", "v": "VERB", "a": "ADJ", "r": "ADV"}
_TAGS = {"n": ("NNS",), "v": ("VBZ", "VBD", "VBN", "VBG"), "a": ("JJR", "JJS"), "r": ("RBR", "RBS")}
_SIBILANTS = ("s", "x", "z", "ch", "sh")
_VOWELS = "aeiou"


class Inflector:
    """Forms of lemmas and lemmas of forms; all in lower case, parts of speech as in WordNet ("n", "v", "a", "r")."""

    def __init__(self) -> None:
        require("lemminflect", extra="inflected")
        import lemminflect

        self._library: Any = lemminflect
        self.version: str = self._library.__version__
        # Bound to the object, not to the class.
        self.forms = lru_cache(maxsize=1 << 17)(self._forms)

    def lemmas(self, form: str, pos: str) -> tuple[str, ...]:
        """The lemmas that the dictionary gives for a form in one part of speech."""
        return tuple(self._library.getAllLemmas(form, _UNIVERSAL[pos]).get(_UNIVERSAL[pos], ()))

    def _forms(self, lemma: str, pos: str) -> dict[str, tuple[str, ...]]:
        """The inflected forms of a lemma by Penn tag, spelling variants together; without its base form."""
        listed = self._library.getAllInflections(lemma, _UNIVERSAL[pos])
        if pos == "n" and not listed:
            return {"NNS": (_regular_plural(lemma),)}
        if "VBD" in listed:  # the dictionary leaves a participle out that is the past tense
            listed.setdefault("VBN", listed["VBD"])
        forms = {tag: tuple(listed[tag]) for tag in _TAGS[pos] if tag in listed}
        plurals = forms.get("NNS", ())
        if len(plurals) > 1:  # of mass nouns it lists the singular as a plural: "lives, life"
            forms["NNS"] = tuple(form for form in plurals if form != lemma)
        return forms


def _regular_plural(noun: str) -> str:
    if noun.endswith("y") and noun[-2:-1] not in _VOWELS:
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(_SIBILANTS) else f"{noun}s"


class Analysis(NamedTuple):
    """One reading of a word."""

    lemma: str  # in lower case
    pos: str  # "n", "v", "a" or "r"
    tag: str  # of its form: :data:`BASE`, or a tag of the Penn Treebank, such as "NNS" or "VBD"


class InflectedLexicon(Lexicon):
    """The names of a word's synsets, each in the form of the word: plural for plural, past for past.

    WordNet lists lemmas. Read as in the paper, it excuses "buy" and "purchase" where the text has "bought", a
    prediction that breaks the sentence, and does not excuse "purchased". Here a word is taken in every form it may be:
    "bought" is a past tense and a participle; "saw" a tool, to use it, and the past of "see". For each such reading the
    synsets of its lemma are looked up in its part of speech only, and their names are inflected alike. A form that the
    library does not confirm is not used: WordNet's morphology alone takes "stared" for a form of "star".

    Other forms of the word's own lemma are left out, also where WordNet lists them ("walking" for "walk"); spelling
    variants of the same form stay ("traveled" for "travelled"). Names of several words are left out for inflected
    forms.
    """

    source = "inflected"
    stop_words = ENGLISH_STOP_WORDS

    def __init__(self) -> None:
        self._inflector = Inflector()
        self._database = open_database()
        self.options: dict[str, Any] = {"wordnet": self._database.version, "lemminflect": self._inflector.version}
        # Bound to the object, not to the class.
        self.analyses = lru_cache(maxsize=1 << 17)(self._analyses)

    def synonyms(self, word: str) -> list[str]:
        named = {name for synset in self._database.synsets_of(word) for name in synset.lemma_names()}
        if word != word.lower() and word in named:  # a name of its own: "Polish", not a form of "polish"
            return sorted(named)
        word = word.lower()
        readings = self.analyses(word)
        lemmas = {(reading.lemma, reading.pos) for reading in readings}

        def is_other_form(name: str) -> bool:  # of one of the word's own lemmas
            others = self.analyses(name.lower())
            return not lemmas.isdisjoint((other.lemma, other.pos) for other in others) and not others & readings

        return sorted({n for reading in readings for n in self._names(reading) if not is_other_form(n)})

    def _names(self, reading: Analysis) -> set[str]:
        synsets = self._database.synsets(reading.lemma, reading.pos)
        names = {name for synset in synsets for name in synset.lemma_names()}
        if reading.tag == BASE:
            return names
        return {
            _in_case_of(name, form)
            for name in names
            if "_" not in name
            for form in self._inflector.forms(name.lower(), reading.pos).get(reading.tag, ())
        }

    def _analyses(self, word: str) -> frozenset[Analysis]:
        """The readings of a word (lower case) that WordNet has synsets for."""
        readings = set()
        for pos in PARTS_OF_SPEECH:
            for lemma in {*self._database.lemmas(word, pos), *self._inflector.lemmas(word, pos)}:
                if not self._database.synsets(lemma, pos):
                    continue
                if lemma == word:
                    readings.add(Analysis(lemma, pos, BASE))
                for tag, forms in self._inflector.forms(lemma, pos).items():
                    if word in forms:
                        readings.add(Analysis(lemma, pos, tag))
        return frozenset(readings)


def _in_case_of(name: str, form: str) -> str:
    """The form (lower case) with the capitals of the name it was made from: "Italians", "DVDs"."""
    lower = name.lower()
    if name == lower:
        return form
    return name + form[len(name) :] if form.startswith(lower) else form[:1].upper() + form[1:]
