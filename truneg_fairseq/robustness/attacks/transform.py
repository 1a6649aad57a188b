"""What a transformation is, and what it makes of the questions of a file."""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ...errors import TrueNegError
from ...files import replacing_text
from ...squad.data import Answer, Question, SquadData, read_json

_FORMAT = "a file of pairs that 'truneg attack squad' wrote"
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
    """A question before and after.

    Attributes:
        original, transformed: with the same id.
    """

    original: Question
    transformed: Question
    details: dict[str, Any]  # what was changed


@dataclass(frozen=True)
class Attack:
    """What a transformation made of a file. "Ori." and "Trans." are both measured on the pairs."""

    transform: str  # the transformation's name
    options: dict[str, Any]  # its options
    seed: int  # of its choices
    pairs: tuple[Pair, ...]  # of the questions that it applies to
    skipped: dict[str, int]  # number of the others by reason
    version: str = "1.1"  # of the file's format, as the file says
    unanswerable: bool = False  # whether questions may have no answer (SQuAD 2.0)

    @property
    def questions(self) -> int:
        """Number of questions in the file."""
        return len(self.pairs) + sum(self.skipped.values())

    def transformed(self) -> SquadData:
        """The transformed questions."""
        return SquadData(tuple(pair.transformed for pair in self.pairs), self.version, self.unanswerable)


def example_rng(seed: int, name: str) -> random.Random:
    """The random numbers of one question: the same whatever other questions there are, and in whatever order."""
    return random.Random(hashlib.sha256(f"{seed}:{name}".encode()).digest())


def attack(
    questions: Iterable[Question],
    transform: Transform,
    seed: int,
    *,
    version: str = "1.1",
    unanswerable: bool = False,
) -> Attack:
    """Transforms all questions that a transformation applies to.

    Args:
        questions: their answers stand at their offsets.
        transform: the transformation.
        seed: of its random choices.
        version: of the file they come from.
        unanswerable: whether that is SQuAD 2.0.
    """
    pairs: list[Pair] = []
    skipped: Counter[str] = Counter()
    for question in questions:
        try:
            transformed, details = transform.apply(question, example_rng(seed, question.id))
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
    marked = result.unanswerable
    pairs = [
        {
            **{"id": pair.original.id, "title": pair.original.title, "question": pair.original.text},
            **{"original": _side(pair.original), "transformed": _side(pair.transformed), "details": pair.details},
            **({"is_impossible": pair.original.impossible} if marked else {}),
        }
        for pair in result.pairs
    ]
    fields: dict[str, Any] = {"transform": result.transform, "options": result.options, "seed": result.seed}
    fields |= {"skipped": result.skipped}
    if marked:
        fields |= {"version": result.version, "unanswerable": True}
    with replacing_text(path) as file:
        json.dump({**fields, "pairs": pairs}, file, ensure_ascii=False)
        file.write("\n")


def read_pairs(path: Path) -> Attack:
    """Reads what :func:`write_pairs` wrote."""
    content = read_json(path, _FORMAT, limit=_LARGEST_FILE)
    try:
        pairs = tuple(
            Pair(_question(entry, "original"), _question(entry, "transformed"), dict(entry["details"]))
            for entry in content["pairs"]
        )
        result = Attack(
            str(content["transform"]),
            dict(content["options"]),
            int(content["seed"]),
            pairs,
            dict(content["skipped"]),
            str(content.get("version", "1.1")),
            bool(content.get("unanswerable", False)),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise TrueNegError(f"{path}: is not {_FORMAT} ({type(error).__name__}: {error}); write it again") from None
    if not pairs:
        raise TrueNegError(f"{path}: has no pairs: {result.transform} applied to none of {result.questions} questions")
    return result


def _side(question: Question) -> dict[str, Any]:
    answers = [{"text": answer.text, "answer_start": answer.start} for answer in question.answers]
    return {"context": question.context, "answers": answers}


def _question(entry: dict[str, Any], side: str) -> Question:
    content = entry[side]
    answers = tuple(Answer(str(answer["text"]), int(answer["answer_start"])) for answer in content["answers"])
    return Question(
        str(entry["id"]),
        str(entry["question"]),
        str(content["context"]),
        answers,
        str(entry["title"]),
        bool(entry.get("is_impossible", False)),
    )
