"""SQuAD's files, versions 1.1 and 2.0 and others of that form (AddSent, SwapSyn), and the scores of predictions.

Exact match and F1 are exactly as the official evaluation scripts of 1.1 and 2.0 print them. The scripts differ where
nothing but articles and punctuation is left of an answer: 1.1 counts no token in common as an F1 of 0, 2.0 counts two
empty answers as equal. They add up floating-point numbers in the order of the data, and so does this module.
"""

from __future__ import annotations

import itertools
import operator
import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path

import msgspec
import numpy as np

from .. import files
from ..data.text import read_table
from ..errors import TrueNegError, refuse

_FORMAT = "SQuAD's JSON"
_VERSION_2 = re.compile(r"v?2(\.\d+)*")
_LARGEST_FILE = 128 << 20  # bytes; SQuAD 2.0 has 42 MB
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


class Answer(msgspec.Struct, frozen=True):
    text: str  # as the paragraph has it
    # its offset in the paragraph, in characters; -1 where the file has none
    start: int = msgspec.field(default=-1, name="answer_start")

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    def stands_in(self, context: str) -> bool:
        """Whether the paragraph has this text at this offset."""
        return self.start >= 0 and context[self.start : self.end] == self.text


@dataclass(frozen=True)
class Question:
    """One question with its paragraph."""

    id: str  # unique in its file
    text: str
    context: str  # the paragraph
    answers: tuple[Answer, ...]  # the ground truths; none where SQuAD 2.0 has no answer, or the file tells none
    title: str = ""  # of the article
    impossible: bool = False  # SQuAD 2.0: the paragraph does not answer it

    @property
    def answer_texts(self) -> list[str]:
        return [answer.text for answer in self.answers]


@dataclass(frozen=True)
class SquadData:
    """The questions of a file, in its order."""

    questions: tuple[Question, ...]  # at least one; their ids are unique
    version: str = "1.1"  # as the file says, "" where it does not
    unanswerable: bool = False  # whether questions may have no answer (SQuAD 2.0)


class _Answers(msgspec.Struct):
    """The answers of a question as columns, in Hugging Face's rows."""

    text: list[str]
    answer_start: list[int]


class _Question(msgspec.Struct, kw_only=True):
    id: str | int  # GermanQuAD has numbers
    question: str
    answers: list[Answer] | _Answers | None = None  # published test sets leave it out
    is_impossible: bool | None = None


class _Row(_Question, kw_only=True):
    """A question of Hugging Face's files."""

    context: str
    title: str | None = ""


class _Paragraph(msgspec.Struct):
    context: str
    qas: list[_Question]


class _Article(msgspec.Struct):
    paragraphs: list[_Paragraph]
    title: str | None = ""


class _File(msgspec.Struct):
    """A file as SQuAD publishes it."""

    data: list[_Article]
    version: str | float = ""


def read_squad(path: Path) -> SquadData:
    """Reads a file in SQuAD's format, or rows as Hugging Face's ``datasets`` writes them: JSON lines or Parquet.

    A version such as v2.0 or a question's ``is_impossible`` makes it SQuAD 2.0, where a question with an empty list of
    answers is impossible, also without ``is_impossible``, as for the official scorer. Rows have no version: an empty
    list of answers makes them 2.0.
    """
    version, rows = "", path.suffix in (".parquet", ".jsonl")
    found: list[tuple[_Question, str, str | None]]  # each with its paragraph and title
    if rows:
        table = enumerate(read_table(path).to_pylist(), 1)
        made = [files.convert(row, f"{path}: row {number}", _Row, expected=_FORMAT) for number, row in table]
        found = [(row, row.context, row.title) for row in made]
    else:
        file = files.read_json(path, _File, expected=f"{_FORMAT}, whole", limit=_LARGEST_FILE)
        found = [(entry, p.context, a.title) for a in file.data for p in a.paragraphs for entry in p.qas]
        version = str(file.version)
    answers = [_answers(entry) for entry, _, _ in found]
    marked = any(entry.is_impossible is not None for entry, _, _ in found)
    unanswerable = marked or (rows and () in answers) or bool(_VERSION_2.fullmatch(version))
    questions = tuple(
        Question(
            str(entry.id),
            entry.question,
            context,
            given or (),
            title or "",
            (unanswerable and given == ()) if entry.is_impossible is None else entry.is_impossible,
        )
        for (entry, context, title), given in zip(found, answers, strict=True)
    )
    (name, count), *_ = Counter(question.id for question in questions).most_common(1) or [("", 0)]
    refuse(
        (not count, f"{path}: has no question; expected {_FORMAT}"),
        (count > 1, f"{path}: two questions have the id {name!r}, by which answers are scored"),
    )
    return SquadData(questions, version, unanswerable)


def _answers(entry: _Question) -> tuple[Answer, ...] | None:
    """The ground truths; None if the file does not tell them."""
    if isinstance(entry.answers, _Answers):
        return tuple(itertools.starmap(Answer, zip(entry.answers.text, entry.answers.answer_start, strict=True)))
    return None if entry.answers is None else tuple(entry.answers)


def read_predictions(path: Path) -> dict[str, str]:
    """Reads answer texts by question id."""
    expected = "a JSON object of answer texts by question id"
    return files.read_json(path, dict[str, str], expected=expected, limit=_LARGEST_FILE)


# --- Scores ---


@dataclass(frozen=True)
class QuestionScore:
    exact: int  # 1 where the prediction equals a ground truth after normalization, else 0
    f1: float  # of the bags of words, the best over the ground truths, in [0, 1]


ZERO, RIGHT = QuestionScore(0, 0.0), QuestionScore(1, 1.0)
"""The scores of an unanswered question, and of one that is rightly answered with nothing."""


def normalize(text: str) -> str:
    """The text in lower case, without ASCII punctuation, without articles, its words separated by single spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_WITHOUT_PUNCTUATION)).split())


def score_question(prediction: str, truths: Sequence[str], *, unanswerable: bool = False) -> QuestionScore:
    """The score of one question: the best over its ground truths.

    With ``unanswerable``, as in SQuAD 2.0, those do not count of which nothing is left after normalization; where none
    counts, the empty answer is right.
    """
    predicted, known = normalize(prediction), [normalize(truth) for truth in truths]
    if unanswerable and not (known := list(filter(None, known))):
        return ZERO if predicted else RIGHT
    return QuestionScore(int(predicted in known), max(_f1(predicted.split(), truth.split()) for truth in known))


def _f1(predicted: list[str], true: list[str]) -> float:
    """Of words; 0 where they have none in common, as SQuAD 1.1 has it."""
    common = (Counter(predicted) & Counter(true)).total()
    if not common:
        return 0.0
    precision, recall = common / len(predicted), common / len(true)
    return 2 * precision * recall / (precision + recall)


def require_answer(question: Question) -> None:
    """Refuses a question that SQuAD 1.1 cannot score."""
    if not question.answers:
        raise TrueNegError(
            f"question {question.id}: has no answers, and its file is not marked as SQuAD 2.0; expected version v2.0 "
            "or is_impossible in a file of questions without answers"
        )


def score_questions(questions: Iterable[Question], predictions: Mapping[str, str]) -> dict[str, QuestionScore]:
    """SQuAD 1.1's score of every question, by id in the order given; :data:`ZERO` where there is no prediction."""
    scores = {}
    for question in questions:
        require_answer(question)
        prediction = predictions.get(question.id)
        scores[question.id] = ZERO if prediction is None else score_question(prediction, question.answer_texts)
    return scores


def exact_match_and_f1(scores: Mapping[str, QuestionScore], *, unanswerable: bool) -> dict[str, float]:
    """``exact_match`` and ``f1`` in percent, added up as the official script of the version does; 0 without scores."""
    if not scores:
        return {"exact_match": 0.0, "f1": 0.0}
    # Not by sum() in 1.1, which rounds less than the script's loop does since Python 3.12.
    add: Callable[[list[float]], float] = sum if unanswerable else partial(reduce, operator.add)
    exact, f1 = [float(score.exact) for score in scores.values()], [score.f1 for score in scores.values()]
    return {"exact_match": 100.0 * add(exact) / len(scores), "f1": 100.0 * add(f1) / len(scores)}


def score_files(
    data_file: Path, predictions_file: Path, *, na_prob_file: Path | None = None
) -> tuple[dict[str, float], str | None]:
    """What the official script of the data's version prints, in percent.

    With a line on questions of SQuAD 1.1 without a prediction, None where all have one.
    """
    data, predictions = read_squad(data_file), read_predictions(predictions_file)
    if data.unanswerable:
        expected, kind = "a JSON object of numbers by question id", dict[str, int | float]
        chances = files.read_json(na_prob_file, kind, expected=expected, limit=_LARGEST_FILE) if na_prob_file else None
        return score_v2(data, predictions, chances), None
    scores = exact_match_and_f1(score_questions(data.questions, predictions), unanswerable=False)
    missing = [question.id for question in data.questions if question.id not in predictions]
    if not missing:
        return scores, None
    return scores, (
        f"{predictions_file}: has no answer to {len(missing):,} of {len(data.questions):,} questions, which score 0 "
        f"(the first is {missing[0]}); {len(predictions):,} predictions were read"
    )


def score_v2(
    data: SquadData, predictions: Mapping[str, str], no_answer_probabilities: Mapping[str, float] | None = None
) -> dict[str, float]:
    """What the script of SQuAD 2.0 prints.

    ``exact``, ``f1`` (%) and ``total``, the same with ``HasAns_`` and ``NoAns_`` before them over the questions with
    and without answers, where there are any; with probabilities also ``best_exact``, ``best_exact_thresh``,
    ``best_f1`` and ``best_f1_thresh``, at the thresholds that would have been the best.
    """
    require_all(data.questions, predictions, "prediction")
    scores = {q.id: score_question(predictions[q.id], q.answer_texts, unanswerable=True) for q in data.questions}
    answerable = {question.id: bool(question.answers) for question in data.questions}
    chances = no_answer_probabilities or {}
    final = {  # by the script's own threshold, which differences of logits may pass
        name: score if chances.get(name, 0.0) <= 1.0 else ZERO if answerable[name] else RIGHT
        for name, score in scores.items()
    }
    report = _percentages_v2(final)
    for prefix, wanted in (("HasAns", True), ("NoAns", False)):
        part = {name: score for name, score in final.items() if answerable[name] is wanted}
        report |= {f"{prefix}_{key}": value for key, value in _percentages_v2(part).items()} if part else {}
    if no_answer_probabilities is None:
        return report
    require_all(data.questions, chances, "no-answer probability")
    order = sorted(filter(scores.__contains__, chances), key=chances.__getitem__)
    for key in ("exact", "f1"):
        # Below the smallest probability every question counts as unanswerable; passing one lets its prediction count.
        changes = [getattr(scores[name], key) if answerable[name] else -bool(predictions[name]) for name in order]
        sums = np.cumsum([float(list(answerable.values()).count(False)), *changes])
        best = int(sums.argmax())  # the first
        report[f"best_{key}"] = 100.0 * float(sums[best]) / len(scores)
        report[f"best_{key}_thresh"] = chances[order[best - 1]] if best else 0.0
    return report


def scorer_of(data: SquadData) -> str:
    """The program that scores answers to these questions.

    A file of Jia and Liang, where a question is a variant, ``ID-NAME``, of another one, ``ID``, has one of its own.
    """
    ids = {question.id for question in data.questions}
    has_variants = any("-" in name and name.partition("-")[0] in ids for name in ids)
    return "python user_dir_examples/attacks/score.py" if has_variants else "truneg score"


def require_all(questions: Sequence[Question], values: Mapping[str, object], what: str) -> None:
    """Refuses values by question id that lack a question."""
    missing = [question.id for question in questions if question.id not in values]
    if missing:
        raise TrueNegError(
            f"{len(missing)} of {len(questions)} questions have no {what}, the first is {missing[0]}; expected "
            'one for each, the text "" where a model finds no answer'
        )


def _percentages_v2(scores: Mapping[str, QuestionScore]) -> dict[str, float]:
    found = exact_match_and_f1(scores, unanswerable=True)
    return {"exact": found["exact_match"], "f1": found["f1"], "total": len(scores)}
