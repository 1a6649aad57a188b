"""Reads what people say of words in context: SWORDS (Lee et al., NAACL 2021), CoInCo (Kremer, Erk, Pado, Thater, EACL
2014), SemEval-2007 task 10 (McCarthy and Navigli), and cloze answers (the words that they wrote next); plain or packed.
"""

from __future__ import annotations

import ast
import hashlib
import html
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any
from xml.etree import ElementTree

import numpy as np
from msgspec import Meta, Struct

from ..errors import TrueNegError, unreadable
from ..files import parse_json, read_bytes

ACCEPTED, CONCEIVABLE = 0.5, 0.1
"""SWORDS: accepted is what more than half of the votes accept, conceivable what at least one in ten does."""
COMMON = 0.05
"""A common cloze answer is from at least this share of the people."""

_LARGEST_FILE = 256 << 20  # bytes, unpacked
_MOST = 1_000_000  # people who give one answer
_SWORDS_PEOPLE = "coinco"  # the source of SWORDS's candidates that people wrote; the others are from a thesaurus
_POS = {"NOUN": "n", "VERB": "v", "ADJ": "a", "ADV": "r", "V": "v", "J": "a", "R": "r"}  # others count as nouns
# What annotators say; it is implicit where people wrote the word themselves. Who is unsure has no vote.
_ACCEPTS = {"TRUE": 1, "TRUE_IMPLICIT": 1, "FALSE": 0, "FALSE_IMPLICIT": 0, "UNSURE": None}
_ASKED, _CONCEIVED = 10, 2  # votes of a cloze answer: all for a common one, some for a rare one
_ANSWERS = (
    'people\'s answers: a JSON list of {"context", "word", "answers": {word: count}}, or cloze_laplace.txt of '
    "github.com/Andrea-de-Varda/prediction-resource"
)
_PEOPLE = "SWORDS's JSON, CoInCo's XML, SemEval-2007's XML and its gold file, or cloze answers"


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


def read_people(paths: Sequence[Path]) -> Judgements:
    """Judgements of any format; of SemEval-2007 the XML, then its gold file."""
    path, *gold = paths
    content = read_bytes(path, expected=_PEOPLE, limit=_LARGEST_FILE)
    start, digest = content.lstrip()[:2], hashlib.sha256(content)
    try:
        if start.startswith((b"[", b"{'")):
            targets = list(_of_answers(read_answers(path, content)))
        elif not start.startswith(b"<"):
            targets = list(_swords(path, content))
        elif b"<lexelt" not in content:
            targets = _with_negatives(_coinco(content))
        elif len(gold) == 1:
            answers = read_bytes(gold[0], expected=_PEOPLE, limit=_LARGEST_FILE)
            digest.update(answers)
            targets = _with_negatives(_semeval(_decoded(content), _gold(_decoded(answers))))
        else:
            raise ValueError("SemEval's answers are in another file; give that too")
        if not targets:
            raise ValueError("no target has candidates")
    except TrueNegError:
        raise
    except Exception as error:  # broken files fail in many ways
        raise TrueNegError(f"{path}: {unreadable(error)}; expected {_PEOPLE}") from None
    return Judgements(path, digest.hexdigest(), tuple(targets))


class _Context(Struct):
    context: str


class _Target(Struct):
    context_id: str
    offset: int
    target: str
    pos: str | None = None


class _Extra(Struct):
    sources: list[str] | None = None


class _Substitute(Struct):
    target_id: str
    substitute: str
    extra: _Extra | None = None


class _File(Struct):
    contexts: dict[str, _Context]
    targets: dict[str, _Target]
    substitutes: dict[str, _Substitute]
    substitute_labels: dict[str, list[str]]


def _swords(path: Path, content: bytes) -> Iterator[Target]:
    """Votes and parts of speech are taken as SWORDS's own evaluation takes them.

    A word that a target has twice is one candidate with the votes of both. Without a vote but UNSURE it is none.
    """
    parsed = parse_json(content, str(path), _File, expected=_PEOPLE)
    candidates: dict[str, dict[str, Candidate]] = {name: {} for name in parsed.targets}
    for name, substitute in parsed.substitutes.items():
        votes = [vote for label in parsed.substitute_labels[name] if (vote := _ACCEPTS[label]) is not None]
        if not votes:
            continue
        word, of_target = substitute.substitute.strip().lower(), candidates[substitute.target_id]
        other = of_target.get(word, Candidate(word, 0, 0, False))
        sources = substitute.extra.sources if substitute.extra else None
        people = other.people or sources is None or _SWORDS_PEOPLE in sources
        of_target[word] = Candidate(word, other.votes + sum(votes), other.asked + len(votes), people)
    for name, target in parsed.targets.items():
        context, start = parsed.contexts[target.context_id].context, target.offset
        word = context[start : start + len(target.target)] if start >= 0 else ""
        if not word or word.lower() != target.target.lower():
            raise ValueError(f"target {name}: its context has {word!r} at offset {start}, not {target.target!r}")
        if candidates[name]:
            yield Target(name, context, start, word, _POS.get(target.pos or "", "n"), tuple(candidates[name].values()))


def _coinco(content: bytes) -> Iterator[tuple[str, Target]]:
    """The targets that are not marked as problematic, with the sentences around them, each with its lemma."""
    if b"<!ENTITY" in content:
        raise ValueError("it has entities of its own")
    for number, sentence in enumerate(ElementTree.fromstring(content).iter("sent")):
        parts = ("precontext", "targetsentence", "postcontext")
        before, text, after = (" ".join((sentence.findtext(part) or "").split()) for part in parts)
        context, offset = " ".join(filter(None, (before, text, after))), len(before) + 1 if before else 0
        end = 0
        for token in sentence.iter("token"):
            word, name = token.attrib["wordform"].strip(), token.attrib["id"]
            start = text.find(word, end)
            if start < 0 or not word:  # some tokens are not in the text
                continue
            end = start + len(word)
            if name == "XXX" or token.attrib.get("problematic") != "no":
                continue
            votes = [(each.attrib["lemma"].strip().lower(), int(each.attrib["freq"])) for each in token.iter("subst")]
            pos = _POS.get(token.attrib["posMASC"][:1], "n")
            if candidates := tuple(
                Candidate(lemma, count, count, True) for lemma, count in votes if lemma and count > 0
            ):
                target = Target(f"{number}:{name}", context, offset + start, word, pos, candidates)
                yield f"{token.attrib['lemma'].lower()}.{pos}", target


def _semeval(text: str, candidates: dict[str, tuple[Candidate, ...]]) -> Iterator[tuple[str, Target]]:
    """The instances that have substitutes, each with its lemma.

    No XML parser reads the file (bare "&", "&#8211 ;"), so its elements are searched for.
    """
    for item, instances in _elements(text, "lexelt"):
        lemma, *rest = item.lower().split(".")
        pos = rest[-1] if rest and rest[-1] in _POS.values() else "n"
        for name, instance in _elements(instances, "instance"):
            _, context, inside = instance.partition("<context>")
            left, head, marked = inside.partition("</context>")[0].partition("<head>")
            if name not in candidates or not context or not head:
                continue
            middle, _, right = marked.partition("</head>")
            before, word, after = map(_text, (left, middle, right))
            before += " " if before and left[-1:].isspace() else ""
            after = " " + after if right[:1].isspace() else after
            target = Target(f"{item} {name}", before + word + after, len(before), word, pos, candidates[name])
            yield f"{lemma}.{pos}", target


def _elements(text: str, kind: str) -> Iterator[tuple[str, str]]:
    """The name and the rest of each element; the rest of the last one goes on to the end."""
    for part in text.split(f"<{kind}")[1:]:
        if named := re.match(r'\s+(?:item|id)="([^"]*)"', part):
            yield named[1], part[named.end() :]


def _text(raw: str) -> str:
    """Without the character references, also the broken ones ("&#8211 ;"), and with single spaces."""
    return " ".join(html.unescape(re.sub(r"(&#?\w+) ;", r"\1;", raw)).split())


def _decoded(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content.decode("latin-1")


def _gold(text: str) -> dict[str, tuple[Candidate, ...]]:
    """By instance, of lines such as ``bright.a 1 :: intelligent 3;clever 2;``."""
    found = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            names, listed = line.split("::", 1)
            _, name = names.split()
            counts = Counter[str]()
            for each in filter(str.strip, listed.lstrip(":").split(";")):
                word, count = each.rsplit(maxsplit=1)
                counts[" ".join(word.split()).lower()] += int(count)
        except ValueError:
            raise ValueError(f"line {number} of its gold file is {line.strip()[:80]!r}") from None
        if counts:
            found[name] = tuple(Candidate(word, count, count, True) for word, count in counts.items() if count > 0)
    return found


def _with_negatives(found: Iterator[tuple[str, Target]]) -> list[Target]:
    """Each target also with the substitutes of its lemma's other targets, which nobody gave here: usual for GAP."""
    targets, pool = list(found), defaultdict[str, dict[str, None]](dict)
    for lemma, target in targets:
        pool[lemma] |= dict.fromkeys(candidate.word for candidate in target.candidates)
    made = []
    for lemma, target in targets:
        given = {candidate.word for candidate in target.candidates}
        others = tuple(Candidate(word, 0, 1, False) for word in pool[lemma] if word not in given)
        made.append(replace(target, candidates=(*target.candidates, *others)))
    return made


class _Item(Struct):
    context: str
    answers: dict[str, Annotated[int, Meta(ge=1, le=_MOST)]]
    word: str | None = None


@dataclass(frozen=True)
class Context:
    """The beginning of a sentence, and what people wrote as its next word."""

    text: str
    word: str | None  # that the text itself goes on with; None where it is not known
    answers: dict[str, int]  # how many people gave each, at least one

    @property
    def people(self) -> int:
        return sum(self.answers.values())


@dataclass(frozen=True)
class Answers:
    """A file's content."""

    sha256: str  # hexadecimal, of the unpacked file
    contexts: tuple[Context, ...]


def read_answers(path: Path, content: bytes | None = None) -> Answers:
    """Cloze answers as our JSON, or as de Varda, Marelli and Amenta (Behavior Research Methods 56, 2024) publish them.

    Contexts without answers are left out. ``content`` is that of the file, unpacked, if it has been read.
    """
    if content is None:
        content = read_bytes(path, expected=_ANSWERS, limit=_LARGEST_FILE)
    if content.lstrip().startswith(b"{'"):
        try:
            contexts = _published(content)
        except Exception as error:  # other literals fail in many ways
            raise TrueNegError(f"{path}: {unreadable(error)}; expected {_ANSWERS}") from None
    else:
        items = parse_json(content, str(path), list[_Item], expected=_ANSWERS)
        contexts = [Context(item.context, item.word, item.answers) for item in items]
    answered = tuple(context for context in contexts if context.answers and context.text.strip())
    if not answered:
        raise TrueNegError(f"{path}: has no context with answers; expected {_ANSWERS}")
    return Answers(hashlib.sha256(content).hexdigest(), answered)


def _published(content: bytes) -> list[Context]:
    """Counts from a Python literal {context: {word: p}}, with p = (count + 1) / N and p(unk) = 1 / N.

    The corpus's word is recovered from the next context, where that is unique.
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
        Context(context, following[context].pop() if len(following[context]) == 1 else None, answers)
        for context, answers in counts.items()
    ]


def _of_answers(answers: Answers) -> Iterator[Target]:
    """The word that the text has as the target; the answers, and as many words that nobody wrote there, as candidates.

    The latter are answers of other contexts, drawn as often as people gave them, or a word's frequency would tell.
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
