"""Fine-tuning runs on GLUE: one task with one seed each, scored, its test sets answered."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..comparison.results import Result
from ..errors import TrueNegError
from ..finetuning.data import read_info
from ..finetuning.run import MODEL_NAME, FinetuningRun
from .files import TaskFormat
from .predict import SUBMISSION_NAMES, Predictor, read_ids, score, write_submission
from .recipes import Recipe

_HEAD = "sentence_classification_head"
_ROBERTA_SEPARATOR = 2
"""Id of the token before the second sentence: RoBERTa's ``</s>``."""
# Saved between epochs: what an interruption of a run of many updates may cost.
_SAVE_UPDATES = 2_000


@dataclass(frozen=True, kw_only=True)
class GlueRun(FinetuningRun):
    """One fine-tuning on a task of GLUE."""

    task: TaskFormat  # the task
    recipe: Recipe  # its settings
    submissions: Path  # gets the predictions for test sets
    predict_test: bool = False  # write them
    keep_models: bool = False  # keep the model

    @property
    def task_name(self) -> str:
        """GLUE's name of the task."""
        return self.task.name

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that determine its result, as JSON."""
        info = read_info(self.data)
        return {
            "checkpoint_sha256": self.model.sha256,
            # Test sets change nothing of it, and may be prepared later.
            "data": {name: file for name, file in info.get("sources", {}).items() if not name.startswith("test")},
            "swap_pairs": bool(info.get("swap_pairs")),
            "precision": self.hardware.precision,
            **self.recipe.to_json(),
        }

    @property
    def task_flags(self) -> list[object]:
        """fairseq-train's for task, criterion, optimizer, and how often to save."""
        valid = [split for split, _ in self.task.files if split.startswith("valid")]
        flags: list[object] = ["--task", "glue", "--criterion", "sentence_prediction_metrics"]
        flags += ["--num-classes", max(1, len(self.task.labels)), "--classification-head-name", _HEAD]
        flags += ["--regression-target"] if self.task.regression else []
        flags += ["--separator-token", _ROBERTA_SEPARATOR] if self.model.is_roberta else []
        flags += ["--max-positions", self.model.config.positions, "--find-unused-parameters", *self.recipe.flags]
        flags += ["--batch-size", self.recipe.batch_size // self.hardware.workers]
        flags += ["--valid-subset", ",".join(valid), "--save-interval-updates", _SAVE_UPDATES, "--log-interval", 10]
        return flags

    def evaluate(self, weights: Path) -> Result:
        """Scores the validation sets, and answers the test sets where that is wanted."""
        predictor = self._predictor(weights)
        metrics, examples = score(self.task, predictor.predict("valid"))
        if self.task.name == "MNLI":
            metrics["accuracy_mismatched"] = score(self.task, predictor.predict("valid1"))[0]["accuracy"]
        if self.predict_test:
            self._submit(predictor)
        if self.keep_models:
            self.keep_model(self.folder / MODEL_NAME)
        return Result(
            model=self.model.name,
            task=self.task.name,
            seed=self.seed,
            metrics=metrics,
            examples=examples,
            example_ids=read_ids(self.data, "valid") if examples else [],
            settings={
                **self.settings,
                "checkpoint": str(self.model.path),
                "workers": self.hardware.workers,
                "command": self.command,
            },
            **self.used,
        )

    def complete(self) -> None:
        """Does what this command wants beyond an earlier one's result."""
        self.tidy()
        answer = self.predict_test and not all(self._submission(split).exists() for split in self.test_splits)
        for flag, wanted in (("--keep-models", self.keep_models), ("--predict-test", answer)):
            if wanted and not (self.folder / MODEL_NAME).exists():
                raise TrueNegError(
                    f"{flag}: {self.name} is finished and its model was not kept; choose another --output (with "
                    "--keep-models a model stays)"
                )
        if answer:
            self._submit(self._predictor(self.folder / MODEL_NAME))

    def _predictor(self, weights: Path) -> Predictor:
        return Predictor(weights, self.data, cpu=self.hardware.cpu)

    def _submit(self, predictor: Predictor) -> None:
        for split in self.test_splits:
            write_submission(self.task, split, predictor.predict(split), self.data, self._submission(split))

    def _submission(self, split: str) -> Path:
        """The file of the predictions for a test split."""
        folder = self.submissions / self.model.name / f"seed-{self.seed}"
        return folder / f"{SUBMISSION_NAMES.get((self.task.name, split), self.task.name)}.tsv"

    @property
    def test_splits(self) -> list[str]:
        """The test splits that the folder has."""
        return [split for split in read_info(self.data)["splits"] if split.startswith("test")]
