"""What the recipes of GLUE and SQuAD share: ELECTRA's optimizer, and the ranges of the settings."""

from __future__ import annotations

import math

from ..errors import TrueNegError

BASE_WIDTH, LARGE_WIDTH = 768, 1024
"""From these widths of the encoder on a model has the learning rates of ELECTRA's base and large models."""


def electra_layer_lr_decay(width: int) -> float:
    """The factor of the learning rate from layer to layer in ELECTRA's fine-tuning (its paper, table 7)."""
    return 0.8 if width < LARGE_WIDTH else 0.9


def electra_flags(*, lr: float, layer_lr_decay: float, warmup_ratio: float) -> list[object]:
    """fairseq-train's for ELECTRA's Adam, whose learning rate rises and falls linearly."""
    return [
        *("--optimizer", "electra_adam", "--lr", lr, "--layer-lr-decay", layer_lr_decay),
        *("--lr-scheduler", "electra_linear", "--warmup-ratio", warmup_ratio),
    ]


def length_flags(updates: int, epochs: int) -> list[object]:
    """fairseq-train's for the length of the schedule, after which training stops."""
    return ["--total-num-update", updates, "--max-update", updates, "--max-epoch", epochs]


def check_settings(*, lr: float, weight_decay: float, layer_lr_decay: float, **counts: int) -> None:
    """Refuses settings out of range; ``counts`` are the whole numbers by their flags' names, with "_" for "-"."""
    for name, value in counts.items():
        if value < 1:
            raise TrueNegError(f"--{name.replace('_', '-')} {value}: expected 1 or more")
    if not (math.isfinite(lr) and lr > 0):
        raise TrueNegError(f"--lr {lr}: expected a number above 0")
    if not 0 <= weight_decay < math.inf:
        raise TrueNegError(f"--weight-decay {weight_decay}: expected 0 or more")
    if not 0 < layer_lr_decay <= 1:
        raise TrueNegError(f"--layer-lr-decay {layer_lr_decay}: expected a number in (0, 1]")
