"""Predictions of a fine-tuned model for GLUE's tasks, their metrics, and files to submit."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..files import replacing_text, require_different, require_writable
from ..launch.training import Diverged
from ..models.checkpoints import check_vocabulary
from .data import PretrainedVocabulary
from .glue_files import HIGHEST_SCORE, TASKS, TaskFormat
from .glue_metrics import classification_metrics, regression_metrics
from .glue_options import PredictGlueOptions
from .glue_prepare import prepare_task
from .run import load_finetuned, read_finetuned, read_info

_BATCH = 32  # examples
_REPORTED = {"CoLA": ("matthews", "accuracy"), "MRPC": ("accuracy", "f1"), "QQP": ("accuracy", "f1")}


@dataclass(frozen=True)
class Predictions:
    """What a model says of a split, in the order of the official file."""

    values: NDArray[Any]  # int64 class ids or float64 scores (0 to 1), shape (N,)
    targets: NDArray[Any] | None  # the right ones, shape (N,); None where there are none


class Predictor:
    """A model that was fine-tuned on a task of GLUE, with the task's prepared folder."""

    def __init__(self, checkpoint: Path, data: Path, *, cpu: bool) -> None:
        self._model, cfg, self._task, self._device = load_finetuned(checkpoint, data, cpu=cpu)
        self._head = cfg.criterion.classification_head_name
        self._regression = bool(cfg.criterion.regression_target)

    def predict(self, split: str) -> Predictions:
        """The predictions for a split."""
        self._task.load_dataset(split)
        dataset = self._task.dataset(split)
        values = np.zeros(len(dataset), dtype=np.float64 if self._regression else np.int64)
        targets = None
        order = np.argsort([dataset.size(index) for index in range(len(dataset))], kind="stable")
        for begin in range(0, len(order), _BATCH):
            batch = dataset.collater([dataset[int(index)] for index in order[begin : begin + _BATCH]])
            at = batch["id"].numpy()
            values[at] = self._values(batch)
            if "target" in batch:
                targets = np.zeros_like(values) if targets is None else targets
                targets[at] = batch["target"].view(-1).numpy()
        return Predictions(values, targets)

    def _values(self, batch: dict[str, Any]) -> NDArray[Any]:
        import torch
        from fairseq import utils

        inputs = utils.apply_to_sample(lambda tensor: tensor.to(self._device), batch["net_input"])
        with torch.inference_mode():
            logits, _ = self._model(**inputs, features_only=True, classification_head_name=self._head)
        if not bool(logits.isfinite().all()):
            raise Diverged("the model's scores are NaN or infinite: it has diverged; lower --lr")
        found = logits.view(-1).double() if self._regression else logits.argmax(1)
        result: NDArray[Any] = found.cpu().numpy()
        return result


def score(task: TaskFormat, found: Predictions) -> tuple[dict[str, float], dict[str, list[float]]]:
    """The metrics that are reported of a task, and the scores of the examples for those that are their mean."""
    assert found.targets is not None
    if task.regression:
        return regression_metrics(found.values, found.targets), {}
    metrics = classification_metrics(found.values, found.targets, len(task.labels))
    right = (found.values == found.targets).astype(float).tolist()
    return {name: metrics[name] for name in _REPORTED.get(task.name, ("accuracy",))}, {"accuracy": right}


def _write_submission(task: TaskFormat, ids: list[str], found: Predictions, path: Path) -> None:
    """Writes predictions as the GLUE server takes them: index and label, or score of 0 to 5.

    Where the official files have other ids (MRPC of Microsoft), the index is the number of the line.
    """
    if not all(name.isdigit() for name in ids):
        ids = [str(number) for number in range(len(ids))]
    path.parent.mkdir(parents=True, exist_ok=True)
    if task.regression:
        texts = [f"{value:.3f}" for value in np.clip(found.values * HIGHEST_SCORE, 0, HIGHEST_SCORE)]
    else:
        texts = [task.labels[value] for value in found.values]
    with replacing_text(path) as stream:
        stream.write("index\tprediction\n")
        stream.writelines(f"{index}\t{text}\n" for index, text in zip(ids, texts, strict=True))


def read_ids(data: Path, split: str) -> list[str]:
    """The official ids of a split's examples."""
    return (data / "ids" / f"{split}.txt").read_text(encoding="utf-8").split("\n")[:-1]


def predict_file(options: PredictGlueOptions) -> dict[str, float]:
    """Answers a file of the task's format; gives the number of ``examples`` and, with labels, metrics in percent."""
    if options.output is not None:
        require_different(checkpoint=options.checkpoint, data=options.data, output=options.output)
        require_writable(options.output, "--output", makes_folders=True)
    checkpoint, folder = read_finetuned(options.checkpoint, "glue", options.prepared)
    info = read_info(folder)
    task = TASKS[info["task"]]
    check_vocabulary(checkpoint, info["vocabulary"], folder)
    with tempfile.TemporaryDirectory() as made:
        data = Path(made) / task.name
        prepare_task(task, {"test": options.data}, PretrainedVocabulary.load(folder), data)
        found = Predictor(options.checkpoint, data, cpu=options.cpu).predict("test")
        if options.output is not None:
            _write_submission(task, read_ids(data, "test"), found, options.output)
    metrics = {} if found.targets is None else score(task, found)[0]
    return {"examples": len(found.values), **{name: 100 * value for name, value in metrics.items()}}
