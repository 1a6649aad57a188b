"""What a transformation is, and what it makes of the questions of a file."""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from ...files import read_json, replacing_file
from ...finetuning.squad_files import Question, SquadData

_LARGEST_FILE = 1 << 30  # bytes; a pair has its context twice, and the pairs of SQuAD's training set 176 MB


class NotApplicableError(Exception):
    """A transformation does not apply to a question; the message is the reason, the same for questions alike."""


class Transform(Protocol):
    """A transformation of single questions."""

    name: str  # as in Table 5
    options: dict[str, Any]  # what decides its answers beside the seed, JSON-able

    def apply(self, question: Question, rng: random.Random) -> tuple[Question, dict[str, Any]]:
        """The transformed question, its answers at their offsets, and what was changed, JSON-able.

        Raises:
            NotApplicableError: it does not apply to the question.
        """
        ...


@dataclass(frozen=True)
class Pair:
    """A question before and after; the id is the same."""

    original: Question
    transformed: Question
    details: dict[str, Any]  # what was changed


@dataclass(frozen=True)
class Attack:
    """What a transformation made of a file. "Ori." and "Trans." are both measured on the pairs."""

    transform: str
    options: dict[str, Any]  # the transformation's
    seed: int  # of its choices
    pairs: tuple[Pair, ...]  # of the questions that it applies to
    skipped: dict[str, int]  # number of the others by reason
    version: str = "1.1"  # of the file's format, as the file says
    unanswerable: bool = False  # whether questions may have no answer (SQuAD 2.0)

    @property
    def questions(self) -> int:
        return len(self.pairs) + sum(self.skipped.values())

    def transformed(self) -> SquadData:
        """The transformed questions."""
        return SquadData(tuple(pair.transformed for pair in self.pairs), self.version, self.unanswerable)


class Edit(NamedTuple):
    """Another text in place of a stretch of the paragraph."""

    start: int  # offset in characters
    end: int  # the same for an insertion
    text: str  # what is to stand there


def edited(question: Question, edits: Iterable[Edit]) -> Question:
    """The question with its paragraph changed and the offsets of its answers shifted.

    Edits overlap neither each other nor an answer; an insertion at an answer's start goes before it.
    """
    context, edits = question.context, sorted(edits)
    for edit in reversed(edits):
        context = f"{context[: edit.start]}{edit.text}{context[edit.end :]}"
    grown = [(edit.end, len(edit.text) - (edit.end - edit.start)) for edit in edits]
    answers = tuple(
        replace(answer, start=answer.start + sum(growth for end, growth in grown if end <= answer.start))
        for answer in question.answers
    )
    return replace(question, context=context, answers=answers)


def attack(
    questions: Iterable[Question], transform: Transform, seed: int, *, version: str = "1.1", unanswerable: bool = False
) -> Attack:
    """Transforms all questions that a transformation applies to; their answers stand at their offsets.

    ``version`` and ``unanswerable`` are those of the file that they come from.
    """
    pairs: list[Pair] = []
    skipped: Counter[str] = Counter()
    for question in questions:
        # The same random numbers whatever other questions there are, and in whatever order.
        rng = random.Random(hashlib.sha256(f"{seed}:{question.id}".encode()).digest())
        try:
            transformed, details = transform.apply(question, rng)
        except NotApplicableError as reason:
            skipped[str(reason)] += 1
            continue
        assert all(answer.stands_in(transformed.context) for answer in transformed.answers)
        pairs.append(Pair(question, transformed, details))
    return Attack(
        transform.name, transform.options, seed, tuple(pairs), dict(skipped.most_common()), version, unanswerable
    )


def write_pairs(path: Path, result: Attack) -> None:
    """Writes an attack as one JSON object."""
    with replacing_file(path) as stream:
        stream.write(msgspec.json.encode(result) + b"\n")


def read_pairs(path: Path) -> Attack:
    """Reads what :func:`write_pairs` wrote."""
    expected = "the file of pairs that 'truneg attack squad' wrote, OUT.pairs.json"
    return read_json(path, Attack, expected=expected, limit=_LARGEST_FILE)
