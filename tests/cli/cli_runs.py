"""Command lines of small trainings, and what they leave behind."""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

import torch
from conftest import (
    PLUGIN,
    REPOSITORY,
    TINY_MODEL,
    TINY_TRAINING,
    fairseq_train,
)

RECIPES = REPOSITORY / "user_dir_examples" / "masked_lm"
NO_DROPOUT = ("--dropout", 0, "--attention-dropout", 0)
# Every objective at once: hard correction, both regularizations and a temperature.
EVERYTHING = (
    *("--criterion", "masked_lm_true_neg", "--hc-weight", 1, "--sr-word-weight", 1, "--sr-sent-weight", 1),
    *("--softmax-temperature", 1.5, "--tokenization", "wordpiece"),
)
RATES = ("loss", "ppl", "objective", "accuracy", "hc_pred", "hc_iter", "sr", "kl")


def training(data: Path, save: Path, *arguments: object) -> list[object]:
    """A fairseq-train command line on the tiny data."""
    return fairseq_train(
        data,
        "--user-dir",
        PLUGIN,
        *TINY_TRAINING,
        *TINY_MODEL,
        "--save-dir",
        save,
        "--no-epoch-checkpoints",
        *arguments,
    )


def hydra(data: Path, save: Path, recipe: str, *overrides: str) -> list[object]:
    tiny = (
        "common.cpu=true common.fp16=false +model.encoder_layers=1 +model.encoder_embed_dim=32 "
        "+model.encoder_ffn_embed_dim=32 +model.encoder_attention_heads=2 model.max_positions=64 "
        "task.tokens_per_sample=24 dataset.batch_size=4 dataset.num_workers=0 optimization.update_freq=[1] "
        "optimization.lr=[0.01] lr_scheduler.warmup_updates=2 common.log_interval=1"
    )
    return [
        *(sys.executable, "-m", "fairseq_cli.hydra_train", "--config-dir", RECIPES, "--config-name", recipe),
        *(f"common.user_dir={PLUGIN}", f"task.data={data}", f"checkpoint.save_dir={save}", *tiny.split(), *overrides),
        *(f"hydra.run.dir={save}/hydra",),
    ]


def logged(output: str, name: str) -> list[dict[str, str]]:
    """The JSON lines that fairseq printed for "train_inner", "train" or "valid"."""
    lines = re.findall(rf"\| {name} \| (\{{.*\}})", output)
    return [json.loads(line) for line in lines]


def parameters(checkpoint: Path) -> dict[str, torch.Tensor]:
    with torch.serialization.safe_globals([argparse.Namespace]):
        return torch.load(checkpoint, weights_only=True)["model"]


def largest_difference(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    assert one.keys() == other.keys()
    return max(float((one[name] - other[name]).abs().max()) for name in one)
