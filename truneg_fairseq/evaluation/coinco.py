"""Reads CoInCo (Kremer, Erk, Pado, Thater, EACL 2014): substitutes that people wrote for words of whole texts.

It is published as XML, and with SemEval-2007 in the older JSON of SWORDS's repository (its key "ss" has the sentences).
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from ..errors import TrueNegError, unreadable
from ..files import parse_json
from .swords import PARTS_OF_SPEECH, Candidate, Judgements, Target

_POS = {"N": "n", "V": "v", "J": "a", "R": "r"}
_UNMARKED = "XXX"
_EXPECTED_SENTENCES = "SWORDS's older JSON"


def read_coinco(path: Path, content: bytes) -> Judgements:
    """The targets that are not marked as problematic, with the sentences around them."""

    def targets() -> Iterator[tuple[str, Target]]:
        if b"<!ENTITY" in content:
            raise ValueError("it has entities of its own")
        for number, sentence in enumerate(ElementTree.fromstring(content).iter("sent")):
            yield from _targets(sentence, number)

    return _judgements(path, content, targets(), "CoInCo's XML")


def _judgements(path: Path, content: bytes, targets: Iterator[tuple[str, Target]], expected: str) -> Judgements:
    try:
        found = list(targets)
        if not found:
            raise ValueError("no target has substitutes")
    except (ElementTree.ParseError, ValueError, AttributeError, KeyError, TypeError) as error:
        raise TrueNegError(f"{path}: {unreadable(error)}; expected {expected}") from None
    return Judgements(path, hashlib.sha256(content).hexdigest(), with_negatives(found))


def _targets(sentence: ElementTree.Element, number: int) -> Iterator[tuple[str, Target]]:
    """The targets of a sentence, each with its lemma."""
    before, text, after = (
        " ".join((sentence.findtext(part) or "").split()) for part in ("precontext", "targetsentence", "postcontext")
    )
    context, offset = " ".join(filter(None, (before, text, after))), len(before) + 1 if before else 0
    end = 0
    for token in sentence.iter("token"):
        word = token.attrib["wordform"].strip()
        start = text.find(word, end)
        if start < 0 or not word:  # some tokens are not in the text
            continue
        end = start + len(word)
        name = token.attrib["id"]
        if name == _UNMARKED or token.attrib.get("problematic") != "no":
            continue
        votes = [(each.attrib["lemma"].strip().lower(), int(each.attrib["freq"])) for each in token.iter("subst")]
        candidates = tuple(Candidate(lemma, count, count, True) for lemma, count in votes if lemma and count > 0)
        if candidates:
            pos = _POS.get(token.attrib["posMASC"][:1], "n")
            target = Target(f"{number}:{name}", context, offset + start, word, pos, candidates)
            yield f"{token.attrib['lemma'].lower()}.{pos}", target


def read_sentences(path: Path, content: bytes) -> Judgements:
    """As :func:`read_coinco`, of the older JSON."""
    sentences = parse_json(content, str(path), dict[str, Any], expected=_EXPECTED_SENTENCES)["ss"]
    found = (each for sentence in sentences for each in _targets_in(sentence))
    return _judgements(path, content, found, _EXPECTED_SENTENCES)


def _targets_in(sentence: dict[str, Any]) -> Iterator[tuple[str, Target]]:
    for number, word in enumerate(sentence["ws"]):
        votes: Counter[str] = Counter()
        for each in word["wprimes"]:
            votes[each["wprime"].strip().lower()] += len(each["human_labels"])
        start, raw = word["off"], word["extra"]["raw"]
        spelled = sentence["s"][max(0, start) :][: len(word["w"])]
        if +votes and spelled.lower() == word["w"].lower() and raw.get("problematic") != "yes":
            pos = PARTS_OF_SPEECH.get("".join(word["pos"][:1]), "n")
            candidates = tuple(Candidate(name, count, count, True) for name, count in (+votes).items())
            target = Target(f"{sentence['id']}:{number}", sentence["s"], start, spelled, pos, candidates)
            yield f"{raw['lemma'].lower()}.{pos}", target


def with_negatives(targets: list[tuple[str, Target]]) -> tuple[Target, ...]:
    """Each target also with the substitutes of its lemma's other targets, which nobody gave here, as is usual for GAP.

    Args:
        targets: each with its lemma and part of speech.
    """
    pool: dict[str, dict[str, None]] = defaultdict(dict)
    for lemma, target in targets:
        pool[lemma] |= dict.fromkeys(candidate.word for candidate in target.candidates)
    made = []
    for lemma, target in targets:
        given = {candidate.word for candidate in target.candidates}
        others = tuple(Candidate(word, 0, 1, False) for word in pool[lemma] if word not in given)
        made.append(replace(target, candidates=(*target.candidates, *others)))
    return tuple(made)
