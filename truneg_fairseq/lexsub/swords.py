"""Reads the JSON format of SWORDS (Lee et al., NAACL 2021), in which CoInCo and others are published too.

The file holds contexts, target words in them, substitutes of the targets, and for each substitute what every annotator
said of it: TRUE, FALSE or UNSURE (``TRUE_IMPLICIT`` where people wrote the word themselves).
"""

from __future__ import annotations

import gzip
import hashlib
import io
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import TrueNegError, reason
from ..schema import parse_json, read_bytes

PARTS_OF_SPEECH = {"NOUN": "n", "VERB": "v", "ADJ": "a", "ADV": "r"}
"""The file's names of those that WordNet has; every other one counts as a noun, as SWORDS's own evaluation does."""

PEOPLE = "coinco"
"""The source of the candidates that people wrote; the others are from a thesaurus."""

_GZIP = b"\x1f\x8b"
_LARGEST_FILE = 256 << 20  # bytes, unpacked
_PARTS = ("contexts", "targets", "substitutes", "substitute_labels")
_LABELS = {"TRUE": 1, "TRUE_IMPLICIT": 1, "FALSE": 0, "FALSE_IMPLICIT": 0, "UNSURE": 0}


@dataclass(frozen=True)
class Candidate:
    """A substitute and what people said of it."""

    word: str  # in lower case, a lemma where the file says that its substitutes are; may be several words
    votes: int  # how many said TRUE
    asked: int  # how many were asked, at least 1
    people: bool  # it is from people, not from a thesaurus; True where the file names no sources

    @property
    def share(self) -> float:
        """Of those asked who said TRUE, in [0, 1]."""
        return self.votes / self.asked


@dataclass(frozen=True)
class Target:
    """A word in its context with its candidates."""

    name: str  # its key in the file
    context: str  # the text
    start: int  # where the word begins in the text, in characters
    word: str  # as the text has it
    pos: str  # "n", "v", "a" or "r"
    candidates: tuple[Candidate, ...]  # in the file's order


@dataclass(frozen=True)
class Judgements:
    """A file's content."""

    path: Path  # the file
    sha256: str  # its checksum, hexadecimal, of the JSON itself whether it is compressed or not
    targets: tuple[Target, ...]  # in the file's order, each with at least one candidate

    @property
    def candidates(self) -> int:
        """Of all targets."""
        return sum(len(target.candidates) for target in self.targets)


def read_judgements(path: Path) -> Judgements:
    """Reads a file, plain or gzipped."""
    text = _read(path)
    content = parse_json(text, str(path), dict[str, Any], expected="SWORDS's JSON")
    for part in _PARTS:
        if not isinstance(content.get(part), dict):
            raise _refused(path, f"it has no {part!r}")
    try:
        targets = _targets(path, content)
    except (KeyError, TypeError, AttributeError) as error:
        raise _refused(path, f"{type(error).__name__}: {reason(error)}") from None
    if not targets:
        raise _refused(path, "it has no target with candidates")
    return Judgements(path, hashlib.sha256(text).hexdigest(), targets)


def _read(path: Path) -> bytes:
    try:
        raw = read_bytes(path, expected="SWORDS's JSON", limit=_LARGEST_FILE)
        packed = raw.startswith(_GZIP)
        text = gzip.GzipFile(fileobj=io.BytesIO(raw)).read(_LARGEST_FILE + 1) if packed else raw
    except (OSError, EOFError, zlib.error) as error:
        raise _refused(path, reason(error)) from None
    if len(text) > _LARGEST_FILE:
        raise _refused(path, f"it is longer than {_LARGEST_FILE:,} bytes")
    return text


def _targets(path: Path, content: Mapping[str, Any]) -> tuple[Target, ...]:
    candidates = _candidates(path, content)
    targets = []
    for name, target in content["targets"].items():
        context, start, word = content["contexts"][target["context_id"]]["context"], target["offset"], target["target"]
        found = context[start : start + len(word)] if start >= 0 else ""
        if not word or found.lower() != word.lower():
            raise TrueNegError(
                f"{path}: target {name}: its context has {found!r} at offset {start}, expected {word!r}; the file is "
                "damaged, or its offsets are not of characters"
            )
        if name in candidates:
            pos = PARTS_OF_SPEECH.get(target.get("pos"), "n")
            targets.append(Target(name, context, start, found, pos, tuple(candidates[name])))
    return tuple(targets)


def _candidates(path: Path, content: Mapping[str, Any]) -> dict[str, list[Candidate]]:
    """By target; a word that a target has twice is one candidate with the votes of both."""
    merged: dict[str, dict[str, Candidate]] = {}
    for name, substitute in content["substitutes"].items():
        word, labels = str(substitute["substitute"]).strip().lower(), content["substitute_labels"].get(name)
        if not isinstance(labels, list) or not labels:
            raise TrueNegError(
                f"{path}: substitute {name} ({word!r}) has no votes; expected a list of {', '.join(_LABELS)} in "
                "'substitute_labels'"
            )
        if strange := next((label for label in labels if label not in _LABELS), None):
            raise TrueNegError(
                f"{path}: substitute {name} ({word!r}): found the vote {strange!r}, expected {', '.join(_LABELS)}"
            )
        sources = (substitute.get("extra") or {}).get("sources")
        of_target = merged.setdefault(substitute["target_id"], {})
        other = of_target.get(word, Candidate(word, 0, 0, False))
        of_target[word] = Candidate(
            word,
            other.votes + sum(_LABELS[label] for label in labels),
            other.asked + len(labels),
            other.people or sources is None or PEOPLE in sources,
        )
    if lost := merged.keys() - content["targets"].keys():
        raise _refused(path, f"a substitute is of the target {min(lost)!r}, which it does not have")
    return {name: list(words.values()) for name, words in merged.items()}


def _refused(path: Path, what: str) -> TrueNegError:
    return TrueNegError(f"{path}: are no judgements ({what}); expected SWORDS's JSON, plain or gzipped")
