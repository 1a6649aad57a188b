"""Trainings on a GPU, and what they log."""

from __future__ import annotations

import json
import re
from pathlib import Path

from .commands import PLUGIN, TINY_MODEL, TINY_TRAINING, fairseq_train

ON_GPU = [argument for argument in TINY_TRAINING if argument != "--cpu"]


def training(data: Path, save: Path, *arguments: object) -> list[object]:
    options = ("--user-dir", PLUGIN, *ON_GPU, *TINY_MODEL, "--save-dir", save, "--no-epoch-checkpoints")
    return fairseq_train(data, *options, *arguments)


def steps(output: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in re.findall(r"train_inner\S* (?:\| |\[INFO\] - )?(\{.*\})", output)]
