"""fairseq's checkpoints, read and written without a training run."""

from __future__ import annotations

import argparse
import logging
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import TrueNegError, reading
from ..fairseq_runs.saving import VOCABULARY, read_lazily
from ..files import file_digest, replacing_file, require_checkpoint
from ..vocabulary import fingerprint, read_symbols

if TYPE_CHECKING:
    from torch import Tensor

_SAME_VOCABULARY = (
    "prepare the data with the model's dictionary and tokenizer; if only the order of the tokens differs, "
    "'truneg convert CKPT.pt DIR' and then 'truneg convert DIR NEW.pt --data DATA-BIN' move the weights"
)
# What a model is as large as. No layer is without tensors.
_SIZES = re.compile(
    r"(encoder|decoder|generator)_(layers|embed_dim|ffn_embed_dim|attention_heads)|embedding_dim"
    r"|max_(source_|target_)?positions"
)
_LARGEST_SIZE = 1 << 24


@dataclass(frozen=True)
class Checkpoint:
    """The parts of a checkpoint that are used here."""

    path: Path  # its file
    state: dict[str, Tensor]  # the model's tensors
    model: dict[str, Any]  # the model's arguments
    task: dict[str, Any]  # the task's arguments
    criterion: dict[str, Any]  # the criterion's arguments, perhaps among others
    updates: int | None  # that it was trained for; None where it does not say
    # the name of the checkpoint whose weights the training began with (--finetune-from-model)
    started_from: str | None
    vocabulary: str | None  # the fingerprint of its dictionary; None where another program wrote it
    content: dict[str, Any]  # all of the file, mapped: read where it is used

    @property
    def has_generator(self) -> bool:
        """Whether it is both halves of an ELECTRA."""
        return any(key.startswith("generator.") for key in self.state)

    @cached_property
    def sha256(self) -> str:
        return file_digest(self.path)


def read_checkpoint(path: Path) -> Checkpoint:
    """Loads a checkpoint of fairseq-train or fairseq-hydra-train, with weights_only."""
    require_checkpoint(path)
    with reading(path, "a fairseq checkpoint"):
        content: dict[str, Any] = read_lazily(path)
        state, config = dict(content["model"]), _arguments(content.get("cfg"))
        model = _arguments(config.get("model")) or _arguments(content.get("args"))
        if fault := _fault(state, model):
            raise ValueError(fault)
    old = _arguments(content.get("args"))
    task, criterion = (_arguments(config.get(part)) or old for part in ("task", "criterion"))
    started = _arguments(config.get("checkpoint")).get("finetune_from_model") or old.get("finetune_from_model")
    vocabulary = _arguments(content.get("extra_state")).get(VOCABULARY)
    history = content.get("optimizer_history")
    updates = _arguments(history[-1] if isinstance(history, list) and history else None).get("num_updates")
    return Checkpoint(
        path=path,
        state=state,
        model=model,
        task=task,
        criterion=criterion,
        updates=updates if isinstance(updates, int) else None,
        started_from=Path(str(started)).name if started else None,
        vocabulary=vocabulary if isinstance(vocabulary, str) else None,
        content=content,
    )


def data_of(checkpoint: Checkpoint) -> Path:
    """The binarized data that a checkpoint was trained on."""
    data = checkpoint.task.get("data")
    first = Path(str(data).split(":")[0])
    if not data or not first.is_dir():
        raise TrueNegError(
            f"{checkpoint.path}: was trained on {data}, which is not a folder here; give the data with --data"
        )
    return first


def write_checkpoint(
    output: Path,
    state: Mapping[str, Tensor],
    model: Mapping[str, Any],
    data: Path,
    *,
    task: str,
    settings: Mapping[str, Any],
) -> None:
    """Writes weights as a checkpoint at zero updates, of tensors and plain Python values.

    The model's argument ``_name`` is the architecture; ``settings`` are the task's arguments that are not its defaults.
    """
    import torch
    from fairseq.criterions import CRITERION_DATACLASS_REGISTRY
    from fairseq.dataclass.configs import FairseqConfig
    from fairseq.tasks import TASK_DATACLASS_REGISTRY
    from omegaconf import OmegaConf

    # What fairseq-train itself would store, in built-in types.
    root = OmegaConf.structured(FairseqConfig())
    root.model = dict(model)
    root.task = TASK_DATACLASS_REGISTRY[task](_name=task, data=str(data.resolve()), **settings)
    criterion = {"masked_lm": "masked_lm", "electra_pretraining": "electra"}[task]
    root.criterion = CRITERION_DATACLASS_REGISTRY[criterion](_name=criterion)
    history = {"criterion_name": "MaskedLmLoss", "optimizer_name": "FairseqAdam"}
    told = {VOCABULARY: fingerprint(read_symbols(own))} if (own := _dictionary(data)) else {}
    content = {
        "args": None,
        "cfg": OmegaConf.to_container(root, resolve=True, enum_to_str=True),
        "model": dict(state),
        "criterion": None,
        "optimizer_history": [dict(history, lr_scheduler_state={}, num_updates=0)],
        "task_state": {},
        "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0}, **told},
        "last_optimizer_state": None,
    }
    with replacing_file(output) as stream:
        torch.save(content, stream)


def _fault(state: Mapping[Any, Any], model: Mapping[Any, Any]) -> str | None:
    """What is wrong with weights and the model's arguments: not whole tensors, not plain values, absurd sizes."""
    from torch import Tensor, strided

    if not model:
        return "has no weights with a configuration"
    for name, tensor in state.items():
        is_plain = isinstance(name, str) and isinstance(tensor, Tensor) and tensor.layout is strided
        if not is_plain or tensor.is_meta or tensor.numel() * tensor.itemsize > tensor.untyped_storage().nbytes():
            return f"{str(name)[:80]!r} is no whole tensor"
    for name, value in model.items():
        if isinstance(name, str) and value is not None and _SIZES.fullmatch(name):
            largest = max(1, len(state)) if name.endswith("_layers") else _LARGEST_SIZE
            is_plain = type(value) is int and 0 <= value <= largest
        else:
            is_plain = isinstance(name, str) and isinstance(value, str | int | float | list | tuple | dict | None)
        if not is_plain:
            found = f"{type(value).__name__} {str(value)[:80]}, of a model with {len(state)} tensors"
            return f"its argument {str(name)[:80]} is {found}"
    return None


def _arguments(arguments: Any) -> dict[str, Any]:
    """The arguments that fairseq-train stores as a Namespace, as a dictionary."""
    if isinstance(arguments, argparse.Namespace):
        return vars(arguments)
    return dict(arguments) if isinstance(arguments, Mapping) else {}


def check_vocabulary(checkpoint: Checkpoint, expected: str, data: Path) -> None:
    """Refuses a checkpoint of another vocabulary: of another size or, where it tells its own, of other symbols."""
    own, weight = _dictionary(data), checkpoint.state.get("encoder.sentence_encoder.embed_tokens.weight")
    if own is not None and weight is not None and len(weight) != (size := len(read_symbols(own))):
        raise TrueNegError(
            f"{checkpoint.path}: has {len(weight):,} embeddings, the dictionary of {data} has {size:,} symbols; "
            f"{_SAME_VOCABULARY}"
        )
    check_fingerprint(checkpoint.vocabulary, expected, str(data))


def check_fingerprint(found: str | None, expected: str, data: str) -> None:
    """Refuses a model whose dictionary has another fingerprint than that of the data; None where it is not known."""
    if found is not None and found != expected:
        raise TrueNegError(
            f"{data}: was made with a vocabulary of fingerprint {expected[:12]}, the checkpoint is of {found[:12]}; "
            f"{_SAME_VOCABULARY}"
        )


def require_head(model: object, missing: Collection[str]) -> None:
    """Refuses to predict with random weights: ``missing`` are those of the head that the model's file does not have."""
    if missing:
        lacking = ", ".join(modules_of(missing))
        raise TrueNegError(f"{model}: has no {lacking}; expected a whole LM, with its prediction head")


def modules_of(tensors: Iterable[str]) -> list[str]:
    """The modules that tensors belong to, at most two names deep, such as ``cls.predictions``."""
    return sorted({".".join(name.split(".")[:-1][:2]) for name in tensors})


def _dictionary(folder: Path) -> Path | None:
    """Of binarized data, of SQuAD's features, or of a GLUE task."""
    return next((path for path in (folder / "dict.txt", folder / "input0" / "dict.txt") if path.is_file()), None)


def quiet_fairseq() -> None:
    """Keeps fairseq from logging every step of loading a checkpoint."""
    logging.getLogger("fairseq").setLevel(logging.WARNING)
