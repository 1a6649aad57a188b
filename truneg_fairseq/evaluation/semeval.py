"""Reads SemEval-2007 task 10, English lexical substitution (McCarthy and Navigli): its XML and its gold file.

No XML parser reads it (bare "&", "&#8211 ;"), so its elements are searched for.
"""

from __future__ import annotations

import hashlib
import html
import re
from collections.abc import Iterator
from pathlib import Path

from ..errors import TrueNegError
from ..files import read_bytes
from .coinco import with_negatives
from .swords import Candidate, Judgements, Target

_ATTRIBUTE = re.compile(r'\s+(?:item|id)="([^"]*)"')
_LARGEST_FILE = 64 << 20  # bytes
_LONGEST_COUNT = 6  # digits
_EXPECTED_XML = "SemEval-2007's XML of <lexelt>, <instance>, <context> and <head>"
_EXPECTED_GOLD = "SemEval-2007's gold lines, such as 'bright.a 1 :: intelligent 3;clever 2;'"


def read_semeval(path: Path, content: bytes, gold: Path | None) -> Judgements:
    """The instances of an XML file that the gold file has substitutes for."""
    if gold is None:
        raise TrueNegError(f"{path}: is {_EXPECTED_XML}, whose answers are in another file; give it with --gold")
    answers = read_bytes(gold, expected=_EXPECTED_GOLD, limit=_LARGEST_FILE)
    candidates = _candidates(gold, _decoded(answers))
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
            f"{path}: has no instance of the ids in {gold}; expected {_EXPECTED_XML} and its own gold file"
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
