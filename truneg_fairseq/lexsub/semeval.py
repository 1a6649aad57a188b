"""Reads SemEval-2007 task 10, English lexical substitution (McCarthy and Navigli): its XML and its gold file.

The XML is none for a parser (bare "&", "&#8211 ;"), so its elements are searched for.
"""

from __future__ import annotations

import hashlib
import html
import re
from pathlib import Path

from ..errors import TrueNegError
from ..schema import read_bytes
from .coinco import with_negatives
from .swords import Candidate, Judgements, Target

_ITEM = re.compile(r'<lexelt\s+item="([^"]*)"[^>]*>(.*?)</lexelt>', re.DOTALL)
_INSTANCE = re.compile(r'<instance\s+id="([^"]*)"[^>]*>.*?<context>(.*?)</context>', re.DOTALL)
_HEAD = re.compile(r"<head>(.*?)</head>", re.DOTALL)
_GOLD = re.compile(r"(\S+)\s+(\S+)\s+:::?\s*(.*)")
_VOTE = re.compile(r"(.+?)\s+(\d+)")
_LARGEST_FILE = 64 << 20  # bytes
_EXPECTED_XML = "SemEval-2007's XML of <lexelt>, <instance>, <context> and <head>"
_EXPECTED_GOLD = "SemEval-2007's gold lines, such as 'bright.a 1 :: intelligent 3;clever 2;'"


def read_semeval(path: Path, content: bytes, gold: Path | None) -> Judgements:
    """The instances of an XML file that the gold file has substitutes for."""
    if gold is None:
        raise TrueNegError(f"{path}: is {_EXPECTED_XML}, whose answers are in another file; give it with --gold")
    answers = read_bytes(gold, expected=_EXPECTED_GOLD, limit=_LARGEST_FILE)
    candidates = _candidates(gold, _decoded(answers))
    targets = []
    for item, instances in _ITEM.findall(_decoded(content)):
        lemma, *rest = item.lower().split(".")
        for name, raw in _INSTANCE.findall(instances):
            if (found := candidates.get(name)) is None or (head := _HEAD.search(raw)) is None:
                continue
            before, word, after = map(_text, (raw[: head.start()], head[1], raw[head.end() :]))
            joint = " " if before and raw[: head.start()][-1:].isspace() else ""
            behind = " " if raw[head.end() :][:1].isspace() else ""
            start = len(before) + len(joint)
            pos = rest[-1] if rest and rest[-1] in ("n", "v", "a", "r") else "n"
            context = f"{before}{joint}{word}{behind}{after}"
            targets.append((f"{lemma}.{pos}", Target(f"{item} {name}", context, start, word, pos, found)))
    if not targets:
        raise TrueNegError(
            f"{path}: has no instance of the ids in {gold}; expected {_EXPECTED_XML} and its own gold file"
        )
    digest = hashlib.sha256(content + answers).hexdigest()
    return Judgements(path, digest, with_negatives(targets))


def _candidates(path: Path, text: str) -> dict[str, tuple[Candidate, ...]]:
    """By instance."""
    found = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        parts = _GOLD.fullmatch(line.strip())
        votes = [_VOTE.fullmatch(each.strip()) for each in parts[3].split(";") if each.strip()] if parts else [None]
        if parts is None or None in votes:
            raise TrueNegError(f"{path}: line {number} is {line[:80]!r}; expected {_EXPECTED_GOLD}")
        counts: dict[str, int] = {}
        for vote in filter(None, votes):
            word = " ".join(vote[1].lower().split())
            counts[word] = counts.get(word, 0) + int(vote[2])
        if counts:
            found[parts[2]] = tuple(Candidate(word, count, count, True) for word, count in counts.items() if count)
    return found


def _decoded(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content.decode("latin-1")


def _text(raw: str) -> str:
    """Without the character references, also the broken ones ("&#8211 ;"), and with single spaces."""
    return " ".join(html.unescape(re.sub(r"(&#?\w+) ;", r"\1;", raw)).split())
