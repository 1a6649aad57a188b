"""Reads CoInCo's XML (Kremer, Erk, Pado, Thater, EACL 2014): substitutes that people wrote for words of whole texts."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from ..errors import TrueNegError, reason
from .swords import Candidate, Judgements, Target

_POS = {"N": "n", "V": "v", "J": "a", "R": "r"}
_UNMARKED = "XXX"
_EXPECTED = "CoInCo's XML"


def read_coinco(path: Path, content: bytes) -> Judgements:
    """The targets that are not marked as problematic, with the sentences around them."""
    try:
        if b"<!ENTITY" in content:
            raise ValueError("it has entities of its own")
        root = ElementTree.fromstring(content)
        found = [each for number, sentence in enumerate(root.iter("sent")) for each in _targets(sentence, number)]
    except (ElementTree.ParseError, ValueError, KeyError) as error:
        raise TrueNegError(f"{path}: cannot be read ({reason(error)[:200]}); expected {_EXPECTED}") from None
    if not found:
        raise TrueNegError(f"{path}: has no target with substitutes; expected {_EXPECTED}")
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
        made.append(
            Target(target.name, target.context, target.start, target.word, target.pos, (*target.candidates, *others))
        )
    return tuple(made)
