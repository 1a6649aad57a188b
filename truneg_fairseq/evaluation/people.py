"""Reads what people say of words in context: SWORDS (Lee et al., NAACL 2021), and cloze answers (the words that they
wrote next); plain or packed.
"""

from __future__ import annotations

import ast
import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from msgspec import Meta, Struct, field

from ..errors import reading
from ..files import parse_json, read_bytes

COMMON = 0.05  # a common cloze answer is from at least this share of the people

_LARGEST_FILE = 256 << 20  # bytes, unpacked
_MOST = 1_000_000  # people who give one answer
_SWORDS_PEOPLE = "coinco"  # the source of SWORDS's candidates that people wrote; the others are from a thesaurus
_POS = {"VERB": "v", "ADJ": "a", "ADV": "r"}  # others count as nouns
# What annotators say; it is implicit where people wrote the word themselves. Who is unsure has no vote.
_ACCEPTS = {"TRUE": 1, "TRUE_IMPLICIT": 1, "FALSE": 0, "FALSE_IMPLICIT": 0, "UNSURE": None}
_ASKED, _CONCEIVED = 10, 2  # votes of a cloze answer: all for a common one, some for a rare one
_ANSWERS = (
    'people\'s answers: a JSON list of {"context", "word", "answers": {word: count}}, or cloze_laplace.txt of '
    "github.com/Andrea-de-Varda/prediction-resource"
)
_PEOPLE = "SWORDS's JSON, or cloze answers"


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
    """As SWORDS has it, more than half of the votes; of a number or an array."""
    return share > 0.5


def is_conceivable(share: Any) -> Any:
    """At least one vote in ten."""
    return share >= 0.1


@dataclass(frozen=True)
class Target:
    """A word in its context with its candidates."""

    name: str  # its key in the file
    context: str
    start: int  # where the word begins in the context, in characters
    word: str  # as the context has it
    pos: str  # "n", "v", "a" or "r"
    candidates: tuple[Candidate, ...]  # in the file's order, at least one


@dataclass(frozen=True)
class Judgements:
    """A file's content."""

    path: Path
    sha256: str  # hexadecimal, of the unpacked content
    targets: tuple[Target, ...]  # in the file's order, at least one

    @property
    def candidates(self) -> int:
        """Of all targets."""
        return sum(len(target.candidates) for target in self.targets)


def read_people(path: Path) -> Judgements:
    """Judgements of either format."""
    content = read_bytes(path, expected=_PEOPLE, limit=_LARGEST_FILE)
    with reading(path, _PEOPLE):
        if content.lstrip()[:2].startswith((b"[", b"{'")):
            targets = tuple(_of_answers(read_answers(path, content)))
        else:
            targets = tuple(_swords(parse_json(content, str(path), dict[str, Any], expected=_PEOPLE)))
        if not targets:
            raise ValueError("no target has candidates")
    return Judgements(path, hashlib.sha256(content).hexdigest(), targets)


def _swords(parsed: Mapping[str, Any]) -> Iterator[Target]:
    """Votes and parts of speech are taken as SWORDS's own evaluation takes them.

    A word that a target has twice is one candidate with the votes of both. One with no vote but UNSURE is left out.
    """
    candidates: dict[str, dict[str, Candidate]] = {name: {} for name in parsed["targets"]}
    for name, substitute in parsed["substitutes"].items():
        votes = [vote for label in parsed["substitute_labels"][name] if (vote := _ACCEPTS[label]) is not None]
        if not votes:
            continue
        word, of_target = substitute["substitute"].strip().lower(), candidates[substitute["target_id"]]
        other = of_target.get(word, Candidate(word, 0, 0, False))
        sources = (substitute.get("extra") or {}).get("sources")
        people = other.people or sources is None or _SWORDS_PEOPLE in sources
        of_target[word] = Candidate(word, other.votes + sum(votes), other.asked + len(votes), people)
    for name, target in parsed["targets"].items():
        context, start = parsed["contexts"][target["context_id"]]["context"], target["offset"]
        word = context[start : start + len(target["target"])] if start >= 0 else ""
        if not word or word.lower() != target["target"].lower():
            raise ValueError(f"target {name}: its context has {word!r} at offset {start}, not {target['target']!r}")
        if candidates[name]:
            pos = _POS.get(target.get("pos") or "", "n")
            yield Target(name, context, start, word, pos, tuple(candidates[name].values()))


class Context(Struct, frozen=True):
    """The beginning of a sentence, and what people wrote as its next word."""

    text: str = field(name="context")
    answers: dict[str, Annotated[int, Meta(ge=1, le=_MOST)]]  # how many people gave each
    word: str | None = None  # that the text itself goes on with; None where it is not known

    @property
    def people(self) -> int:
        return sum(self.answers.values())


@dataclass(frozen=True)
class Answers:
    """A file's content."""

    sha256: str  # hexadecimal, of the unpacked file
    contexts: tuple[Context, ...]


def read_answers(path: Path, content: bytes | None = None) -> Answers:
    """Cloze answers as our JSON, or as de Varda, Marelli and Amenta (Behavior Research Methods 56, 2024) publish them;
    contexts without answers are left out. ``content`` is that of the file if it has been read.
    """
    if content is None:
        content = read_bytes(path, expected=_ANSWERS, limit=_LARGEST_FILE)
    with reading(path, _ANSWERS):
        published = content.lstrip().startswith(b"{'")
        found = _published(content) if published else parse_json(content, str(path), list[Context], expected=_ANSWERS)
        answered = tuple(context for context in found if context.answers and context.text.strip())
        if not answered:
            raise ValueError("has no context with answers")
    return Answers(hashlib.sha256(content).hexdigest(), answered)


def _published(content: bytes) -> list[Context]:
    """Counts from a Python literal {context: {word: p}}, with p = (count + 1) / N and p(unk) = 1 / N; the corpus's word
    is that of the next context, where that is unique.
    """
    counts, following = dict[str, dict[str, int]](), defaultdict[str, set[str]](set)
    for context, shares in ast.literal_eval(content.decode()).items():
        found = {word: round(p / shares["unk"]) - 1 for word, p in shares.items() if word != "unk"}
        counts[context] = {word: count for word, count in found.items() if count > 0}
        before, _, word = context.rpartition(" ")
        following[before].add(word)
    if max((count for answers in counts.values() for count in answers.values()), default=0) > _MOST:
        raise ValueError("its probabilities are not those of counts")
    return [
        Context(context, answers, following[context].pop() if len(following[context]) == 1 else None)
        for context, answers in counts.items()
    ]


def _of_answers(answers: Answers) -> Iterator[Target]:
    """The word that the text has as the target; the answers, and as many words that nobody wrote there, as candidates.

    The latter are answers of other contexts, drawn as often as people gave them: a frequent word is no better a guess.
    """
    counts = Counter[str]()
    for context in answers.contexts:
        counts.update(context.answers)
    words, shares = np.array(list(counts)), np.array(list(counts.values()), dtype=np.float64)
    random = np.random.default_rng(1)
    for number, context in enumerate(answers.contexts):
        if context.word is None:
            continue
        given = [
            Candidate(word, _ASKED if count >= COMMON * context.people else _CONCEIVED, _ASKED, True)
            for word, count in context.answers.items()
            if word.lower() != context.word.lower()
        ]
        if given:
            drawn = random.choice(words, size=min(len(words), 4 * len(given)), p=shares / shares.sum())
            nobody = [word for word in dict.fromkeys(drawn.tolist()) if word not in context.answers][: len(given)]
            given += [Candidate(word, 0, _ASKED, True) for word in nobody if word != context.word]
            text = f"{context.text} {context.word} ."
            yield Target(str(number), text, len(context.text) + 1, context.word, "n", tuple(given))
