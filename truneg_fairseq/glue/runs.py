"""Fine-tuning runs on GLUE: one task with one seed each, interrupted and continued at will."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..comparison.results import Result
from ..errors import TrueNegError
from ..finetuning import run as fairseq_run
from ..finetuning.data import read_info
from ..vocabulary import SPECIAL_SYMBOLS, fingerprint, read_symbols
from .files import GlueTask
from .predict import SUBMISSION_NAMES, Predictor, read_ids, score, write_submission
from .process import FINISHED_NAME
from .recipes import Recipe

if TYPE_CHECKING:
    from ..convert.checkpoints import Checkpoint

LOG_NAME = "train.log"
MODEL_NAME = "model.pt"
_LAST = "checkpoint_last.pt"
_HEAD = "sentence_classification_head"
_POLL_SECONDS = 0.5
_TAIL = 4_096
# Saved between epochs: what an interruption of a run of many updates may cost.
_SAVE_UPDATES = 2_000
# What the criterion says where the loss or its gradient is no number, or no fp16 scale makes it one.
_DIVERGED = "truneg_fairseq: error: training stopped:"


class Diverged(TrueNegError):
    """The loss of a run is no longer a number; other runs may do better."""


@dataclass(frozen=True)
class Model:
    """What is fine-tuned.

    Attributes:
        name: in the results.
        checkpoint: its file.
        sha256: of the file.
        flags: fairseq-train's for its architecture.
        separator: id of the token before the second sentence (RoBERTa's), None for none.
        positions: of the model.
    """

    name: str
    checkpoint: Path
    sha256: str
    flags: tuple[str, ...]
    separator: int | None
    positions: int


@dataclass(frozen=True)
class Options:
    """What all runs share.

    Attributes:
        output: gets ``runs/`` and ``submissions/``.
        precision: one of :data:`fairseq_run.PRECISIONS`.
        workers: of data parallelism, which share a batch.
        cpu: keep off the GPU.
        num_workers: processes that load data.
        predict_test: write the test sets' predictions.
        keep_models: keep each run's model.
    """

    output: Path
    precision: str = "fp32"
    workers: int = 1
    cpu: bool = False
    num_workers: int = 0
    predict_test: bool = False
    keep_models: bool = False


@dataclass(frozen=True)
class Run:
    """One fine-tuning: a model, a task, a seed.

    Attributes:
        model: the model.
        task: the task.
        data: its prepared folder.
        seed: of the fine-tuning.
        recipe: its settings.
        options: see :class:`Options`.
    """

    model: Model
    task: GlueTask
    data: Path
    seed: int
    recipe: Recipe
    options: Options

    @property
    def name(self) -> str:
        """As shown."""
        return f"{self.task.name} seed {self.seed}"

    @property
    def key(self) -> tuple[str, str, int]:
        """As :attr:`Result.key`."""
        return self.model.name, self.task.name, self.seed

    @property
    def folder(self) -> Path:
        """Of its checkpoints and log."""
        return self.options.output / "runs" / self.model.name / f"{self.task.name}-{self.seed}"

    @property
    def settings(self) -> dict[str, Any]:
        """What decides on its result, as JSON."""
        return {
            "checkpoint_sha256": self.model.sha256,
            "data": read_info(self.data).get("sources", {}),
            "swap_pairs": bool(read_info(self.data).get("swap_pairs")),
            "precision": self.options.precision,
            **self.recipe.to_json(),
        }

    @property
    def flags(self) -> list[str]:
        """fairseq-train's."""
        recipe, options = self.recipe, self.options
        valid = [split for split, _ in self.task.files if split.startswith("valid")]
        flags: list[object] = [self.data, "--task", "glue", "--criterion", "sentence_prediction_metrics"]
        flags += [*self.model.flags, "--max-positions", self.model.positions]
        flags += ["--num-classes", max(1, len(self.task.labels)), "--classification-head-name", _HEAD]
        flags += ["--regression-target"] if self.task.regression else []
        flags += [] if self.model.separator is None else ["--separator-token", self.model.separator]
        flags += ["--finetune-from-model", self.model.checkpoint.resolve(), "--save-dir", self.folder]
        flags += ["--seed", self.seed, *recipe.flags]
        flags += ["--batch-size", recipe.batch_size // options.workers, "--required-batch-size-multiple", 1]
        flags += ["--distributed-world-size", options.workers, "--find-unused-parameters"]
        flags += ["--valid-subset", ",".join(valid), "--no-epoch-checkpoints"]
        flags += ["--save-interval-updates", _SAVE_UPDATES, "--keep-interval-updates", 1]
        flags += ["--num-workers", options.num_workers, "--log-format", "json", "--log-interval", 10]
        flags += ["--cpu"] if options.cpu else []
        return [str(flag) for flag in flags]

    def execute(self, progress: Callable[[int], None]) -> Result:
        """Trains where that is not done, predicts with the last model, and tidies up.

        Args:
            progress: is called with the number of updates that are done.

        Raises:
            Diverged: the loss is no number.
            TrueNegError: the folder has a run with other settings, or training failed.
        """
        fairseq_run.keep_settings(self.folder, self.settings)
        if not (self.folder / FINISHED_NAME).exists():
            self._train(progress)
        result = self._evaluate()
        if self.options.keep_models:
            self._keep_model()
        return result

    def tidy(self) -> None:
        """Removes the training's checkpoints, once its result is written."""
        for path in self.folder.glob("checkpoint*.pt"):
            path.unlink()

    def _train(self, progress: Callable[[int], None]) -> None:
        package = str(Path(__file__).resolve().parents[2])
        paths = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1"}
        environment.setdefault("PYTHONWARNINGS", "ignore")
        log = self.folder / LOG_NAME
        with log.open("ab") as stream:
            process = subprocess.Popen(
                [sys.executable, "-m", f"{__package__}.process", self.options.precision, *self.flags],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
            )
            try:
                while process.poll() is None:
                    time.sleep(_POLL_SECONDS)
                    progress(_updates(log))
            finally:
                process.kill()
                process.wait()
        if process.returncode:
            self._fail(log, process.returncode)

    def _fail(self, log: Path, code: int) -> None:
        tail = _tail(log, 1 << 16)
        if _DIVERGED in tail:
            self.tidy()
            raise Diverged(
                f"{self.name}: the loss became NaN or infinite ({log}); lower --lr, or use another precision"
            )
        errors = re.findall(r"truneg_fairseq: error: (.*)", tail)
        reason = errors[-1] if errors else f"exit code {code}"
        raise TrueNegError(f"{self.name}: training failed ({reason}); its log is {log}")

    def _evaluate(self) -> Result:
        predictor = self._predictor(_LAST)
        metrics, examples = score(self.task, predictor.predict("valid"))
        if self.task.name == "MNLI":
            metrics["accuracy_mismatched"] = score(self.task, predictor.predict("valid1"))[0]["accuracy"]
        if self.options.predict_test:
            self._submit(predictor)
        used = json.loads((self.folder / FINISHED_NAME).read_text(encoding="utf-8"))
        return Result(
            model=self.model.name,
            task=self.task.name,
            seed=self.seed,
            metrics=metrics,
            examples=examples,
            example_ids=read_ids(self.data, "valid") if examples else [],
            settings={
                **self.settings,
                "checkpoint": str(self.model.checkpoint.resolve()),
                "workers": self.options.workers,
                "command": f'fairseq-train --user-dir "$(truneg user-dir)" {shlex.join(self.flags)}',
            },
            **used,
        )

    def complete(self) -> None:
        """Does what this command wants beyond an earlier one's result.

        Raises:
            TrueNegError: test predictions are wanted, and the model is not there any more.
        """
        self.tidy()
        if not self.options.predict_test or all(self._submission(split).exists() for split in self.test_splits):
            return
        if not (self.folder / MODEL_NAME).exists():
            raise TrueNegError(
                f"--predict-test: {self.name} is finished and its model was not kept; choose another --output (with "
                "--keep-models a model stays)"
            )
        self._submit(self._predictor(MODEL_NAME))

    def _predictor(self, name: str) -> Predictor:
        return Predictor(self.folder / name, self.data, cpu=self.options.cpu)

    def _submit(self, predictor: Predictor) -> None:
        for split in self.test_splits:
            write_submission(self.task, split, predictor.predict(split), self.data, self._submission(split))

    def _submission(self, split: str) -> Path:
        """The file of the predictions for a test split."""
        folder = self.options.output / "submissions" / self.model.name / f"seed-{self.seed}"
        return folder / f"{SUBMISSION_NAMES.get((self.task.name, split), self.task.name)}.tsv"

    @property
    def test_splits(self) -> list[str]:
        """The test splits that the folder has."""
        return [split for split in read_info(self.data)["splits"] if split.startswith("test")]

    def _keep_model(self) -> None:
        import torch

        content = torch.load(self.folder / _LAST, map_location="cpu", weights_only=True)
        content["last_optimizer_state"] = None
        part = self.folder / f".{MODEL_NAME}.part"
        torch.save(content, part)
        part.replace(self.folder / MODEL_NAME)


def check_data(task: GlueTask, folder: Path) -> dict[str, Any]:
    """The description of a task's prepared folder.

    Raises:
        TrueNegError: the folder is missing, is of another task or other labels, or lacks a split.
    """
    if not folder.is_dir():
        raise TrueNegError(
            f"{folder}: no such folder; expected {task.name} prepared by 'truneg data prepare-glue' "
            "(or leave it out of --tasks)"
        )
    info = read_info(folder)
    if info.get("task") != task.name:
        raise TrueNegError(f"{folder}: has the task {info.get('task')}, expected {task.name}; prepare it again")
    labels = _labels(folder / "label" / "dict.txt")
    if not info.get("labels") == labels == list(task.labels):
        raise TrueNegError(
            f"{folder}: has the labels {', '.join(labels) or 'none (scores)'}, expected "
            f"{', '.join(task.labels) or 'none (scores)'} of {task.name}; prepare it again"
        )
    splits = info.get("splits", {})
    for split in ("train", *(name for name, _ in task.files if name.startswith("valid"))):
        if split not in splits:
            raise TrueNegError(f"{folder}: has no split {split}; expected one to train and to score on")
    if fingerprint(read_symbols(folder / "input0" / "dict.txt")) != info["vocabulary"]:
        raise TrueNegError(
            f"{folder / 'input0' / 'dict.txt'}: is not the dictionary that the data were made with; prepare them again"
        )
    return info


def _labels(path: Path) -> list[str]:
    if not path.is_file():
        return []
    return [symbol for symbol in read_symbols(path) if symbol not in SPECIAL_SYMBOLS]


def check_vocabulary(checkpoint: Checkpoint, info: dict[str, Any], folder: Path) -> None:
    """Refuses a checkpoint of another vocabulary: of another size or, where its data are here, other symbols.

    Raises:
        TrueNegError: another vocabulary.
    """
    fairseq_run.check_vocabulary(checkpoint, info["vocabulary"], folder)
    symbols = read_symbols(folder / "input0" / "dict.txt")
    rows = len(checkpoint.state["encoder.sentence_encoder.embed_tokens.weight"])
    if rows != len(symbols):
        raise TrueNegError(
            f"{checkpoint.path}: has {rows:,} embeddings, the dictionary of {folder} has {len(symbols):,} symbols; "
            "expected the same: prepare the data with the dictionary and tokenizer of the model"
        )


def _updates(log: Path) -> int:
    found = re.findall(r'num_updates": "(\d+)"', _tail(log, _TAIL))
    return int(found[-1]) if found else 0


def _tail(path: Path, size: int) -> str:
    with path.open("rb") as stream:
        stream.seek(max(0, path.stat().st_size - size))
        return stream.read().decode("utf-8", "replace")
