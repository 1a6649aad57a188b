"""Fine-tune on SQuAD, answer its questions, score answers."""

from __future__ import annotations

import json
import sys

from ..finetuning.squad_options import PredictSquadOptions, ScoreSquadOptions, TrainSquadOptions


def train(options: TrainSquadOptions) -> None:
    """Fine-tunes a checkpoint with fairseq-train and ELECTRA's settings, answers the validation questions with the last
    checkpoint, and appends exact match and F1 to a result file. A run that was interrupted goes on where it was.
    """
    from ..finetuning.squad_runs import finetune

    scores = finetune(options)
    if scores is not None:
        print(json.dumps(scores))


def predict(options: PredictSquadOptions) -> None:
    """Answers the questions of a file and writes the answers in SQuAD's official format."""
    from ..finetuning.squad_runs import predict_file

    print(f"{options.output}: {predict_file(options):,} answers")


def score(options: ScoreSquadOptions) -> None:
    """Prints exact match and F1 in percent as the official script of the data's version does, as JSON in full
    precision: exact_match and f1 for SQuAD 1.1, exact, f1, HasAns_*, NoAns_* and best_* for 2.0.
    """
    from ..finetuning.squad_score import score_files

    report, unanswered = score_files(
        options.data, options.predictions, na_prob_file=options.na_prob_file, adversarial=options.adversarial
    )
    if unanswered:
        print(unanswered, file=sys.stderr)
    print(json.dumps(report, indent=2 if "exact" in report else None))


COMMANDS = {"": __doc__, "train": train, "predict": predict, "score": score}
