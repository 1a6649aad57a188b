"""What an attack does to the questions of a file, and to a model: Ori. -> Trans. on the same questions (Table 5).

An attack is a class with the attributes and the method of :class:`Transform`, given to :func:`attack_file`:
swap_synonyms.py and add_sentence.py beside this file.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec
import numpy as np

from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.files import read_json, replacing_file, require_different, require_writable, write_json
from truneg_fairseq.finetuning.squad_files import (
    ZERO,
    Answer,
    Question,
    QuestionScore,
    SquadData,
    read_predictions,
    read_squad,
    require_all,
    require_answer,
    score_question,
    score_questions,
)
from truneg_fairseq.flags import option
from truneg_fairseq.results.intervals import Interval, Ratio, ratios_as_fields, seed_interval
from truneg_fairseq.results.result import Metric, Result
from truneg_fairseq.workers import Progress

_LARGEST_FILE = 1 << 30  # bytes; a pair has its context twice, and the pairs of SQuAD's training set 176 MB
_EXAMPLES = 3  # pairs to show


@dataclass(kw_only=True)
class AttackOptions:
    data: Path = option(help="questions in SQuAD's format, 1.1 or 2.0", metavar="IN.json", positional=True)
    output: Path = option(
        help="the transformed questions, in the same format and version", metavar="OUT.json", positional=True
    )
    seed: int = option(1, "of the random choices")


class NotApplicableError(Exception):
    """A transformation does not apply to a question; the message is the reason, the same for questions alike."""


class Transform(Protocol):
    """A transformation of single questions."""

    name: str  # as in Table 5
    options: dict[str, Any]  # what decides its answers beside the seed, JSON-able

    def apply(self, question: Question, rng: random.Random) -> tuple[Question, dict[str, Any]]:
        """The transformed question, its answers at their offsets, and what was changed, JSON-able; else
        :class:`NotApplicableError`.
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


class Edit(NamedTuple):
    """Another text in place of a stretch of the paragraph."""

    start: int  # offset in characters
    end: int  # the same for an insertion
    text: str  # what is to stand there


def edited(question: Question, edits: Iterable[Edit]) -> Question:
    """The question with its paragraph changed and the offsets of its answers shifted; edits overlap neither each other
    nor an answer, and an insertion at an answer's start goes before it.
    """
    context, edits = question.context, sorted(edits)
    for edit in reversed(edits):
        context = f"{context[: edit.start]}{edit.text}{context[edit.end :]}"
    grown = [(edit.end, len(edit.text) - (edit.end - edit.start)) for edit in edits]
    answers = tuple(
        Answer(answer.text, answer.start + sum(growth for end, growth in grown if end <= answer.start))
        for answer in question.answers
    )
    return replace(question, context=context, answers=answers)


def attack(data: SquadData, transform: Transform, seed: int) -> Attack:
    """Transforms all questions that a transformation applies to; their answers stand at their offsets."""
    pairs: list[Pair] = []
    skipped: Counter[str] = Counter()
    for question in Progress(data.questions, desc="attacking", unit=" questions", leave=False, disable=None):
        # The same random numbers whatever other questions there are, and in whatever order.
        rng = random.Random(hashlib.sha256(f"{seed}:{question.id}".encode()).digest())
        try:
            transformed, details = transform.apply(question, rng)
        except NotApplicableError as reason:
            skipped[str(reason)] += 1
            continue
        assert all(answer.stands_in(transformed.context) for answer in transformed.answers)
        pairs.append(Pair(question, transformed, details))
    of_file = (data.version, data.unanswerable)
    return Attack(transform.name, transform.options, seed, tuple(pairs), dict(skipped.most_common()), *of_file)


def require_legal(question: Question, path: Path) -> None:
    """Refuses a question of a file of which an answer does not stand at its offset."""
    for answer in question.answers:
        if not answer.stands_in(question.context):
            found = question.context[max(0, answer.start) : max(0, answer.end)]
            raise TrueNegError(
                f"{path}: question {question.id}: the answer {answer.text!r} does not stand at its answer_start "
                f"{answer.start}, where the paragraph has {found!r}; correct the file"
            )


def attack_file(options: AttackOptions, make: Callable[[], Transform]) -> list[str]:
    """Writes the questions that a transformation applies to, transformed, and their pairs; says what it has done.

    The transformation is made when the file is known to be good.
    """
    data, output = options.data, options.output
    pairs = output.with_name(f"{output.name.removesuffix('.json')}.pairs.json")
    require_different(IN=data, OUT=output, PAIRS=pairs)
    for path in (output, pairs):
        require_writable(path, "OUT.json")
    source = read_squad(data)
    for question in source.questions:
        require_legal(question, data)
    result = attack(source, make(), options.seed)
    if not result.pairs:
        raise TrueNegError(f"{data}: {result.transform} applies to none of its {result.questions} questions")
    with replacing_file(pairs) as stream:
        stream.write(msgspec.json.encode(result) + b"\n")
    changed = tuple(pair.transformed for pair in result.pairs)
    write_squad(output, SquadData(changed, source.version, source.unanswerable))
    return [*_describe(result), f"wrote {output} and {pairs}"]


def write_squad(path: Path, data: SquadData) -> None:
    """Writes a file in SQuAD's format: questions next to each other on one paragraph share it."""

    def entry(question: Question) -> dict[str, Any]:
        written = {"id": question.id, "question": question.text, "answers": msgspec.to_builtins(question.answers)}
        return written | ({"is_impossible": question.impossible} if data.unanswerable else {})

    articles = [
        {
            "title": title,
            "paragraphs": [
                {"context": context, "qas": list(map(entry, asked))}
                for context, asked in itertools.groupby(questions, key=lambda question: question.context)
            ],
        }
        for title, questions in itertools.groupby(data.questions, key=lambda question: question.title)
    ]
    write_json(path, {"version": data.version, "data": articles})


def read_pairs(path: Path) -> Attack:
    """Reads the pairs that :func:`attack_file` wrote."""
    expected = "the file of pairs that an attack wrote, OUT.pairs.json"
    return read_json(path, Attack, expected=expected, limit=_LARGEST_FILE)


def _describe(result: Attack) -> list[str]:
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


METRICS = {"exact_match": "exact", "f1": "f1"}
SIDES = ("original", "transformed")
_SHOWN = {
    f"{when}_{metric}": Metric(f"{title} {column}", when != "drop")
    for title, metric in (("EM", "exact_match"), ("F1", "f1"))
    for when, column in (("original", "Ori."), ("transformed", "Trans."), ("drop", "drop"))
}


class Robustness:
    """A model's scores on the pairs of an attack: of the original questions, named by ``ids``, and the transformed."""

    def __init__(self, transform: str, ids: Sequence[str], *sides: Sequence[QuestionScore]) -> None:
        self.transform, self.ids = transform, ids
        # "original_exact_match", "transformed_f1" ...: the scores of the questions, in [0, 1], in the order of the ids
        self.scores = {
            f"{side}_{metric}": np.array([getattr(score, name) for score in of_side], dtype=np.float64)
            for side, of_side in zip(SIDES, sides, strict=True)
            for metric, name in METRICS.items()
        }
        for metric in METRICS:
            self.scores[f"drop_{metric}"] = self.scores[f"original_{metric}"] - self.scores[f"transformed_{metric}"]

    def drop(self, metric: str) -> Interval:
        """The mean loss by the attack with its 95 % interval over the pairs (Student's t), in [-1, 1]."""
        lost = self.scores[f"drop_{metric}"]
        return Interval(*np.clip(seed_interval(lost[None]) or [lost.mean()] * 3, -1, 1).tolist())

    def report(self) -> dict[str, Any]:
        """In percent: both sides, the drop and its interval, by metric."""
        report: dict[str, Any] = {"transform": self.transform, "pairs": len(self.ids)}
        for metric in METRICS:
            mean, low, high = (100 * value for value in self.drop(metric))
            sides = {side: 100 * float(self.scores[f"{side}_{metric}"].mean()) for side in SIDES}
            report[metric] = {**sides, "drop": mean, "interval": [low, high]}
        return report

    def lines(self) -> list[str]:
        """:meth:`report` as a small table."""
        report = self.report()
        lines = [
            f"{self.transform}, {len(self.ids)} pairs; in %",
            "              Ori.   Trans.     drop  95 % interval",
        ]
        for metric in METRICS:
            low, high = report[metric]["interval"]
            numbers = " ".join(f"{report[metric][name]:8.2f}" for name in (*SIDES, "drop"))
            lines.append(f"{metric:<11}{numbers}  [{low:.2f}, {high:.2f}]")
        return lines

    def result(self, model: str, seed: int) -> Result:
        """This measurement as a line of a result file."""
        fields = ratios_as_fields({name: Ratio(values, np.ones_like(values)) for name, values in self.scores.items()})
        return Result(model=model, task=self.transform, seed=seed, shown=_SHOWN, example_ids=list(self.ids), **fields)


def measure(
    attack: Attack, original: Mapping[str, str], transformed: Mapping[str, str], name: str | None = None
) -> Robustness:
    """Scores predictions, by id, for the original and for the transformed questions of an attack's pairs."""
    score = partial(score_question, unanswerable=attack.unanswerable)
    before, after = [pair.original for pair in attack.pairs], [pair.transformed for pair in attack.pairs]
    for side, questions, answers in zip(SIDES, (before, after), (original, transformed), strict=True):
        require_all(questions, answers, f"answer to the {side} question")
    for question in () if attack.unanswerable else before:
        require_answer(question)
    return Robustness(
        name or attack.transform,
        [question.id for question in before],
        [score(original[question.id], question.answer_texts) for question in before],
        [score(transformed[question.id], question.answer_texts) for question in after],
    )


def worst_variants(scores: Mapping[str, QuestionScore]) -> dict[str, QuestionScore]:
    """By the id of the original the score that Jia and Liang's adversary takes.

    An id is that of the original, or that with "-" and the name of a variant. The adversary takes for each original the
    variant of the lowest F1 (the first of equals), and the original itself only where there is no variant.
    """
    variants: dict[str, list[str]] = {}
    for name in scores:
        variants.setdefault(name.partition("-")[0], []).append(name)
    return {
        original: min(
            (scores[name] for name in [name for name in names if name != original] or names), key=lambda score: score.f1
        )
        for original, names in variants.items()
    }


def measure_files(file: Path, answers: Path, transformed: Path | None = None, *, name: str | None = None) -> Robustness:
    """Scores answers to the original and to the transformed questions of an attack's pairs; without ``transformed``
    those to all questions of a file of Jia and Liang. The ``name`` is the transformation's, or the file's.
    """
    if transformed is not None:
        return measure(read_pairs(file), read_predictions(answers), read_predictions(transformed), name)
    # Each original, and the worst of its variants; an original without variants counts by itself on both sides. As in
    # Jia and Liang's script a question without an answer is passed over, and scores 0 where nothing else stands for it.
    predictions = read_predictions(answers)
    scores = score_questions(read_squad(file).questions, predictions)
    ids = list(worst_variants(scores))
    if lost := [each for each in ids if each not in scores]:
        raise TrueNegError(
            f"{file}: has variants of question {lost[0]!r} without the question itself; expected a file of Jia and "
            "Liang, with the original questions"
        )
    worst = worst_variants({each: score for each, score in scores.items() if each in predictions})
    return Robustness(name or file.stem, ids, [scores[each] for each in ids], [worst.get(each, ZERO) for each in ids])
