"""Loading a masked-LM checkpoint with its task."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from fairseq import checkpoint_utils

from ..errors import TrueNegError, reason
from ..files import require_unsplit
from ..vocabulary import fingerprint, read_symbols
from .checkpoints import check_vocabulary, read_checkpoint


class LoadedCheckpoint(NamedTuple):
    model: Any  # in training mode, as fairseq returns it
    task: Any  # of its training, on the data that were asked for
    updates: int  # of its training


def load_checkpoint(checkpoint: Path, data: Path, seed: int | None = None) -> LoadedCheckpoint:
    """Loads a masked-LM model with its task, on a folder of binarized data, whatever the training's was.

    ``seed`` is that of the task's masks; None for that of the training.
    """
    require_unsplit(data, "--data")
    # Before a model of its sizes is built.
    check_vocabulary(read_checkpoint(checkpoint), fingerprint(read_symbols(data)), data)
    overrides = {"data": str(data), **({} if seed is None else {"seed": seed})}
    try:
        state = checkpoint_utils.load_checkpoint_to_cpu(str(checkpoint), overrides)
        models, _, task = checkpoint_utils.load_model_ensemble_and_task([str(checkpoint)], overrides, state=state)
    except TrueNegError:
        raise
    except FileNotFoundError as error:
        raise TrueNegError(f"{error.filename or data}: no such file; expected data in --data {data}") from None
    except Exception as error:  # other files fail to load in many ways
        raise TrueNegError(
            f"{checkpoint}: cannot be loaded ({reason(error)}); expected fairseq's checkpoint of a masked-LM "
            f"model whose dictionary is that of {data}"
        ) from None
    if not hasattr(task, "mask_idx"):
        raise TrueNegError(
            f"{checkpoint}: is of task {type(task).__name__}; expected a masked-LM task such as masked_lm"
        )
    return LoadedCheckpoint(models[0], task, int(state["optimizer_history"][-1]["num_updates"]))
