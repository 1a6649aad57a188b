"""Loading a checkpoint with its task."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, NamedTuple

from fairseq import checkpoint_utils, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf, overwrite_args_by_name
from omegaconf import OmegaConf

from ..errors import TrueNegError, reason
from ..files import require_unsplit
from ..vocabulary import fingerprint, read_symbols
from .checkpoints import Checkpoint, check_vocabulary, read_checkpoint


class LoadedCheckpoint(NamedTuple):
    model: Any  # in training mode, as fairseq returns it
    task: Any  # of its training, on the data that were asked for
    updates: int  # of its training


def load_checkpoint(checkpoint: Path, data: Path, seed: int | None = None) -> LoadedCheckpoint:
    """Loads a masked-LM model with its task, on a folder of binarized data, whatever the training's was.

    ``seed`` is that of the task's masks; None for that of the training.
    """
    require_unsplit(data, "--data")
    loaded = load_model(read_checkpoint(checkpoint), data, seed=seed, vocabulary=fingerprint(read_symbols(data)))
    if not hasattr(loaded.task, "mask_idx"):
        raise TrueNegError(
            f"{checkpoint}: is of task {type(loaded.task).__name__}; expected a masked-LM task such as masked_lm"
        )
    return loaded


def load_model(
    read: Checkpoint, data: Path, *, seed: int | None = None, vocabulary: str | None = None
) -> LoadedCheckpoint:
    """As :func:`load_checkpoint`, of a checkpoint that is read; ``vocabulary`` is the fingerprint that it must have."""
    if vocabulary is not None:  # before a model of its sizes is built
        check_vocabulary(read, vocabulary, data)
    overrides = {"data": str(data), **({} if seed is None else {"seed": seed})}
    try:
        state = as_fairseq_reads(read, overrides)
        models, _, task = checkpoint_utils.load_model_ensemble_and_task([str(read.path)], overrides, state=state)
    except TrueNegError:
        raise
    except FileNotFoundError as error:
        raise TrueNegError(f"{error.filename or data}: no such file; expected data in --data {data}") from None
    except Exception as error:  # other files fail to load in many ways
        raise TrueNegError(
            f"{read.path}: cannot be loaded ({reason(error)}); expected fairseq's checkpoint of a model whose "
            f"dictionary is that of {data}"
        ) from None
    return LoadedCheckpoint(models[0], task, read.updates or 0)


def load_task(read: Checkpoint, data: Path, seed: int | None = None) -> Any:
    """The task of a checkpoint's training alone, on a folder of binarized data."""
    state = as_fairseq_reads(read, {"data": str(data), **({} if seed is None else {"seed": seed})})
    cfg = convert_namespace_to_omegaconf(state["args"]) if state.get("args") is not None else state["cfg"]
    return tasks.setup_task(cfg.task)


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
