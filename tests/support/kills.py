"""Kills trainings, continues them, and compares what is left with an undisturbed run."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from truneg_fairseq import register
from truneg_fairseq.fairseq_runs.folder import read_metrics

from . import glue_files, squad_examples
from .cli_runs import content
from .commands import (
    ELECTRA_MODEL,
    ELECTRA_TRAINING,
    PLUGIN,
    TINY_MODEL,
    TINY_TRAINING,
    command_environment,
    fairseq_train,
    run_command,
    start_command,
    truneg,
    wait_until,
)

WORDPIECE = ("--tokenization", "wordpiece")
MASKED_LM = (*TINY_TRAINING, *TINY_MODEL)
TRUE_NEG = ("--criterion", "masked_lm_true_neg")
OBJECTIVES: dict[str, Sequence[object]] = {
    "masked_lm": (*MASKED_LM, "--criterion", "masked_lm"),
    "hc": (*MASKED_LM, "--criterion", "masked_lm_hc", *WORDPIECE),
    "hc_sr_word_sr_sent": (
        *(*MASKED_LM, *TRUE_NEG, "--hc-weight", 1, "--sr-word-weight", 1, "--sr-sent-weight", 1, *WORDPIECE),
    ),
    "electra_sr_sent_relabel": (
        *(*ELECTRA_TRAINING, *ELECTRA_MODEL, *WORDPIECE),
        *("--sr-sent-weight", 1, "--discriminator-false-negatives", "relabel"),
    ),
    "detectors": (
        *(*MASKED_LM, *TRUE_NEG, "--hc-weight", 1, "--hc-detector", "table+embedding+context"),
        *("--hc-threshold", 0, *WORDPIECE),
    ),
    "soft_targets": (*MASKED_LM, *TRUE_NEG, "--soft-targets", "table=0.1", *WORDPIECE),
}
MOMENTS = ("write", "training", "start")
_SAVING = (
    *("--save-interval-updates", 4, "--keep-interval-updates", 2, "--no-epoch-checkpoints"),
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
    """Trains a model undisturbed, and another one that gets ``kills`` SIGKILLs, fewer if it ends before."""
    flags = (*objective, *_SAVING, "--disable-validation", "--max-update", 8 + 6 * kills)
    whole, broken = folder / "whole", folder / "broken"
    run_command(training(data, whole, *flags))
    outcome, rng, last_start = Outcome(), random.Random(seed), None
    log = folder / "log"
    while outcome.kills < kills:
        log.write_text("")
        process = start_command(training(data, broken, *flags), log, log)
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
        names = [path.name for path in broken.glob("checkpoint_[0-9]*_*.pt")]
        start = max(names, key=lambda name: int(name.split("_")[2][:-3]), default="")
        outcome.several_in_a_row += start == last_start
        last_start = start
    run_command(training(data, broken, *flags))
    outcome.differences = differences(state_of(whole), state_of(broken))
    return outcome


def _wait_for(moment: str, process: Any, log: Path, folder: Path, rng: random.Random) -> None:
    if moment == "start":
        time.sleep(rng.uniform(0, 3))
        return
    updates = rng.randint(1, 9)
    wait_until(lambda: process.poll() is not None or log.read_text().count('"num_updates"') >= updates, log=log)
    if moment == "write":
        while process.poll() is None and not any(folder.glob(".checkpoint*.part")):
            pass  # a write takes some milliseconds
        time.sleep(rng.choice((0, rng.uniform(0, 0.02))))
    else:
        time.sleep(rng.uniform(0, 0.1))


def state_of(folder: Path) -> dict[str, Any]:
    state = content(folder / "checkpoint_last.pt")
    names = ("model", "criterion", "last_optimizer_state", "task_state")
    return {name: state[name] for name in names} | {"iterator": state["extra_state"]["train_iterator"]}


def left_behind(folder: Path) -> dict[str, Any]:
    """All checkpoints, and the lines of the metrics without times."""
    timed = re.compile("^(ups|wps|wall|train_wall|gb_free|.*time.*)$")
    lines = list(read_metrics(folder))
    for line in lines:
        del line["time"]
        line["values"] = {name: value for name, value in line["values"].items() if not timed.match(name)}
    states = {path.name: content(path) for path in folder.glob("checkpoint*.pt")}
    for state in states.values():
        extra = state.pop("extra_state")
        state["optimizer_history"] = state["optimizer_history"][-1:]  # it has an entry for each start
        state |= {name: extra[name] for name in ("train_iterator", "val_loss", "best", "unfinished") if name in extra}
    kept = ("model", "last_optimizer_state", "optimizer_history", "train_iterator", "val_loss", "best", "unfinished")
    return {"lines": lines, **{name: {each: state.get(each) for each in kept} for name, state in states.items()}}


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


def _prepare(folder: Path, kind: str) -> None:
    register()
    if kind == "glue":
        data = glue_files.write_data(folder)
        glue_files.write_glue(folder, data, ["CoLA"])
        glue_files.write_model(folder, data)
    else:
        data = squad_examples.write_data(folder / "data-bin")
        squad_examples.prepare(folder, data)
        glue_files.write_model(folder, data, max_position_embeddings=24)


FINE_TUNINGS: dict[str, tuple[str, Sequence[object]]] = {  # the folder of data, and flags
    "glue": ("glue", ("--seeds", 1, 2, "--batch-size", 4)),
    "squad": ("features", ("--seeds", 1, "--batch-size", 8)),
}


def _fine_tuning(kind: str, folder: Path, output: Path) -> list[object]:
    data, flags = FINE_TUNINGS[kind]
    files = (folder / "small.pt", "--prepared", folder / data, "--output", output)
    return truneg("finetune", *files, "--epochs", 3, "--keep-models", "--cpu", *flags)


def _results(folder: Path) -> dict[str, Any]:
    """Metrics and parameters; time and memory differ from run to run."""
    lines = [json.loads(line) for path in folder.rglob("results.jsonl") for line in path.read_text().splitlines()]
    models = {str(path.relative_to(folder)): content(path)["model"] for path in folder.rglob("model.pt")}
    return {"metrics": [(line["task"], line["seed"], line["metrics"]) for line in lines], **models}


def kill_fine_tuning(kind: str, folder: Path, kills: int) -> Outcome:
    """Runs a command undisturbed, and again and again with kills at any moment; every one that ends is compared.

    Every second kill is of the first process alone, as the kernel kills where memory ends; the others are of all.
    """
    rng, outcome = random.Random(1), Outcome()
    (folder / "input").mkdir(parents=True)
    _prepare(folder / "input", kind)
    started = time.monotonic()
    _run(_fine_tuning(kind, folder / "input", folder / "whole"), folder / "log", None, alone=False)
    seconds, whole, in_a_row = time.monotonic() - started, _results(folder / "whole"), 0
    assert whole
    while outcome.kills < kills or in_a_row:
        alone = outcome.kills % 2 == 1
        limit = rng.uniform(0, 1.1 * seconds) if outcome.kills < kills else None
        killed = _run(_fine_tuning(kind, folder / "input", folder / "broken"), folder / "log", limit, alone=alone)
        outcome.kills += killed
        outcome.by_moment["first process" if alone else "all processes"] += killed
        outcome.several_in_a_row += killed and in_a_row > 0
        in_a_row = in_a_row + 1 if killed else 0
        if not killed:
            outcome.differences += differences(whole, _results(folder / "broken"))
            shutil.rmtree(folder / "broken")
    return outcome


def _run(command: Sequence[object], log: Path, limit: float | None, *, alone: bool) -> bool:
    """Whether it was killed, after ``limit`` seconds; else it ended by itself."""
    with log.open("wb") as stream:
        process = subprocess.Popen(
            list(map(str, command)), stdout=stream, stderr=stream, env=command_environment(), start_new_session=True
        )
    try:
        process.wait(limit)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL) if alone else os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return True
    assert process.returncode == 0, log.read_text()[-3000:]
    return False


def kill_all(data: Path, folder: Path, names: Sequence[str], kills: int) -> dict[str, Outcome]:
    """:func:`kill_and_compare` and :func:`kill_fine_tuning` for several names; prints a line each."""
    outcomes = {}
    for name in names:
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / name).mkdir(parents=True)
        started = time.monotonic()
        if name in OBJECTIVES:
            outcome = kill_and_compare(data, folder / name, OBJECTIVES[name], kills)
        else:
            outcome = kill_fine_tuning(name, folder / name, kills)
        outcomes[name] = outcome
        moments = ", ".join(f"{moment} {count}" for moment, count in sorted(outcome.by_moment.items()))
        told = "bit-identical" if not outcome.differences else f"DIFFERS: {outcome.differences[:5]}"
        print(
            f"{name}: {outcome.kills} kills ({moments}; {outcome.inside_a_write} inside a checkpoint's write, "
            f"{outcome.several_in_a_row} before anything new was saved or ended): {told} "
            f"({time.monotonic() - started:.0f} s)",
            flush=True,
        )
    return outcomes
