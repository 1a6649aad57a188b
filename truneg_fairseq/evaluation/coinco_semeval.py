"""Reads substitutes that people wrote: CoInCo (Kremer, Erk, Pado, Thater, EACL 2014) and SemEval-2007 task 10
(McCarthy and Navigli).

No XML parser reads the latter (bare "&", "&#8211 ;"), so its elements are searched for.
"""

from __future__ import annotations

import hashlib
import html
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

from ..errors import TrueNegError, unreadable
from ..files import read_bytes
from .swords import Candidate, Judgements, Target

_POS = {"N": "n", "V": "v", "J": "a", "R": "r"}
_UNMARKED = "XXX"
_ATTRIBUTE = re.compile(r'\s+(?:item|id)="([^"]*)"')
_LARGEST_FILE = 64 << 20  # bytes
_LONGEST_COUNT = 6  # digits
_EXPECTED_XML = "SemEval-2007's XML of <lexelt>, <instance>, <context> and <head>"
_EXPECTED_GOLD = "SemEval-2007's gold lines, such as 'bright.a 1 :: intelligent 3;clever 2;'"


def read_coinco(path: Path, content: bytes) -> Judgements:
    """The targets that are not marked as problematic, with the sentences around them."""

    def targets() -> Iterator[tuple[str, Target]]:
        if b"<!ENTITY" in content:
            raise ValueError("it has entities of its own")
        for number, sentence in enumerate(ElementTree.fromstring(content).iter("sent")):
            yield from _targets(sentence, number)

    try:
        found = list(targets())
        if not found:
            raise ValueError("no target has substitutes")
    except (ElementTree.ParseError, ValueError, AttributeError, KeyError, TypeError) as error:
        raise TrueNegError(f"{path}: {unreadable(error)}; expected CoInCo's XML") from None
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
        made.append(replace(target, candidates=(*target.candidates, *others)))
    return tuple(made)


def read_semeval(path: Path, content: bytes, gold: Sequence[Path]) -> Judgements:
    """The instances of an XML file that the gold file has substitutes for."""
    if len(gold) != 1:
        raise TrueNegError(f"{path}: is {_EXPECTED_XML}, whose answers are in another file; give that too")
    answers = read_bytes(gold[0], expected=_EXPECTED_GOLD, limit=_LARGEST_FILE)
    candidates = _candidates(gold[0], _decoded(answers))
    targets = []
    for item, instances in _elements(_decoded(content), "lexelt"):
        lemma, *rest = item.lower().split(".")
        pos = rest[-1] if rest and rest[-1] in ("n", "v", "a", "r") else "n"
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
            targets.append((f"{lemma}.{pos}", target))
    if not targets:
        raise TrueNegError(
            f"{path}: has no instance of the ids in {gold[0]}; expected {_EXPECTED_XML} and its own gold file"
        )
    digest = hashlib.sha256(content + answers).hexdigest()
    return Judgements(path, digest, with_negatives(targets))


def _elements(text: str, kind: str) -> Iterator[tuple[str, str]]:
    """The name and the rest of each element; the rest of the last one goes on to the end."""
    for part in text.split(f"<{kind}")[1:]:
        if named := _ATTRIBUTE.match(part):
            yield named[1], part[named.end() :]


def _candidates(path: Path, text: str) -> dict[str, tuple[Candidate, ...]]:
    """By instance."""
    found = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        names, separator, listed = line.partition("::")
        votes = [each.split() for each in listed.lstrip(":").split(";") if each.strip()]
        if not separator or len(names.split()) != 2 or not all(_is_vote(vote) for vote in votes):
            raise TrueNegError(f"{path}: line {number} is {line.strip()[:80]!r}; expected {_EXPECTED_GOLD}")
        counts: dict[str, int] = {}
        for *words, count in votes:
            word = " ".join(words).lower()
            counts[word] = counts.get(word, 0) + int(count)
        if counts:
            candidates = tuple(Candidate(word, count, count, True) for word, count in counts.items() if count)
            found[names.split()[1]] = candidates
    return found


def _is_vote(words: list[str]) -> bool:
    return len(words) > 1 and words[-1].isascii() and words[-1].isdigit() and len(words[-1]) <= _LONGEST_COUNT


def _decoded(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content.decode("latin-1")


def _text(raw: str) -> str:
    """Without the character references, also the broken ones ("&#8211 ;"), and with single spaces."""
    return " ".join(html.unescape(re.sub(r"(&#?\w+) ;", r"\1;", raw)).split())
