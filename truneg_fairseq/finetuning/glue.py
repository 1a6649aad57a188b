"""GLUE's eight tasks: their data for fairseq's sentence_prediction task, their settings, answers and metrics.

``TASK/`` holds ``input0/``, ``input1/`` (pairs only) and ``label/``, each with its ``dict.txt`` and fairseq's binary
files ``train``, ``valid``, ``valid1`` (MNLI mismatched), ``test`` and ``test1``, in the order of the official files,
whose ids ``ids/SPLIT.txt`` has. STS-B has ``label/SPLIT.label`` instead, one score / 5 a line.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..data.tokenizer import PretrainedVocabulary
from ..errors import require
from ..files import replacing_text
from ..launch.training import Diverged
from ..results.result import Metric
from ..vocabulary import EOS, UNKNOWN
from ..workers import Progress
from . import PredictOptions, PrepareOptions
from .glue_files import HIGHEST_SCORE, GlueSplit, TaskFormat, read_split, swap_pairs, task_files
from .task import (
    BASE_WIDTH,
    LARGE_WIDTH,
    Finetuned,
    FinetuningTask,
    Recipe,
    Scores,
    count_longer,
    electra_layer_lr_decay,
)

if TYPE_CHECKING:
    from ..convert.architecture import ModelConfig

_SENTENCES, _EXAMPLES = 1_000, 32
"""Sentences that are encoded together, and examples that are answered together."""
_FAIRSEQ_SPECIALS = 4
_HEAD = "sentence_classification_head"
_DROPOUT = 0.1
_REPORTED = {"CoLA": ("matthews", "accuracy"), "MRPC": ("accuracy", "f1"), "QQP": ("accuracy", "f1")}
_SHOWN = {"CoLA": "matthews", "STS-B": "spearman"}
"""The metrics of Table 3; of other tasks it is the accuracy."""


@dataclass(frozen=True)
class Predictions:
    """What a model says of a split, in the order of the official file."""

    values: NDArray[Any]  # int64 class ids or float64 scores (0 to 1), shape (N,)
    targets: NDArray[Any] | None  # the right ones, shape (N,); None where there are none


class Glue(FinetuningTask):
    """A sentence or a pair of sentences to classify or to score."""

    fairseq_task = "glue"
    counted = "examples"
    chosen = ("labels", "swap_pairs")

    def __init__(self, form: TaskFormat) -> None:
        self.form, self.name = form, form.name

    def find_files(self, places: Sequence[Path]) -> dict[str, Path]:
        (place,) = places
        return task_files(self.form, place)

    def choose(self, options: PrepareOptions) -> dict[str, Any]:
        return {"labels": list(self.form.labels), "swap_pairs": options.swap_pairs and self.form.doubled}

    def write(
        self, folder: Path, files: Mapping[str, Path], vocabulary: PretrainedVocabulary, chosen: Mapping[str, Any]
    ) -> dict[str, Any]:
        require("fairseq", extra="fairseq")
        splits = [read_split(self.form, name, path) for name, path in files.items()]
        for number in range(len(self.form.texts)):
            (folder / f"input{number}").mkdir()
            shutil.copyfile(vocabulary.folder / "dict.txt", folder / f"input{number}" / "dict.txt")
        for name in ("label", "ids"):
            (folder / name).mkdir()
        if self.form.labels:
            (folder / "label" / "dict.txt").write_text("".join(f"{label} 1\n" for label in self.form.labels))
        doubled = [swap_pairs(s) if chosen["swap_pairs"] and s.name == "train" else s for s in splits]
        return {split.name: _write_split(self.form, split, vocabulary, folder) for split in doubled}

    def shown(self, info: Mapping[str, Any]) -> tuple[str, dict[str, Metric]]:
        return "GLUE", {_SHOWN.get(self.name, "accuracy"): Metric(self.name, True, averaged=True)}

    def recipe(self, config: ModelConfig, info: Mapping[str, Any]) -> Recipe:
        """The settings of ELECTRA's paper and code: batches of 32, 3 epochs (10 for RTE and STS-B), a learning rate of
        3e-4 for small models, 1e-4 for base, 5e-5 for large, dropout 0.1, 128 tokens.

        BERT has those of ELECTRA, whose code goes back to BERT, but 3 epochs on every task and one learning rate for
        all layers: 3e-5 for base and 2e-5 for large models, of the four that Devlin et al. (2019, Section 4.1) chose
        from; for smaller ones 1e-4, of the four of Turc et al. (2019, arXiv:1908.08962) for their compact BERTs.
        """
        width, bert = config.hidden_size, config.family == "bert"
        small, base, large = (1e-4, 3e-5, 2e-5) if bert else (3e-4, 1e-4, 5e-5)
        return Recipe(
            lr=small if width < BASE_WIDTH else base if width < LARGE_WIDTH else large,
            layer_lr_decay=1.0 if bert else electra_layer_lr_decay(width),
            epochs=10 if self.name in ("RTE", "STS-B") and not bert else 3,
            max_length=min(128, config.positions),
        )

    def flags(self, config: ModelConfig, recipe: Recipe) -> list[object]:
        valid = ",".join(split for split, _ in self.form.files if split.startswith("valid"))
        return [
            *("--task", "glue", "--criterion", "sentence_prediction", "--classification-head-name", _HEAD),
            *("--num-classes", max(1, len(self.form.labels)), *(["--regression-target"] * self.form.regression)),
            *("--max-positions", config.positions, "--max-length", recipe.max_length, "--find-unused-parameters"),
            *("--dropout", _DROPOUT, "--attention-dropout", _DROPOUT, "--pooler-dropout", _DROPOUT),
            *("--valid-subset", valid),
        ]

    def evaluate(self, tuned: Finetuned, prepared: Path, folder: Path) -> Scores:
        scores = self.score(self.answer(tuned, "valid"))
        if self.name == "MNLI":
            mismatched = self.score(self.answer(tuned, "valid1")).metrics["accuracy"]
            scores = replace(scores, metrics={**scores.metrics, "accuracy_mismatched": mismatched})
        return replace(scores, ids=read_ids(prepared, "valid")) if scores.examples else scores

    def predict(self, tuned: Finetuned, prepared: Path, options: PredictOptions) -> dict[str, float]:
        found = self.answer(tuned, "test")
        if options.output is not None:
            self._write_submission(read_ids(prepared, "test"), found, options.output)
        metrics = {} if found.targets is None else self.score(found).metrics
        return {"examples": len(found.values), **{name: 100 * value for name, value in metrics.items()}}

    def answer(self, tuned: Finetuned, split: str) -> Predictions:
        """A model's answers to a split of its data."""
        import torch
        from fairseq import utils

        tuned.task.load_dataset(split)
        dataset = tuned.task.dataset(split)
        values = np.zeros(len(dataset), dtype=np.float64 if self.form.regression else np.int64)
        targets = None
        order = np.argsort([dataset.size(index) for index in range(len(dataset))], kind="stable")
        for begin in range(0, len(order), _EXAMPLES):
            batch = dataset.collater([dataset[int(index)] for index in order[begin : begin + _EXAMPLES]])
            inputs = utils.apply_to_sample(lambda tensor: tensor.to(tuned.device), batch["net_input"])
            head = tuned.cfg.criterion.classification_head_name
            with torch.inference_mode():
                logits, _ = tuned.model(**inputs, features_only=True, classification_head_name=head)
            if not bool(logits.isfinite().all()):
                raise Diverged("the model's scores are NaN or infinite: it has diverged; lower --lr")
            at = batch["id"].numpy()
            values[at] = (logits.view(-1).double() if self.form.regression else logits.argmax(1)).cpu().numpy()
            if "target" in batch:
                targets = np.zeros_like(values) if targets is None else targets
                targets[at] = batch["target"].view(-1).numpy()
        return Predictions(values, targets)

    def score(self, found: Predictions) -> Scores:
        """The metrics that are reported of the task."""
        values, targets = found.values, found.targets
        assert targets is not None
        if self.form.regression:
            return Scores(regression_metrics(values, targets), [], {})
        metrics = classification_metrics(values, targets, len(self.form.labels))
        reported = {name: metrics[name] for name in _REPORTED.get(self.name, ("accuracy",))}
        examples, denominators = {"accuracy": (values == targets).astype(float).tolist()}, {}
        if "f1" in reported:
            examples["f1"], denominators["f1"] = (2.0 * values * targets).tolist(), (values + targets).tolist()
        return Scores(reported, [], examples, denominators)

    def _write_submission(self, ids: list[str], found: Predictions, path: Path) -> None:
        """Writes predictions as the GLUE server takes them; where the ids are no numbers, by the number of the line."""
        if not all(name.isdigit() for name in ids):
            ids = [str(number) for number in range(len(ids))]
        path.parent.mkdir(parents=True, exist_ok=True)
        if self.form.regression:
            texts = [f"{value:.3f}" for value in np.clip(found.values * HIGHEST_SCORE, 0, HIGHEST_SCORE)]
        else:
            texts = [self.form.labels[value] for value in found.values]
        with replacing_text(path) as stream:
            stream.write("index\tprediction\n")
            stream.writelines(f"{index}\t{text}\n" for index, text in zip(ids, texts, strict=True))


def read_ids(prepared: Path, split: str) -> list[str]:
    """The official ids of a split's examples."""
    return (prepared / "ids" / f"{split}.txt").read_text(encoding="utf-8").split("\n")[:-1]


def classification_metrics(predictions: NDArray[Any], labels: NDArray[Any], classes: int) -> dict[str, float]:
    """Accuracy, Matthews correlation (0 of a constant) and, of two classes, F1 of class 1; class ids, shape (N,)."""
    from sklearn.metrics import f1_score, matthews_corrcoef

    metrics = {"accuracy": float(np.mean(predictions == labels))}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a single label, for which 0 is documented here
        metrics["matthews"] = float(matthews_corrcoef(labels, predictions))
    if classes == 2:
        metrics["f1"] = float(f1_score(labels, predictions, labels=[0, 1], zero_division=0))
    return metrics


def regression_metrics(predictions: NDArray[Any], scores: NDArray[Any]) -> dict[str, float]:
    """Correlation of Pearson and of Spearman; 0 where either side is constant, NaN where a prediction is."""
    from scipy.stats import pearsonr, spearmanr

    predictions, scores = predictions.astype(np.float64), scores.astype(np.float64)
    if not np.isfinite(predictions).all():
        return {"pearson": float("nan"), "spearman": float("nan")}
    if np.ptp(predictions) == 0 or np.ptp(scores) == 0:
        return {"pearson": 0.0, "spearman": 0.0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of nearly constant predictions
        return {
            "pearson": float(pearsonr(predictions, scores).statistic),
            "spearman": float(spearmanr(predictions, scores).statistic),
        }


def _write_split(task: TaskFormat, split: GlueSplit, vocabulary: PretrainedVocabulary, folder: Path) -> dict[str, int]:
    import torch
    from fairseq.data.indexed_dataset import make_builder

    lengths = np.ones(len(split), dtype=np.int64)  # <s>
    unknown = 0
    with Progress(total=len(split) * len(split.texts), desc=f"{task.name} {split.name}", unit=" sentences") as progress:
        for number, texts in enumerate(split.texts):
            path = folder / f"input{number}" / split.name
            builder = make_builder(f"{path}.bin", impl="mmap", vocab_size=len(vocabulary.symbols))
            for start in range(0, len(texts), _SENTENCES):
                batch = texts[start : start + _SENTENCES]
                for place, ids in enumerate(vocabulary.encode_batch(batch), start):
                    unknown += int((ids == UNKNOWN).sum())
                    lengths[place] += len(ids) + 1
                    builder.add_item(torch.from_numpy(np.append(ids, EOS)))
                progress.update(len(batch))
            builder.finalize(f"{path}.idx")
    path = folder / "label" / split.name
    if split.labels is not None and task.regression:
        lines = (f"{float(label) / HIGHEST_SCORE!r}\n" for label in split.labels)
        path.with_suffix(".label").write_text("".join(lines))
    elif split.labels is not None:
        builder = make_builder(f"{path}.bin", impl="mmap", vocab_size=_FAIRSEQ_SPECIALS + len(task.labels))
        for label in split.labels:
            builder.add_item(torch.tensor([_FAIRSEQ_SPECIALS + task.labels.index(label), EOS]))
        builder.finalize(f"{path}.idx")
    (folder / "ids" / f"{split.name}.txt").write_text("".join(f"{name}\n" for name in split.ids), encoding="utf-8")
    return {
        "examples": len(split),
        "tokens": int(lengths.sum()) - len(split),  # without <s>
        "unknown": unknown,
        **count_longer(lengths),
        "with an empty sentence": split.empty,
        "broken lines skipped": split.skipped,
    }
