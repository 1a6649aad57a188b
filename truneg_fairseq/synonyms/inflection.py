"""English inflection: which forms a lemma has, and which lemmas a form may belong to.

The forms are those of lemminflect's dictionary (from the SPECIALIST lexicon). Its classifiers for unknown words are not
used: they are read from pickle files. For nouns that the dictionary lacks, mostly demonyms and new words, the regular
plural is built here.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ..extras import require

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
