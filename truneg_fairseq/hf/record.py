"""The file ``true_negatives.json`` in a folder, which says how its model was trained."""

from __future__ import annotations

import contextlib
import json
import logging
import zlib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from transformers.trainer import TRAINER_STATE_NAME

from ..files import VERSION, changes, write_json
from ..registry import ALTERNATIVES, TERMS

logger = logging.getLogger(__name__)

_NAME = "true_negatives.json"
_TRAINING = (
    *("learning_rate", "lr_scheduler_type", "warmup_steps", "num_train_epochs", "max_steps", "seed", "max_grad_norm"),
    *("optim", "weight_decay", "adam_beta1", "adam_beta2", "adam_epsilon", "bf16", "fp16"),
)
"""The arguments of transformers' that the weights depend on."""


def write_record(folder: Path, record: Mapping[str, Any]) -> None:
    """Writes the file of a folder, at once or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / _NAME, record)


def read_record(folder: Path) -> dict[str, Any]:
    """The record of a folder; {} where it has none, as those of the stock Trainer."""
    path = folder / _NAME
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


def newest_checkpoint(folder: Path) -> Path | None:
    """The newest whole checkpoint of transformers' Trainer in its output folder; says which ones are not whole.

    The Trainer writes its state last, so what a kill or a full disk has cut has none that can be read.
    """
    numbered = {path: path.name.rpartition("-")[2] for path in folder.glob("checkpoint-*")}
    for path in sorted((p for p, n in numbered.items() if n.isdecimal()), key=lambda p: int(numbered[p]), reverse=True):
        if state_of(path):
            return path
        logger.warning("%s: is not whole (a kill or a full disk); it is passed over, and written again", path)
    return None


def state_of(folder: Path) -> dict[str, Any]:
    """The state of transformers' Trainer in a folder; {} where it is not there, or not whole."""
    with contextlib.suppress(OSError, ValueError):
        return dict(json.loads((folder / TRAINER_STATE_NAME).read_bytes()))
    return {}


def is_finished(folder: Path, args: Any) -> bool:
    """Whether a folder holds as many updates or epochs as transformers' arguments ask for; a line says so."""
    if not (state := state_of(folder)):
        return False
    if args.max_steps > 0:
        finished = state["global_step"] >= args.max_steps
    else:
        finished = (state["epoch"] or 0) >= args.num_train_epochs
    if finished:
        more = "a larger --max_steps or --num_train_epochs goes on, another --output_dir starts anew"
        logger.warning("%s: already finished, after %s updates; %s", folder, state["global_step"], more)
    return bool(finished)


def record_of(trainer: Any, model: Any) -> dict[str, Any]:
    """The true-negative options of a trainer, and what else the weights of its model, unwrapped, depend on."""
    arguments, collator, options = trainer.args.to_dict(), trainer.data_collator, trainer.true_negatives
    return {
        "truneg_fairseq": VERSION,
        "base_model": getattr(model, "name_or_path", "") or None,
        "data": {"train": _described(trainer.train_dataset), "validation": _described(trainer.eval_dataset)},
        "true_negatives": asdict(options),
        "ideas": ALTERNATIVES.digests(options.sources) | TERMS.digests(options.weights_of_terms),
        "masks": {name: getattr(collator, name, None) for name in ("mlm_probability", "whole_words")},
        "training": {
            **{name: arguments[name] for name in _TRAINING},
            "sequences_in_an_update": trainer.get_total_train_batch_size(trainer.args),
        },
    }


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What differs between two records, as "name before -> now"."""
    found = changes(before, {"base_model": now["base_model"]})
    for part in ("data", "true_negatives", "ideas", "masks", "training"):
        recorded = {**now[part], **before.get(part, {})}  # an option that is newer than the record is not compared
        found += [change._replace(name=f"{part}.{change.name}") for change in changes(recorded, now[part])]
    return [f"{name} {old} -> {new}" for name, old, new in found]


def _described(data: Any) -> Any:
    """How many examples a data set has, and a checksum of the first and the last; several by their names."""
    if isinstance(data, Mapping):
        return {name: _described(each) for name, each in data.items()}
    if not hasattr(data, "__len__"):
        return data if data is None else type(data).__name__
    ends = [data[place] for place in (0, len(data) - 1)] if len(data) else []
    if not all("input_ids" in each and "labels" not in each for each in ends):  # masked anew each time, perhaps
        return f"{len(data):,} examples"
    tokens = b"".join(np.asarray(each["input_ids"], dtype=np.int64).tobytes() for each in ends)
    return f"{len(data):,} examples (CRC {zlib.crc32(tokens):08x})"
