"""One fine-tuning by fairseq-train; its model, loaded to predict."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..convert.architecture import architecture_flags, config_of
from ..errors import TrueNegError
from ..files import read_json
from ..launch.training import TrainingRun
from ..models.checkpoints import Checkpoint, quiet_fairseq, read_checkpoint
from ..results.result import Result, read_results
from ..workers import choose_device

INFO_FILE = "info.json"
"""Describes a folder of data for fine-tuning; its ``vocabulary`` is :func:`truneg_fairseq.vocabulary.fingerprint`."""

BASE_WIDTH, LARGE_WIDTH = 768, 1024
"""From these widths of the encoder on a model has the learning rates of ELECTRA's base and large models."""

_GENERIC = re.compile(r"checkpoint.*|model.*|train|runs|seed-\d+")  # names that no person chose


@dataclass(frozen=True, kw_only=True)
class FinetuningRun(TrainingRun):
    """One fine-tuning on a task of GLUE or on SQuAD."""

    start: Checkpoint  # the pre-trained model
    model_name: str  # in the results
    task_name: str  # in the results
    data: Path  # the task's prepared folder
    determined_by: dict[str, Any]  # see :attr:`settings`
    task_flags: Sequence[object]  # flags for task, criterion, optimizer, and how often to save

    @property
    def name(self) -> str:
        return f"{self.task_name} seed {self.seed}"

    @property
    def key(self) -> tuple[str, str, int]:
        """As :attr:`Result.key`."""
        return self.model_name, self.task_name, self.seed

    @property
    def settings(self) -> dict[str, Any]:
        return self.determined_by

    @property
    def own_flags(self) -> list[object]:
        flags: list[object] = [self.data.resolve(), *self.task_flags, *architecture_flags(config_of(self.start))]
        return [*flags, "--finetune-from-model", self.start.path.resolve(), "--required-batch-size-multiple", 1]

    def result(
        self, metrics: dict[str, float], examples: dict[str, list[float]], ids: list[str], **settings: Any
    ) -> Result:
        """The scores of the trained model, with how it was made."""
        made = {**self.settings, "checkpoint": str(self.start.path.resolve()), **settings, "command": self.command}
        return Result(
            model=self.model_name,
            task=self.task_name,
            seed=self.seed,
            metrics=metrics,
            examples=examples,
            example_ids=ids,
            settings=made,
            **self.used,
        )


def electra_layer_lr_decay(width: int) -> float:
    """The factor of the learning rate from layer to layer in ELECTRA's fine-tuning (its paper, table 7)."""
    return 0.8 if width < LARGE_WIDTH else 0.9


def electra_flags(*, lr: float, layer_lr_decay: float, warmup_ratio: float) -> list[object]:
    """fairseq-train's flags for ELECTRA's Adam, whose learning rate rises and falls linearly."""
    return [
        *("--optimizer", "electra_adam", "--lr", lr, "--layer-lr-decay", layer_lr_decay),
        *("--lr-scheduler", "electra_linear", "--warmup-ratio", warmup_ratio),
    ]


def length_flags(updates: int, epochs: int) -> list[object]:
    """fairseq-train's flags for the length of the schedule, after which training stops."""
    return ["--total-num-update", updates, "--max-update", updates, "--max-epoch", epochs]


def finished_results(path: Path, runs: Iterable[FinetuningRun]) -> dict[tuple[str, str, int], Result]:
    """The results of these runs that a file has."""
    known = {result.key: result for result in read_results([path])} if path.exists() else {}
    finished = {}
    for run in runs:
        if run.key not in known:
            continue
        finished[run.key] = known[run.key]
        for name, value in run.settings.items():
            found = known[run.key].settings.get(name)
            if found != value:
                raise TrueNegError(
                    f"{path}: has {run.name} of {run.model_name} with {name} {found}, expected {value}; give the same "
                    "options, another name of the model, or another file of results"
                )
    return finished


def default_name(path: Path) -> str:
    """A model's name in tables and results: that of its file or folder, or of the first folder above it that is named
    by a person (``arm`` of ``runs/arm/seed-1/train/model.pt``, ``run`` of ``run/checkpoint_best.pt``).
    """
    whole = path.absolute()
    parts = [whole.stem if whole.suffix == ".pt" else whole.name, *(parent.name for parent in whole.parents)]
    return next((part for part in parts if part and not _GENERIC.fullmatch(part)), parts[0])


def seed_of(path: Path) -> int:
    """The seed in the path of a training (``runs/arm/seed-2/train/model.pt``); 1 where it has none."""
    found = [match[1] for part in path.absolute().parts if (match := re.fullmatch(r"seed-(\d{1,9})", part))]
    return int(found[-1]) if found else 1


def read_info(folder: Path) -> dict[str, Any]:
    """The description of a folder of data for fine-tuning."""
    expected = "data of 'truneg data prepare-glue' or 'truneg data prepare-squad'"
    return read_json(folder / INFO_FILE, dict[str, Any], expected=expected)


def read_finetuned(path: Path, task: str, prepared: Path | None = None) -> tuple[Checkpoint, Path]:
    """A fine-tuned model, and its prepared data: those that are given, or those it was trained on."""
    from .. import register

    register()
    checkpoint = read_checkpoint(path)
    trained_on = checkpoint.task.get("_name", checkpoint.task.get("task"))
    if trained_on != task:
        raise TrueNegError(f"{path}: was trained on --task {trained_on}; expected a checkpoint of truneg {task} train")
    folder = prepared or Path(str(checkpoint.task["data"]))
    if not folder.is_dir():
        raise TrueNegError(f"{path}: was trained on {folder}, which is not a folder here; name it with --prepared")
    return checkpoint, folder


def load_finetuned(checkpoint: Path, data: Path, *, cpu: bool) -> tuple[Any, Any, Any, Any]:
    """A fine-tuned model in fp32 on its device, to predict with: model, configuration, task, device."""
    quiet_fairseq()
    from fairseq import checkpoint_utils

    (model,), cfg, task = checkpoint_utils.load_model_ensemble_and_task(
        [str(checkpoint)], arg_overrides={"data": str(data)}
    )
    device = choose_device(cpu=cpu)
    return model.float().eval().to(device), cfg, task, device
