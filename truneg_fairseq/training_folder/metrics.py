"""What a training measures, in its folder: ``metrics.jsonl``, a line for each log interval, epoch and validation.

A line has ``kind`` (train: since the last line; epoch: its mean; valid), ``epoch``, ``num_updates``, ``subset`` (of a
validation), ``time`` and ``values`` as fairseq logs them; null is NaN or infinite. transformers' Trainer writes
``trainer_state.json``, with losses in nats.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..files import replacing_text, without_nan, writing

METRICS_NAME = "metrics.jsonl"
TRAINING = "training"
_STATE_NAME = "trainer_state.json"
_NO_MEASURE = re.compile("^(step|epoch|learning_rate|grad_norm|total_flos|train_.*)$|runtime|per_second")

Series = dict[tuple[str, str], dict[int, float]]
"""Value by update, by stage (:data:`TRAINING` or a validation set) and quantity."""


def keep_lines(folder: Path, *, until: int) -> None:
    """Removes what lies behind the checkpoint that the run continues from: it is measured again."""
    lines = list(read_metrics(folder))
    if (folder / METRICS_NAME).exists():
        with replacing_text(folder / METRICS_NAME) as stream:
            stream.writelines(f"{json.dumps(line)}\n" for line in lines if line["num_updates"] <= until)


def add_line(folder: Path, *, values: Mapping[str, float], **facts: Any) -> None:
    line = json.dumps(without_nan({**facts, "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "values": values}))
    with writing(folder / METRICS_NAME), (folder / METRICS_NAME).open("a") as stream:
        stream.write(f"{line}\n")


def read_metrics(folder: Path) -> Iterator[dict[str, Any]]:
    """The lines of a run's folder, oldest first, without those that a kill or a full disk has cut."""
    path = folder / METRICS_NAME
    for line in path.read_text(errors="replace").splitlines() if path.exists() else ():
        with contextlib.suppress(ValueError):
            yield json.loads(line)


def updates_of(checkpoint: Path) -> int:
    """The updates of a checkpoint of transformers' Trainer; 0 for any other model."""
    state = checkpoint / _STATE_NAME
    return int(json.loads(state.read_bytes())["global_step"]) if state.exists() else 0


def _read_transformers(folder: Path) -> Iterator[dict[str, Any]]:
    """The log of transformers' Trainer, of the newest checkpoint in its output folder, in the same form."""
    states = [json.loads(path.read_bytes()) for path in folder.glob(f"**/{_STATE_NAME}")]
    for entry in max(states, key=lambda state: state["global_step"], default={"log_history": ()})["log_history"]:
        known = {name.removeprefix("eval_"): value for name, value in entry.items() if not _NO_MEASURE.search(name)}
        values = {name: value / math.log(2) if name.endswith("loss") else value for name, value in known.items()}
        for plain in {"mlm_loss", "plain_loss"} & values.keys():  # fairseq's loss; the one that is minimised is "loss"
            values |= {"objective": values["loss"], "loss": values.pop(plain)}
        kind = "valid" if any(name.startswith("eval_") for name in entry) else "train"
        yield {"kind": kind, "subset": "valid", "num_updates": entry["step"], "values": values}


def read_series(folder: Path) -> Series:
    """What a run has measured, without the means of epochs; of an update that was measured twice the last value."""
    series: Series = {}
    for line in read_metrics(folder) if (folder / METRICS_NAME).exists() else _read_transformers(folder):
        stage = str(line["subset"]) if line["kind"] == "valid" else TRAINING
        for name, value in line["values"].items() if line["kind"] != "epoch" else ():
            if value is not None:
                series.setdefault((stage, name), {})[line["num_updates"]] = value
    return series
