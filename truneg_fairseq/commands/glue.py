"""Fine-tune on GLUE, and answer files with a fine-tuned model."""

from __future__ import annotations

import json

from ..errors import TrueNegError
from ..finetuning.glue_options import PredictGlueOptions, TrainGlueOptions


def train(options: TrainGlueOptions) -> None:
    """Fine-tunes a checkpoint on GLUE's tasks with several seeds, and prints each task's metrics over the seeds.

    Finished runs are skipped; a run that was interrupted goes on where it was.
    """
    from ..finetuning.glue_finetune import finetune, table
    from ..launch.training import RESULTS_NAME

    results, diverged = finetune(options)
    print(table(results))
    print(f"results: {options.output / RESULTS_NAME} (truneg compare reads it)")
    if diverged:
        raise TrueNegError(diverged[0] if len(diverged) == 1 else f"{len(diverged)} runs failed: {diverged[0]}")


def predict(options: PredictGlueOptions) -> None:
    """Answers the examples of a file in the format of the model's task; prints their number and, where the file has
    labels, the task's metrics in percent.
    """
    from ..finetuning.glue_predict import predict_file

    print(json.dumps(predict_file(options)))


COMMANDS = {"": __doc__, "train": train, "predict": predict}
