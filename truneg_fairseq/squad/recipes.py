"""How SQuAD is fine-tuned: ELECTRA's settings."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ..errors import TrueNegError
from ..finetuning.recipes import LARGE_WIDTH, check_settings, electra_flags, electra_layer_lr_decay, length_flags

WARMUP_RATIO, CLIP_NORM = 0.1, 1.0


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The settings of a fine-tuning."""

    lr: float  # the highest learning rate, the head's
    layer_lr_decay: float  # of the learning rate from layer to layer, downwards
    weight_decay: float  # decoupled
    epochs: int  # over the windows
    batch_size: int  # windows an update
    update_freq: int  # parts in which a batch is computed

    def __post_init__(self) -> None:
        check_settings(**vars(self))
        if self.batch_size % self.update_freq:
            raise TrueNegError(
                f"--update-freq {self.update_freq}: expected a divisor of --batch-size {self.batch_size}, which it "
                "splits"
            )

    @property
    def windows_at_once(self) -> int:
        """The part of a batch that is computed at once."""
        return self.batch_size // self.update_freq

    def updates(self, windows: int) -> int:
        """Of a training on so many windows."""
        return self.epochs * math.ceil(math.ceil(windows / self.windows_at_once) / self.update_freq)

    def flags(self, windows: int) -> list[object]:
        """fairseq-train's, for a training on so many windows."""
        return [
            *electra_flags(lr=self.lr, layer_lr_decay=self.layer_lr_decay, warmup_ratio=WARMUP_RATIO),
            *("--weight-decay", self.weight_decay, "--clip-norm", CLIP_NORM),
            *("--batch-size", self.windows_at_once, "--update-freq", self.update_freq),
            *length_flags(self.updates(windows), self.epochs),
        ]


def make_recipe(width: int, *, lr: float | None = None, layer_lr_decay: float | None = None, **settings: Any) -> Recipe:
    """ELECTRA's settings for a width of the encoder, where none are given.

    They are those of its released code: 1e-4 for small models too, where table 7 of its paper has 3e-4.
    """
    return Recipe(
        lr=(5e-5 if width >= LARGE_WIDTH else 1e-4) if lr is None else lr,
        layer_lr_decay=electra_layer_lr_decay(width) if layer_lr_decay is None else layer_lr_decay,
        **settings,
    )
