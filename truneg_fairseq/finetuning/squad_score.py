"""Exact match and F1 of SQuAD, exactly as the official evaluation scripts of 1.1 and 2.0 print them.

The scripts differ where nothing but articles and punctuation is left of an answer: 1.1 counts no token in common as an
F1 of 0, 2.0 counts two empty answers as equal. They add up floating-point numbers in the order of the data, and so does
this module.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import TrueNegError
from .squad_files import Question, SquadData, read_predictions, read_probabilities, read_squad

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True)
class QuestionScore:
    exact: int  # 1 where the prediction equals a ground truth after normalization, else 0
    f1: float  # of the bags of words, the best over the ground truths, in [0, 1]


ZERO = QuestionScore(0, 0.0)
"""The score of an unanswered question."""


def normalize(text: str) -> str:
    """The text in lower case, without ASCII punctuation, without articles, its words separated by single spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_WITHOUT_PUNCTUATION)).split())


def exact_match(prediction: str, truth: str) -> bool:
    """Whether two answers are equal after normalization."""
    return normalize(prediction) == normalize(truth)


def f1(prediction: str, truth: str) -> float:
    """F1 of the words of two answers, in [0, 1]; 0 where they have none in common, as SQuAD 1.1 has it."""
    predicted, true = normalize(prediction).split(), normalize(truth).split()
    common = (Counter(predicted) & Counter(true)).total()
    if not common:
        return 0.0
    precision, recall = common / len(predicted), common / len(true)
    return 2 * precision * recall / (precision + recall)


def score_question(prediction: str, truths: Sequence[str]) -> QuestionScore:
    """SQuAD 1.1's score of one question: the best over its ground truths."""
    exact = max(exact_match(prediction, truth) for truth in truths)
    return QuestionScore(int(exact), max(f1(prediction, truth) for truth in truths))


def score_question_v2(prediction: str, truths: Sequence[str]) -> QuestionScore:
    """SQuAD 2.0's score of one question: where it has no answer (left after normalization), that is the empty one."""
    if answers := [truth for truth in truths if normalize(truth)]:
        return score_question(prediction, answers)
    return ZERO if normalize(prediction) else QuestionScore(1, 1.0)


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
    if unanswerable:
        report = _percentages_v2(scores.values())
        return {"exact_match": report["exact"], "f1": report["f1"]}
    exact, total_f1 = 0, 0.0
    for score in scores.values():  # not sum(), which rounds less than the script does since Python 3.12
        exact += score.exact
        total_f1 += score.f1
    return {"exact_match": 100.0 * exact / len(scores), "f1": 100.0 * total_f1 / len(scores)}


def score_files(
    data_file: Path, predictions_file: Path, *, na_prob_file: Path | None = None
) -> tuple[dict[str, float], str | None]:
    """What the official script of the data's version prints, in percent.

    With a line on questions of SQuAD 1.1 without a prediction, None where all have one.
    """
    data, predictions = read_squad(data_file), read_predictions(predictions_file)
    if data.unanswerable:
        probabilities = None if na_prob_file is None else read_probabilities(na_prob_file)
        return score_v2(data, predictions, probabilities), None
    scores = exact_match_and_f1(score_questions(data.questions, predictions), unanswerable=False)
    missing = [question.id for question in data.questions if question.id not in predictions]
    if not missing:
        return scores, None
    return scores, (
        f"{predictions_file}: has no answer to {len(missing):,} of {len(data.questions):,} questions, which score 0 "
        f"(the first is {missing[0]}); {len(predictions):,} predictions were read"
    )


def score_v2(
    data: SquadData,
    predictions: Mapping[str, str],
    no_answer_probabilities: Mapping[str, float] | None = None,
    threshold: float = 1.0,
) -> dict[str, float]:
    """What the script of SQuAD 2.0 prints.

    ``exact``, ``f1`` (%) and ``total``, the same with ``HasAns_`` and ``NoAns_`` before them over the questions with
    and without answers, where there are any; with probabilities also ``best_exact``, ``best_exact_thresh``,
    ``best_f1`` and ``best_f1_thresh``, at the thresholds that would have been the best.
    """
    require_all(data.questions, predictions, "prediction")
    scores = {q.id: score_question_v2(predictions[q.id], q.answer_texts) for q in data.questions}
    answerable = {question.id: bool(question.answers) for question in data.questions}
    final = scores
    if no_answer_probabilities is not None:
        require_all(data.questions, no_answer_probabilities, "no-answer probability")
        final = {
            name: score
            if no_answer_probabilities[name] <= threshold
            else (ZERO if answerable[name] else QuestionScore(1, 1.0))
            for name, score in scores.items()
        }
    report = _percentages_v2(final.values())
    for prefix, wanted in (("HasAns", True), ("NoAns", False)):
        part = [score for name, score in final.items() if answerable[name] is wanted]
        report |= {f"{prefix}_{key}": value for key, value in _percentages_v2(part).items()} if part else {}
    if no_answer_probabilities is not None:
        for key in ("exact", "f1"):
            values = {name: getattr(score, key) for name, score in scores.items()}
            best, at = _best_threshold(values, answerable, predictions, no_answer_probabilities)
            report |= {f"best_{key}": best, f"best_{key}_thresh": at}
    return report


def has_variants(data: SquadData) -> bool:
    """Whether it is a file of Jia and Liang: some question is a variant, ``ID-NAME``, of another one, ``ID``."""
    ids = {question.id for question in data.questions}
    return any("-" in name and name.partition("-")[0] in ids for name in ids)


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


def require_all(questions: Sequence[Question], values: Mapping[str, object], what: str) -> None:
    """Refuses values by question id that lack a question."""
    missing = [question.id for question in questions if question.id not in values]
    if missing:
        raise TrueNegError(
            f"{len(missing)} of {len(questions)} questions have no {what}, the first is {missing[0]}; expected "
            'one for each, the text "" where a model finds no answer'
        )


def _percentages_v2(scores: Iterable[QuestionScore]) -> dict[str, float]:
    values = list(scores)
    return {
        "exact": 100.0 * sum(score.exact for score in values) / len(values),
        "f1": 100.0 * sum(score.f1 for score in values) / len(values),
        "total": len(values),
    }


def _best_threshold(
    scores: Mapping[str, float],
    answerable: Mapping[str, bool],
    predictions: Mapping[str, str],
    probabilities: Mapping[str, float],
) -> tuple[float, float]:
    """The best percentage over all thresholds, and the first threshold that gives it.

    Below the smallest probability every question counts as unanswerable; passing a question lets its prediction count.
    """
    current: float = sum(not has_answer for has_answer in answerable.values())
    best, at = current, 0.0
    for name in sorted(probabilities, key=lambda name: probabilities[name]):
        if name not in scores:
            continue
        current += scores[name] if answerable[name] else -1 if predictions[name] else 0
        if current > best:
            best, at = current, probabilities[name]
    return 100.0 * best / len(scores), at
