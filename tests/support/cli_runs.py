"""Command lines of small trainings, and what they leave behind."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from .commands import (
    PLUGIN,
    REPOSITORY,
    TINY_MODEL,
    TINY_TRAINING,
    Process,
    fairseq_train,
    killed_on_error,
    start_command,
    wait_until,
)

RECIPES = REPOSITORY / "user_dir_examples" / "pretraining"
NO_DROPOUT = ("--dropout", 0, "--attention-dropout", 0)
# Every objective at once: hard correction, both regularizations and a temperature.
EVERYTHING = (
    *("--criterion", "masked_lm_true_neg", "--hc-weight", 1, "--sr-word-weight", 1, "--sr-sent-weight", 1),
    *("--softmax-temperature", 1.5, "--tokenization", "wordpiece"),
)
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", 2, "--standalone")
RATES = ("loss", "ppl", "objective", "accuracy", "hc_pred", "hc_iter", "sr", "kl")


def run_on_two_workers(command: Sequence[object], folder: Path) -> str:
    """Trains with two workers, each a command of its own as under SLURM; what the first one printed.

    They start faster than those of torchrun, which tests/cli/test_workers.py tries.
    """
    meeting = Path(tempfile.mkdtemp(dir=folder)) / "meeting"
    launch = ("--distributed-world-size", 2, "--distributed-no-spawn", "--distributed-init-method", f"file://{meeting}")
    logs = [meeting.with_name(f"{rank}.log") for rank in range(2)]
    processes = [
        start_command([*command, *launch, "--distributed-rank", rank], log, log) for rank, log in enumerate(logs)
    ]
    with killed_on_error(processes[0]), killed_on_error(processes[1]):
        codes = [process.wait(timeout=300) for process in processes]
        assert codes == [0, 0], "\n".join(log.read_text()[-3000:] for log in logs)
    return logs[0].read_text()


def training(data: Path, save: Path, *arguments: object) -> list[object]:
    """A fairseq-train command line on the tiny data."""
    options = ("--user-dir", PLUGIN, *TINY_TRAINING, *TINY_MODEL, "--save-dir", save, "--no-epoch-checkpoints")
    return fairseq_train(data, *options, *arguments)


def start_and_wait(
    command: Sequence[object], log: Path, text: str = '"num_updates": "3"', *, fresh: bool = False
) -> Process:
    """Starts a training; returns when its log has the text."""
    log.write_text("")
    process = start_command(command, log, log, fresh=fresh)
    wait_until(lambda: text in log.read_text(), process, log)
    return process


def hydra(
    data: Path, save: Path, objective: str, *overrides: str, recipe: str = "masked_lm", embedding: str = ""
) -> list[object]:
    """A recipe with an objective, in tiny; ``embedding`` has the sizes that an ELECTRA needs beside."""
    tiny = (
        "common.cpu=true +model.encoder_layers=1 +model.encoder_embed_dim=32 +model.encoder_ffn_embed_dim=32 "
        "+model.encoder_attention_heads=2 task.tokens_per_sample=24 dataset.batch_size=4 dataset.num_workers=0 "
        "optimization.update_freq=[1] dataset.data_buffer_size=0 optimization.lr=[0.01] common.log_interval=1"
    )
    if recipe == "masked_lm":
        tiny += " common.fp16=false model.max_positions=64 lr_scheduler.warmup_updates=2"
    else:
        tiny += f" +model.max_positions=64 dataset.disable_validation=true {embedding}"
    return [
        *(sys.executable, "-m", "fairseq_cli.hydra_train", "--config-dir", RECIPES, "--config-name", recipe),
        f"objective={objective}",
        *(f"common.user_dir={PLUGIN}", f"task.data={data}", f"checkpoint.save_dir={save}", *tiny.split(), *overrides),
        *(f"hydra.run.dir={save}/hydra",),
    ]


def logged(output: str, name: str) -> list[dict[str, str]]:
    """The JSON lines that fairseq printed for "train_inner", "train" or "valid"."""
    return [json.loads(line) for line in re.findall(rf"\| {name} \| (\{{.*\}})", output)]


def content(checkpoint: Path) -> dict[str, Any]:
    # For good: at its end safe_globals() takes away what the plugin has allowed, too.
    torch.serialization.add_safe_globals([argparse.Namespace])
    return torch.load(checkpoint, weights_only=True)


def parameters(checkpoint: Path) -> dict[str, torch.Tensor]:
    return content(checkpoint)["model"]


def largest_difference(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    assert one.keys() == other.keys()
    return max(float((one[name] - other[name]).abs().max()) for name in one)


def assert_one_line(result: subprocess.CompletedProcess[str], message: str) -> None:
    assert result.returncode == 1
    lines = [line for line in result.stderr.splitlines() if "truneg_fairseq: error:" in line]
    assert len(lines) == 1, result.stderr
    assert message in lines[0]
    assert "Traceback" not in result.stderr + result.stdout


def assert_keys_are_known(recipe: dict[str, dict]) -> None:
    """hydra passes misspelt keys of plugins in silence: every key must be a field of what the recipe names."""
    from fairseq.dataclass.configs import FairseqConfig
    from fairseq.registry import REGISTRIES
    from fairseq.tasks import TASK_DATACLASS_REGISTRY

    import truneg_fairseq

    truneg_fairseq.register()
    registries = {name: each["dataclass_registry"] for name, each in REGISTRIES.items()}
    registries["task"] = TASK_DATACLASS_REGISTRY
    for group, values in recipe.items():
        if group in registries:
            fields = registries[group][values.pop("_name")].__dataclass_fields__
        else:
            fields = vars(FairseqConfig())[group].__dataclass_fields__
        assert values.keys() <= fields.keys(), group
