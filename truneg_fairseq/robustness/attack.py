"""What an attack does to the questions of a file: the transformed questions, and the pairs of both.

An attack of your own is a class with the attributes and the method of :class:`Transform`, given to :func:`attack_file`;
user_dir_examples/attacks has one.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from ..errors import TrueNegError
from ..files import read_json, replacing_file, require_different, require_writable
from ..finetuning.squad_files import Question, SquadData, read_squad, write_squad
from ..options import option
from ..workers import Progress

_LARGEST_FILE = 1 << 30  # bytes; a pair has its context twice, and the pairs of SQuAD's training set 176 MB
_EXAMPLES = 3  # pairs to show


@dataclass(kw_only=True)
class AttackOptions:
    data: Path = option(help="questions in SQuAD's format, 1.1 or 2.0", metavar="IN.json", positional=True)
    output: Path = option(
        help="the transformed questions, in the same format and version", metavar="OUT.json", positional=True
    )
    seed: int = option(1, "of the random choices")

    @property
    def pairs(self) -> Path:
        """Where the pairs lie, beside the transformed questions."""
        return self.output.with_name(f"{self.output.name.removesuffix('.json')}.pairs.json")


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


def attack_file(options: AttackOptions, make: Callable[[Sequence[Question]], Transform]) -> list[str]:
    """Writes the questions that a transformation applies to, transformed, and their pairs; says what it has done.

    ``make`` gets the file's questions and returns the transformation.
    """
    data, pairs = options.data, options.pairs
    require_different(IN=data, OUT=options.output, PAIRS=pairs)
    for path in (options.output, pairs):
        require_writable(path, "OUT.json")
    source = read_squad(data)
    questions = [question.require_legal(str(data)) for question in source.questions]
    result = attack(
        Progress(questions, desc="attacking", unit=" questions", leave=False, disable=None),
        make(questions),
        options.seed,
        version=source.version,
        unanswerable=source.unanswerable,
    )
    if not result.pairs:
        raise TrueNegError(f"{data}: {result.transform} applies to none of its {result.questions} questions")
    with replacing_file(pairs) as stream:
        stream.write(msgspec.json.encode(result) + b"\n")
    write_squad(options.output, result.transformed())
    return [*_describe(result), f"wrote {options.output} and {pairs}"]


def read_pairs(path: Path) -> Attack:
    """Reads the pairs that :func:`attack_file` wrote."""
    expected = "the file of pairs that 'truneg attack squad' wrote, OUT.pairs.json"
    return read_json(path, Attack, expected=expected, limit=_LARGEST_FILE)


def _describe(result: Attack) -> list[str]:
    """To how many questions an attack applies, why not to the others, and some pairs."""
    share = 100 * len(result.pairs) / result.questions
    lines = [f"{result.transform} applies to {len(result.pairs)} of {result.questions} questions ({share:.1f} %)"]
    lines += [f"  {name}: {value}" for name, value in result.options.items()]
    lines += [f"  not applied to {count}: {reason}" for reason, count in result.skipped.items()]
    step = max(1, len(result.pairs) // _EXAMPLES)
    for pair in result.pairs[::step][:_EXAMPLES]:
        answer = pair.original.answer_texts[0] if pair.original.answers else "no answer"
        lines += ["", f"{pair.original.text}  [{answer}]"]
        lines += [f"  {name}: {json.dumps(value, ensure_ascii=False)}" for name, value in pair.details.items()]
    return lines
