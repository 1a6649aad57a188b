"""Kills trainings, continues them, and compares what is left with an undisturbed run."""

from __future__ import annotations

import random
import shutil
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from .commands import PLUGIN, TINY_MODEL, TINY_TRAINING, fairseq_train, run_command, start_command
from .electra import ELECTRA_MODEL, ELECTRA_TRAINING

WORDPIECE = ("--tokenization", "wordpiece")
MASKED_LM = (*TINY_TRAINING, *TINY_MODEL)
OBJECTIVES: dict[str, Sequence[object]] = {
    "masked_lm": (*MASKED_LM, "--criterion", "masked_lm"),
    "hc": (*MASKED_LM, "--criterion", "masked_lm_hc", *WORDPIECE),
    "hc_sr_word_sr_sent": (
        *MASKED_LM,
        *("--criterion", "masked_lm_true_neg", "--hc-weight", 1, "--sr-word-weight", 1, "--sr-sent-weight", 1),
        *WORDPIECE,
    ),
    "electra_sr_sent_relabel": (
        *ELECTRA_TRAINING,
        *ELECTRA_MODEL,
        *("--sr-sent-weight", 1, "--discriminator-false-negatives", "relabel", *WORDPIECE),
    ),
    "model_synonyms": (
        *MASKED_LM,
        *("--criterion", "masked_lm_hc", "--synonym-source", "model", "--model-synonyms-warmup", 5),
        *("--model-synonyms-every", 10, "--model-synonyms-threshold", 0.2, *WORDPIECE),
    ),
}
MOMENTS = ("write", "training", "start")
_SAVING = (
    *("--save-interval-updates", 4, "--keep-interval-updates", 2, "--no-epoch-checkpoints", "--disable-validation"),
    *("--num-workers", 1, "--data-buffer-size", 0, "--log-format", "json", "--log-interval", 1),
)


@dataclass
class Outcome:
    """What became of a run: its kills, and how it differs from the undisturbed one."""

    kills: int = 0
    by_moment: Counter[str] = field(default_factory=Counter)
    inside_a_write: int = 0
    several_in_a_row: int = 0
    differences: list[str] = field(default_factory=list)


def training(data: Path, save: Path, *flags: object) -> list[object]:
    return fairseq_train(data, "--user-dir", PLUGIN, "--save-dir", save, *flags)


def kill_and_compare(data: Path, folder: Path, objective: Sequence[object], kills: int, seed: int = 1) -> Outcome:
    """Trains a model undisturbed, and another one that is killed again and again.

    Args:
        data: binarized, with a synonym table.
        folder: of both runs.
        objective: flags.
        kills: SIGKILLs at most; the run may finish before.
        seed: of the moments.

    Raises:
        AssertionError: a start after a kill fails.
    """
    flags = (*objective, *_SAVING, "--max-update", 8 + 6 * kills)
    whole, broken = folder / "whole", folder / "broken"
    run_command(training(data, whole, *flags))
    outcome, rng, last_start = Outcome(), random.Random(seed), None
    while outcome.kills < kills:
        log = folder / "log"
        log.write_text("")
        command = training(data, broken, *flags)
        process = start_command(command, log, log)
        moment = MOMENTS[outcome.kills % len(MOMENTS)]
        _wait_for(moment, process, log, broken, rng)
        if process.poll() is not None:
            assert process.poll() == 0, log.read_text()[-3000:]
            break
        process.kill()
        process.wait()
        outcome.kills += 1
        outcome.by_moment[moment] += 1
        outcome.inside_a_write += bool(list(broken.glob(".checkpoint*.part")))
        start = _newest_update(broken)
        outcome.several_in_a_row += start == last_start
        last_start = start
    run_command(training(data, broken, *flags))
    outcome.differences = differences(state_of(whole), state_of(broken))
    return outcome


def _wait_for(moment: str, process: Any, log: Path, folder: Path, rng: random.Random) -> None:
    deadline = time.monotonic() + 300
    if moment == "start":
        time.sleep(rng.uniform(0, 3))
        return
    updates = rng.randint(1, 9)
    while log.read_text().count('"num_updates"') < updates and process.poll() is None:
        assert time.monotonic() < deadline, log.read_text()[-3000:]
        time.sleep(0.005)
    if moment == "write":
        while process.poll() is None and not any(folder.glob(".checkpoint*.part")):
            assert time.monotonic() < deadline, log.read_text()[-3000:]
        time.sleep(rng.choice((0, rng.uniform(0, 0.02))))
    else:
        time.sleep(rng.uniform(0, 0.1))


def _newest_update(folder: Path) -> str:
    names = [path.name for path in folder.glob("checkpoint_[0-9]*_*.pt")]
    return max(names, key=lambda name: int(name.split("_")[2][:-3]), default="")


def state_of(folder: Path) -> dict[str, Any]:
    from argparse import Namespace

    torch.serialization.add_safe_globals([Namespace])
    state = torch.load(folder / "checkpoint_last.pt", weights_only=True)
    names = ("model", "criterion", "last_optimizer_state", "task_state")
    return {name: state[name] for name in names} | {"iterator": state["extra_state"]["train_iterator"]}


def differences(one: Any, other: Any, name: str = "") -> list[str]:
    """The names of what is not the same bit for bit."""
    if isinstance(one, torch.Tensor):
        same = isinstance(other, torch.Tensor) and one.dtype == other.dtype and torch.equal(one, other)
        return [] if same else [name]
    if isinstance(one, dict):
        if not isinstance(other, dict) or one.keys() != other.keys():
            return [name]
        return [line for key in one for line in differences(one[key], other[key], f"{name}/{key}")]
    if isinstance(one, list | tuple):
        if type(one) is not type(other) or len(one) != len(other):
            return [name]
        pairs = enumerate(zip(one, other, strict=True))
        return [line for place, pair in pairs for line in differences(*pair, f"{name}/{place}")]
    return [] if one == other else [name]


def kill_all(data: Path, folder: Path, names: Sequence[str], kills: int) -> dict[str, Outcome]:
    """:func:`kill_and_compare` for several objectives; prints a line each."""
    outcomes = {}
    for name in names:
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / name).mkdir(parents=True)
        started = time.monotonic()
        outcome = outcomes[name] = kill_and_compare(data, folder / name, OBJECTIVES[name], kills)
        moments = ", ".join(f"{moment} {count}" for moment, count in sorted(outcome.by_moment.items()))
        told = "bit-identical" if not outcome.differences else f"DIFFERS: {outcome.differences[:5]}"
        print(
            f"{name}: {outcome.kills} kills ({moments}; {outcome.inside_a_write} inside a write, "
            f"{outcome.several_in_a_row} before any new checkpoint): {told} ({time.monotonic() - started:.0f} s)",
            flush=True,
        )
    return outcomes
