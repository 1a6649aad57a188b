"""Scores of a file of predictions, by the rules of the data's version."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..errors import TrueNegError
from .data import SquadData, read_no_answer_probabilities, read_predictions, read_squad
from .score import score_adversarial, score_v1, score_v2


def score_files(
    data_file: Path,
    predictions_file: Path,
    *,
    na_prob_file: Path | None = None,
    na_prob_thresh: float | None = None,
    adversarial: bool = False,
) -> tuple[dict[str, float], str | None]:
    """What the official script of the data's version prints.

    Args:
        data_file: in SQuAD's format.
        predictions_file: answer texts by question id.
        na_prob_file: SQuAD 2.0: the probability of no answer by question id.
        na_prob_thresh: SQuAD 2.0: largest no-answer probability with an answer; None for 1.
        adversarial: score Jia and Liang's files as their script does.

    Returns:
        The scores in percent, and a line on questions of SQuAD 1.1 without a prediction, None where there are none.
    """
    data, predictions = read_squad(data_file), read_predictions(predictions_file)
    if data.unanswerable:
        if adversarial:
            raise TrueNegError(f"--adversarial: {data_file} is SQuAD 2.0; expected 1.1, as Jia and Liang's files are")
        if na_prob_file is None and na_prob_thresh is not None:
            raise TrueNegError("--na-prob-thresh: needs --na-prob-file, the probabilities it is compared with")
        probabilities = None if na_prob_file is None else read_no_answer_probabilities(na_prob_file)
        threshold = 1.0 if na_prob_thresh is None else na_prob_thresh
        return score_v2(data, predictions, probabilities, threshold), None
    if na_prob_file or na_prob_thresh is not None:
        flag = "--na-prob-file" if na_prob_file else "--na-prob-thresh"
        raise TrueNegError(f"{flag}: {data_file} is SQuAD 1.1, where every question has an answer; leave the flag out")
    score = score_adversarial if adversarial else score_v1
    return score(data, predictions), _unanswered(data, predictions, predictions_file)


def _unanswered(data: SquadData, predictions: Mapping[str, str], file: Path) -> str | None:
    missing = [question.id for question in data.questions if question.id not in predictions]
    if not missing:
        return None
    return (
        f"{file}: has no answer to {len(missing):,} of {len(data.questions):,} questions, which score 0 (the first is "
        f"{missing[0]}); {len(predictions):,} predictions were read"
    )
