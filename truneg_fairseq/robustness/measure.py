"""What an attack does to a model: Ori. -> Trans. on the same questions (Table 5), with confidence intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import TrueNegError
from ..finetuning.squad_files import Question, read_predictions, read_squad
from ..finetuning.squad_score import (
    ZERO,
    QuestionScore,
    require_answer,
    score_question,
    score_question_v2,
    score_questions,
    worst_variants,
)
from ..results.intervals import Interval, Ratio
from ..results.result import Result
from .attack import Attack, read_pairs

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
