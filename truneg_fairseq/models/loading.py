"""Loading a checkpoint with its task."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from fairseq import checkpoint_utils, tasks
from fairseq.dataclass.utils import overwrite_args_by_name
from omegaconf import OmegaConf

from ..errors import TrueNegError, reason
from ..vocabulary import fingerprint, read_symbols
from .checkpoints import Checkpoint, check_vocabulary


def load_checkpoint(read: Checkpoint, data: Path) -> tuple[Any, Any]:
    """A masked-LM model, in training mode, and its task, on a folder of binarized data, whatever the training's was."""
    check_vocabulary(read, fingerprint(read_symbols(data)), data)  # before a model of its sizes is built
    model, task = load_model(read, data)
    if not hasattr(task, "mask_idx"):
        raise TrueNegError(
            f"{read.path}: is of task {type(task).__name__}; expected a masked-LM task such as masked_lm"
        )
    return model, task


def load_model(read: Checkpoint, data: Path) -> tuple[Any, Any]:
    """As :func:`load_checkpoint`, of a checkpoint of any task that is read and fits the data."""
    overrides = {"data": str(data)}
    try:
        state = as_fairseq_reads(read, overrides)
        models, _, task = checkpoint_utils.load_model_ensemble_and_task([str(read.path)], overrides, state=state)
    except Exception as error:  # other files fail to load in many ways
        raise TrueNegError(
            f"{read.path}: cannot be loaded ({reason(error)}); expected fairseq's checkpoint of a model whose "
            f"dictionary is that of {data}"
        ) from None
    return models[0], task


def load_task(read: Checkpoint, data: Path, seed: int | None = None) -> Any:
    """The task of a checkpoint's training alone, on a folder of binarized data, with its seed of masks or another."""
    overrides = {"data": str(data), **({} if seed is None else {"seed": seed})}
    return tasks.setup_task(as_fairseq_reads(read, overrides)["cfg"].task)


def as_fairseq_reads(read: Checkpoint, overrides: dict[str, Any]) -> dict[str, Any]:
    """What ``load_checkpoint_to_cpu`` makes of a file, without reading it again, and without its optimizer."""
    state = {**read.content, "model": dict(read.content["model"]), "last_optimizer_state": None}
    if state.get("args") is not None:
        state["args"] = copy.copy(state["args"])
        for name, value in overrides.items():
            setattr(state["args"], name, value)
    if state.get("cfg") is not None:
        state["cfg"] = OmegaConf.create(state["cfg"], flags={"allow_objects": True})
        overwrite_args_by_name(state["cfg"], overrides)
    upgraded: dict[str, Any] = checkpoint_utils._upgrade_state_dict(state)
    return upgraded
