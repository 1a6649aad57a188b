"""How GLUE's tasks are fine-tuned: the settings of ELECTRA, BERT and fairseq's RoBERTa."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from ..errors import TrueNegError
from ..finetuning.run import BASE_WIDTH, LARGE_WIDTH, electra_flags, electra_layer_lr_decay, length_flags

OVERRIDES = ("lr", "epochs", "batch_size", "weight_decay", "layer_lr_decay", "max_length")
"""The options that take the place of a recipe's settings."""

DROPOUT = 0.1
MAX_LENGTH = 128
"""Tokens of an example in ELECTRA's fine-tuning."""

_LONG_TASKS = ("RTE", "STS-B")
_BERT_EPOCHS = 3

_ROBERTA_TOKENS = 4_400  # of a batch at most
_ROBERTA_FP16 = ("--fp16-init-scale", 4, "--threshold-loss-scale", 1, "--fp16-scale-window", 128)
# lr, batch, updates, warm-up of fairseq's examples/roberta/config/finetuning.
_ROBERTA = {
    "CoLA": (1e-5, 16, 5_336, 320),
    "SST-2": (1e-5, 32, 20_935, 1_256),
    "MRPC": (1e-5, 16, 2_296, 137),
    "STS-B": (2e-5, 16, 3_598, 214),
    "QQP": (1e-5, 32, 113_272, 28_318),
    "MNLI": (1e-5, 32, 123_873, 7_432),
    "QNLI": (1e-5, 32, 33_112, 1_986),
    "RTE": (2e-5, 16, 2_036, 122),
}


@dataclass(frozen=True)
class GlueRecipe:
    """The settings of one task's fine-tuning."""

    optimizer: str  # electra_adam or fairseq's adam
    lr: float  # the highest learning rate (electra_adam: the head's)
    batch_size: int  # examples an update, of all workers together
    epochs: int  # at most
    updates: int  # of the learning rate's schedule, after which training stops
    warmup_updates: float  # of the linear warm-up
    weight_decay: float  # decoupled
    layer_lr_decay: float  # of the learning rate from layer to layer, downwards
    clip_norm: float  # of the gradient, 0 for none
    max_length: int  # tokens of an example

    @property
    def flags(self) -> list[str]:
        """fairseq-train's flags, but for the batch size."""
        flags: list[object] = ["--weight-decay", self.weight_decay, "--clip-norm", self.clip_norm]
        if self.optimizer == "electra_adam":
            warmup = self.warmup_updates / self.updates
            flags += electra_flags(lr=self.lr, layer_lr_decay=self.layer_lr_decay, warmup_ratio=warmup)
        else:
            flags += ["--optimizer", "adam", "--lr", self.lr, "--adam-betas", "(0.9,0.98)", "--adam-eps", 1e-6]
            flags += ["--lr-scheduler", "polynomial_decay", "--warmup-updates", int(self.warmup_updates)]
            flags += ["--max-tokens", _ROBERTA_TOKENS, *_ROBERTA_FP16]
        flags += length_flags(self.updates, self.epochs)
        flags += ["--max-length", self.max_length]
        flags += ["--dropout", DROPOUT, "--attention-dropout", DROPOUT]
        flags += ["--pooler-dropout", DROPOUT if self.optimizer == "electra_adam" else 0.0]
        return [str(flag) for flag in flags]


def make_recipe(name: str, task: str, *, width: int, positions: int, examples: int, **overrides: Any) -> GlueRecipe:
    """The settings of a task.

    ELECTRA has those of its paper and code: batches of 32, 3 epochs (10 for RTE and STS-B), a learning rate of 3e-4
    for small models, 1e-4 for base, 5e-5 for large, which falls by 0.8 (large: 0.9) from layer to layer, a warm-up of
    10 % of the updates, weight decay 0.01, dropout 0.1, 128 tokens. RoBERTa has those of fairseq's configurations.
    BERT's are ELECTRA's, whose code goes back to BERT's, but for 3 epochs on every task and one learning rate for all
    layers: 3e-5 for base and 2e-5 for large models, of the four that Devlin et al. (2019, Section 4.1) chose from; for
    smaller ones 1e-4, of the four of Turc et al. (2019, arXiv:1908.08962) for their compact BERTs.

    Args:
        name: one of :data:`.options.RECIPES`.
        task: one of GLUE's.
        width: of the encoder; below 768 is small, from 1024 large.
        positions: of the model.
        examples: to train on.
        overrides: ``lr``, ``epochs``, ``batch_size``, ``weight_decay``, ``layer_lr_decay`` and ``max_length``; None
            for the recipe's. The updates follow ``epochs`` and ``batch_size``.
    """
    recipe = _roberta(task, positions) if name == "roberta" else _electra(task, width, positions)
    if name == "bert":
        recipe = replace(recipe, lr=_bert_lr(width), epochs=_BERT_EPOCHS, layer_lr_decay=1.0)
    given = {key: value for key, value in overrides.items() if value is not None}
    if name == "roberta" and "layer_lr_decay" in given:
        raise TrueNegError("--layer-lr-decay: the RoBERTa recipe has none; leave it out, or use --recipe electra")
    recipe = replace(recipe, **given)
    if recipe.max_length > positions:
        raise TrueNegError(f"--max-length {recipe.max_length}: expected at most the model's {positions} positions")
    if name != "roberta" or {"epochs", "batch_size"} & given.keys():
        warmup = 0.1 if name != "roberta" else recipe.warmup_updates / recipe.updates
        updates = recipe.epochs * math.ceil(examples / recipe.batch_size)
        recipe = replace(recipe, updates=updates, warmup_updates=warmup * updates)
    return recipe


def _electra(task: str, width: int, positions: int) -> GlueRecipe:
    return GlueRecipe(
        optimizer="electra_adam",
        lr=3e-4 if width < BASE_WIDTH else 1e-4 if width < LARGE_WIDTH else 5e-5,
        batch_size=32,
        epochs=10 if task in _LONG_TASKS else 3,
        updates=0,
        warmup_updates=0,
        weight_decay=0.01,
        layer_lr_decay=electra_layer_lr_decay(width),
        clip_norm=1.0,
        max_length=min(MAX_LENGTH, positions),
    )


def _bert_lr(width: int) -> float:
    return 1e-4 if width < BASE_WIDTH else 3e-5 if width < LARGE_WIDTH else 2e-5


def _roberta(task: str, positions: int) -> GlueRecipe:
    lr, batch_size, updates, warmup = _ROBERTA[task]
    return GlueRecipe(
        optimizer="adam",
        lr=lr,
        batch_size=batch_size,
        epochs=10,
        updates=updates,
        warmup_updates=warmup,
        weight_decay=0.1,
        layer_lr_decay=1.0,
        clip_norm=0.0,
        max_length=positions,
    )
