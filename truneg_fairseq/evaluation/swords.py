"""Reads what people say of words in context: the JSON of SWORDS (Lee et al., NAACL 2021), CoInCo and SemEval-2007.

SWORDS's file holds contexts, target words in them, substitutes of the targets, and for each substitute what every
annotator said of it. Votes and lemmas are taken as SWORDS's own evaluation takes them.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..errors import TrueNegError
from ..files import parse_json
from ..synonyms.wordnet import open_database
from ..vocabulary import Vocabulary

PARTS_OF_SPEECH = {"NOUN": "n", "VERB": "v", "ADJ": "a", "ADV": "r"}
"""The file's names of those that WordNet has; every other one counts as a noun, as SWORDS's own evaluation does."""

PEOPLE = "coinco"
"""The source of the candidates that people wrote; the others are from a thesaurus."""

ACCEPTED, CONCEIVABLE = 0.5, 0.1
"""SWORDS: accepted is what more than half of the votes accept, conceivable what at least one in ten does."""

NO_LEMMA = -1
LARGEST_FILE = 256 << 20  # bytes, unpacked
# What annotators say; it is implicit where people wrote the word themselves. Who is unsure has no vote.
_ACCEPTS = {"TRUE": 1, "TRUE_IMPLICIT": 1, "FALSE": 0, "FALSE_IMPLICIT": 0, "UNSURE": None}
_EXPECTED = "SWORDS's JSON, plain or gzipped"


class _Context(msgspec.Struct):
    context: str


class _Target(msgspec.Struct):
    context_id: str
    offset: int
    target: str
    pos: str | None = None


class _Extra(msgspec.Struct):
    sources: list[str] | None = None


class _Substitute(msgspec.Struct):
    target_id: str
    substitute: str
    extra: _Extra | None = None


class _File(msgspec.Struct):
    contexts: dict[str, _Context]
    targets: dict[str, _Target]
    substitutes: dict[str, _Substitute]
    substitute_labels: dict[str, list[str]]


@dataclass(frozen=True)
class Candidate:
    """A substitute and what people said of it."""

    word: str  # in lower case, a lemma where the file says that its substitutes are; may be several words
    votes: int  # how many said TRUE
    asked: int  # how many said TRUE or FALSE, at least 1
    people: bool  # it is from people, not from a thesaurus; True where the file names no sources

    @property
    def share(self) -> float:
        """Of the votes, in [0, 1]."""
        return self.votes / self.asked


def is_accepted(share: Any) -> Any:
    """Whether more than half accept; of a number or an array."""
    return share > ACCEPTED


def is_conceivable(share: Any) -> Any:
    """Whether at least one in ten accepts."""
    return share >= CONCEIVABLE


@dataclass(frozen=True)
class Target:
    """A word in its context with its candidates."""

    name: str  # its key in the file
    context: str
    start: int  # where the word begins in the context, in characters
    word: str  # as the context has it
    pos: str  # "n", "v", "a" or "r"
    candidates: tuple[Candidate, ...]  # in the file's order


@dataclass(frozen=True)
class Judgements:
    """A file's content."""

    path: Path
    sha256: str  # hexadecimal, of the JSON itself whether it is compressed or not
    targets: tuple[Target, ...]  # in the file's order, each with at least one candidate

    @property
    def candidates(self) -> int:
        """Of all targets."""
        return sum(len(target.candidates) for target in self.targets)


def read_judgements(path: Path, text: bytes) -> Judgements:
    """Reads SWORDS's JSON, whose unpacked content is ``text``."""
    parsed = parse_json(text, str(path), _File, expected=_EXPECTED)
    candidates = _candidates(path, parsed)
    targets = []
    for name, target in parsed.targets.items():
        if target.context_id not in parsed.contexts:
            raise _refused(path, f"target {name} has no context")
        context, start, word = parsed.contexts[target.context_id].context, target.offset, target.target
        found = context[start : start + len(word)] if start >= 0 else ""
        if not word or found.lower() != word.lower():
            raise _refused(path, f"target {name}: its context has {found!r} at offset {start}, not {word!r}")
        if candidates.get(name):
            pos = PARTS_OF_SPEECH.get(target.pos or "", "n")
            targets.append(Target(name, context, start, found, pos, tuple(candidates[name].values())))
    if not targets:
        raise _refused(path, "it has no target with candidates")
    return Judgements(path, hashlib.sha256(text).hexdigest(), tuple(targets))


def _candidates(path: Path, content: _File) -> dict[str, dict[str, Candidate]]:
    """By target and word; a word that a target has twice is one candidate with the votes of both. Without a vote but
    UNSURE it is none.
    """
    merged: dict[str, dict[str, Candidate]] = {}
    for name, substitute in content.substitutes.items():
        word, labels = substitute.substitute.strip().lower(), content.substitute_labels.get(name)
        if not labels or not _ACCEPTS.keys() >= set(labels):
            raise _refused(path, f"substitute {name} ({word!r}) has the votes {labels}, not of {', '.join(_ACCEPTS)}")
        votes = [vote for label in labels if (vote := _ACCEPTS[label]) is not None]
        if not votes:  # nobody was sure
            continue
        sources = substitute.extra.sources if substitute.extra else None
        of_target = merged.setdefault(substitute.target_id, {})
        other = of_target.get(word, Candidate(word, 0, 0, False))
        of_target[word] = Candidate(
            word,
            other.votes + sum(votes),
            other.asked + len(votes),
            other.people or sources is None or PEOPLE in sources,
        )
    if lost := merged.keys() - content.targets.keys():
        raise _refused(path, f"a substitute is of the target {min(lost)!r}, which it does not have")
    return merged


def _refused(path: Path, what: str) -> TrueNegError:
    return TrueNegError(f"{path}: not a file of judgements ({what[:200]}); expected {_EXPECTED}")


class Lemmatizer:
    """WordNet's morphology: of the lemmas it gives, the shortest, which is the rule of NLTK's ``WordNetLemmatizer``."""

    def __init__(self) -> None:
        self._database = open_database()
        # Bound to the object, not to the class.
        self.lemma = lru_cache(maxsize=1 << 18)(self._lemma)

    def _lemma(self, word: str, pos: str) -> str:
        """The lemma of a word, in lower case; the word itself where WordNet knows none."""
        lower = word.lower()
        return min(self._database.lemmas(lower.replace(" ", "_"), pos), key=len, default=lower).replace("_", " ")


class TokenLemmas:
    """The lemmas of a vocabulary's whole words, as numbers."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.words = vocabulary.words
        self._lemmatizer = Lemmatizer()
        self._numbers: dict[str, int] = {}
        self.of_tokens = lru_cache(maxsize=4)(self._of_tokens)

    def of_word(self, word: str, pos: str) -> int:
        """The number of a word's lemma, the same for every part of speech; new ones are given as they come."""
        return self._numbers.setdefault(self._lemmatizer.lemma(word, pos), len(self._numbers))

    def _of_tokens(self, pos: str) -> NDArray[np.int64]:
        """The number of every token's lemma, shape (V,); :data:`NO_LEMMA` where a token is not a word."""
        words = (word if word is not None and any(map(str.isalpha, word)) else None for word in self.words)
        return np.array([NO_LEMMA if word is None else self.of_word(word, pos) for word in words], dtype=np.int64)
