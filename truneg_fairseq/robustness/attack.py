"""What an attack does to the questions of a file, and to a model: Ori. -> Trans. on the same questions (Table 5).

An attack of your own is a class with the attributes and the method of :class:`Transform`, given to :func:`attack_file`;
user_dir_examples/attacks has one.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..errors import TrueNegError
from ..files import read_json, replacing_file, require_different, require_writable
from ..finetuning.squad_files import Question, SquadData, read_predictions, read_squad, write_squad
from ..finetuning.squad_score import (
    ZERO,
    QuestionScore,
    require_answer,
    score_question,
    score_question_v2,
    score_questions,
    worst_variants,
)
from ..options import option
from ..results.intervals import Interval, Ratio
from ..results.result import Result
from ..synonyms.lists import ENGLISH_STOP_WORDS
from ..synonyms.wordnet import PARTS_OF_SPEECH, open_database
from ..workers import Progress
from .english import English

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


_SHARE, _FEWEST, _MOST = 0.1, 1, 10
_TAG_CLASSES = {"N": "n", "V": "v", "J": "a", "R": "r"}


class SwapSynWordNet:
    """A tenth of the paragraph's words (1 to 10) become synonyms; the question stays.

    Words are taken in random order until enough are replaced: never punctuation, stop words or a word of an answer,
    and those without a candidate are passed over. A candidate is a lemma of the word's synsets in its part of speech,
    of one word, and not the word itself. Neither inflection nor case are repaired, as in the original.
    """

    name = "SwapSynWordNet"

    def __init__(self) -> None:
        self._english = English(parse=False)
        self._database = open_database()
        self.options: dict[str, Any] = {"tagger": self._english.description, "wordnet": self._database.version}

    def apply(self, question: Question, rng: random.Random) -> tuple[Question, dict[str, Any]]:
        """See :class:`~.attack.Transform`; the details are offset, word and synonym of each swap."""
        words = self._english.analyse(question.context).words
        free = [
            word
            for word in words
            if not (word.is_punctuation or word.text.lower() in ENGLISH_STOP_WORDS)
            and not any(word.start < answer.end and word.end > answer.start for answer in question.answers)
        ]
        rng.shuffle(free)
        found = ((word, candidates) for word in free if (candidates := self.candidates(word.text, word.tag)))
        wanted = min(_MOST, max(_FEWEST, int(_SHARE * len(words))))
        edits = [Edit(word.start, word.end, rng.choice(candidates)) for word, candidates in islice(found, wanted)]
        if not edits:
            raise NotApplicableError("no word has a synonym")
        swapped = [[edit.start, question.context[edit.start : edit.end], edit.text] for edit in sorted(edits)]
        return edited(question, edits), {"swaps": swapped}

    def candidates(self, word: str, tag: str) -> list[str]:
        """The synonyms of a word with a Penn tag, sorted; of any part of speech where WordNet lacks that of the tag."""
        pos = _TAG_CLASSES.get(tag[:1])
        names = {
            name
            for part in ([pos] if pos and tag != "RP" else PARTS_OF_SPEECH)
            for lemma in self._database.lemmas(word.lower(), part)
            for synset in self._database.synsets(lemma, part)
            for name in synset.names
        }
        return sorted(name for name in names if "_" not in name and name.lower() != word.lower())


METRICS = {"exact_match": attrgetter("exact"), "f1": attrgetter("f1")}
SIDES = ("original", "transformed")


@dataclass(frozen=True)
class Robustness:
    """A model's scores on the pairs of an attack."""

    transform: str  # the attack's name
    ids: tuple[str, ...]  # of the original questions
    # "original_exact_match", "transformed_f1" ...: the scores of the questions, in [0, 1], in the order of the ids
    scores: dict[str, NDArray[np.float64]]

    def drop(self, metric: str) -> Interval:
        """The mean loss by the attack with its 95 % interval, by bootstrap over the pairs."""
        lost = self.scores[f"original_{metric}"] - self.scores[f"transformed_{metric}"]
        return Ratio(lost, np.ones_like(lost)).interval() or Interval(*[float(lost.mean())] * 3)

    def report(self) -> dict[str, Any]:
        """In percent: both sides, the drop and its interval, by metric."""
        report: dict[str, Any] = {"transform": self.transform, "pairs": len(self.ids)}
        for metric in METRICS:
            drop = self.drop(metric)
            report[metric] = {
                **{side: 100 * float(self.scores[f"{side}_{metric}"].mean()) for side in SIDES},
                "drop": 100 * drop.mean,
                "interval": [100 * drop.low, 100 * drop.high],
            }
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
        return Result(
            model=model,
            task=self.transform,
            seed=seed,
            metrics={name: float(values.mean()) for name, values in self.scores.items()},
            examples={name: values.tolist() for name, values in self.scores.items()},
            example_ids=list(self.ids),
        )


def measure(attack: Attack, original: Mapping[str, str], transformed: Mapping[str, str]) -> Robustness:
    """Scores predictions, by id, for the original and for the transformed questions of an attack's pairs."""
    score = score_question_v2 if attack.unanswerable else score_question
    for pair in () if attack.unanswerable else attack.pairs:
        require_answer(pair.original)
    ids = tuple(pair.original.id for pair in attack.pairs)
    for side, answers in zip(SIDES, (original, transformed), strict=True):
        _require_answers(ids, answers, f"{side} question")
    before = [score(original[pair.original.id], pair.original.answer_texts) for pair in attack.pairs]
    after = [score(transformed[pair.original.id], pair.transformed.answer_texts) for pair in attack.pairs]
    return Robustness(attack.transform, ids, _columns(before, after))


def _require_answers(ids: Sequence[str], answers: Mapping[str, str], of: str) -> None:
    if missing := [name for name in ids if name not in answers]:
        raise TrueNegError(f"question {missing[0]}: has no prediction; expected one for each {of} ({len(ids)})")


def measure_files(file: Path, answers: Path, transformed: Path | None = None, *, name: str | None = None) -> Robustness:
    """Scores files of predictions.

    Args:
        file: the pairs of an attack; without ``transformed`` one of Jia and Liang with originals and variants.
        answers: the predictions for the original questions, or for all of Jia and Liang's.
        transformed: the predictions for the transformed questions of the pairs.
        name: of the attack (default: the transformation's, or the file's).
    """
    if transformed is None:
        return _measure_variants(name or file.stem, read_squad(file).questions, read_predictions(answers))
    measured = measure(read_pairs(file), read_predictions(answers), read_predictions(transformed))
    return measured if name is None else replace(measured, transform=name)


def _measure_variants(name: str, questions: Sequence[Question], answers: Mapping[str, str]) -> Robustness:
    """Each original question, and the worst of its variants.

    An original without variants counts by itself on both sides. As in Jia and Liang's script a question without an
    answer is passed over, and scores 0 where nothing else stands for its original.
    """
    scores = score_questions(questions, answers)
    ids = tuple(worst_variants(scores))
    worst = worst_variants({each: score for each, score in scores.items() if each in answers})
    return Robustness(name, ids, _columns([scores[each] for each in ids], [worst.get(each, ZERO) for each in ids]))


def _columns(*sides: list[QuestionScore]) -> dict[str, NDArray[np.float64]]:
    return {
        f"{side}_{metric}": np.array([value(score) for score in scores], dtype=np.float64)
        for side, scores in zip(SIDES, sides, strict=True)
        for metric, value in METRICS.items()
    }
