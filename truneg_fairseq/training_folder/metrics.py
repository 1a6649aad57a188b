"""What a training measures, in its folder: ``metrics.jsonl``, a line for each log interval, epoch and validation.

A line has ``kind`` (train: since the last line; epoch: its mean; valid), ``epoch``, ``num_updates``, ``subset`` (of a
validation), ``time`` and ``values``, which are fairseq's; null is NaN or infinite.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..files import replacing_text, writing

METRICS_NAME = "metrics.jsonl"
TRAINING = "training"

Series = dict[tuple[str, str], dict[int, float]]
"""Value by update, by stage (:data:`TRAINING` or a validation set) and quantity."""


class MetricsFile:
    """Adds to the file of a run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, *, until: int) -> None:
        """Removes what lies behind the checkpoint that the run continues from: it is measured again."""
        lines = list(read_metrics(self._folder))
        if not lines and not (self._folder / METRICS_NAME).exists():
            return
        with replacing_text(self._folder / METRICS_NAME) as stream:
            stream.writelines(f"{json.dumps(line)}\n" for line in lines if line["num_updates"] <= until)

    def add(self, *, values: Mapping[str, float], **facts: Any) -> None:
        finite = {name: value if math.isfinite(value) else None for name, value in values.items()}
        line = json.dumps({**facts, "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "values": finite})
        with writing(self._folder / METRICS_NAME), (self._folder / METRICS_NAME).open("a") as stream:
            stream.write(f"{line}\n")


def read_metrics(folder: Path) -> Iterator[dict[str, Any]]:
    """The lines of a run's folder, oldest first; the last one, which a kill may have cut, only where it is whole."""
    path = folder / METRICS_NAME
    for line in path.read_text().splitlines(keepends=True) if path.exists() else ():
        if line.endswith("\n"):
            yield json.loads(line)


def read_series(folder: Path) -> Series:
    """What a run has measured, without the means of epochs; of an update that was measured twice the last value."""
    series: Series = {}
    for line in read_metrics(folder):
        stage = str(line["subset"]) if line["kind"] == "valid" else TRAINING
        for name, value in line["values"].items() if line["kind"] != "epoch" else ():
            if value is not None:
                series.setdefault((stage, name), {})[line["num_updates"]] = value
    return series
