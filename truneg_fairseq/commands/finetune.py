"""``truneg finetune``, ``truneg predict`` and ``truneg score``."""

from __future__ import annotations

import json
import sys

from ..errors import TrueNegError
from ..finetuning import FinetuneOptions, PredictOptions, ScoreOptions


def finetune(options: FinetuneOptions) -> None:
    """Fine-tune models on GLUE's tasks and SQuAD, with several seeds.

    Prints each task's metrics over the seeds, and adds a line for each run to OUTPUT/results.jsonl. Finished runs are
    skipped; a run that was interrupted goes on where it was.
    """
    from ..finetuning.run import finetune as run
    from ..finetuning.run import table
    from ..launch.training import RESULTS_NAME

    results, diverged = run(options)
    print(table(results))
    print(f"results: {options.output / RESULTS_NAME} (truneg compare reads it)")
    if diverged:
        raise TrueNegError(diverged[0] if len(diverged) == 1 else f"{len(diverged)} runs failed: {diverged[0]}")


def predict(options: PredictOptions) -> None:
    """Answer a file with a fine-tuned model.

    Prints the number of examples and, where the file has the true answers, the scores in percent.
    """
    from ..finetuning.run import predict as run

    print(json.dumps(run(options)))


def score(options: ScoreOptions) -> None:
    """Score answers to SQuAD's questions as the official scripts do.

    Prints exact match and F1 in percent as JSON in full precision: exact_match and f1 for SQuAD 1.1, exact, f1,
    HasAns_*, NoAns_* and best_* for 2.0.
    """
    from ..finetuning.squad_score import score_files

    report, unanswered = score_files(options.data, options.predictions, na_prob_file=options.na_prob_file)
    if unanswered:
        print(unanswered, file=sys.stderr)
    print(json.dumps(report, indent=2 if "exact" in report else None))
