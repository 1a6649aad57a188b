"""What a training keeps in its folder beside the checkpoints: a lock, a manifest and its metrics.

The manifest (``manifest.json``) says what a run was made with: versions, revision, command, fingerprints of its inputs.
The metrics (``metrics.jsonl``) are a line for each log interval, epoch and validation, with ``kind`` (train: since the
last line; epoch: its mean; valid), ``epoch``, ``num_updates``, ``subset`` (of a validation), ``time`` and ``values`` as
fairseq logs them; null is NaN or infinite. transformers' Trainer writes ``trainer_state.json``, with losses in nats.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import logging
import math
import os
import platform
import re
import shlex
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from ..corpus_counts import counts_beside
from ..errors import TrueNegError, installed_version
from ..files import VERSION, changes, files_below, replacing_text, sampled_fingerprint, without_nan, write_json, writing
from ..flags import flag_of
from ..registry import ALTERNATIVES, TERMS
from .preflight import data_folders, items_of, name_of, value_of

logger = logging.getLogger(__name__)

LOCK_NAME = ".training.lock"
MANIFEST_NAME = "manifest.json"
METRICS_NAME = "metrics.jsonl"
TRAINING = "training"

_HELD = (errno.EACCES, errno.EAGAIN)


def lock_folder(folder: Path) -> None:
    """Takes a POSIX record lock on a file of the folder.

    It ends with its process, however that ends. Processes that are forked from it do not inherit it, so workers that
    read data and outlive a kill by seconds do not hold it. Network file systems carry it between machines where their
    lock service runs (NFS, Lustre with -o flock, GPFS); where a file system has no locks, a warning says so.
    """
    import fcntl

    with writing(folder / LOCK_NAME):
        folder.mkdir(parents=True, exist_ok=True)
        # The file stays at the end: removing it would let two processes lock two files.
        file = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(file)
            if error.errno not in _HELD:
                logger.warning(f"{folder}: its file system has no locks ({error.strerror}); start one training there")
                return
            who = "another process"
            with contextlib.suppress(OSError, ValueError):  # it is being written
                who = "process {pid} on {host}".format(**json.loads((folder / LOCK_NAME).read_text()))
            raise TrueNegError(
                f"--save-dir {folder}: {who} is training there; wait for its end, or choose another folder"
            ) from None
        os.ftruncate(file, 0)
        os.write(file, json.dumps({"host": socket.gethostname(), "pid": os.getpid()}).encode() + b"\n")


def is_held(folder: Path) -> bool:
    """Whether a training is at work in a folder. Not to be asked by the process that has its lock."""
    import fcntl

    # A shared lock is refused where the training has its own, and may be asked for with permission to read alone.
    try:
        file = os.open(folder / LOCK_NAME, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in _HELD
    finally:
        os.close(file)
    return False


_PACKAGES = ("fairseq-fixed", "torch", "numpy", "hydra-core", "omegaconf", "tokenizers", "nltk")
_PLAIN = (int, float, str, type(None))  # numbers and texts of JSON


def versions() -> dict[str, str | None]:
    """Version by package, with Python and this package; None where one is not installed."""
    own = {"truneg_fairseq": VERSION, "python": platform.python_version()}
    return {**own, **{name: installed_version(name) for name in _PACKAGES}}


def revision() -> str | None:
    """The git revision of this package's checkout, "+" after it where files have changed; None outside a checkout."""
    repository = Path(__file__).resolve().parents[2]
    command = ["git", "-C", str(repository), "describe", "--always", "--dirty=+", "--abbrev=40", "--exclude=*"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
    return found if (repository / ".git").exists() else None


def input_fingerprints(folders: Sequence[Path], files: Sequence[Path] = ()) -> dict[str, str]:
    """By absolute path: of dictionaries and splits (binarized, or SQuAD's windows), one level deep, and of files."""
    names = ("dict.txt", "dict.*.txt", "*.bin", "*.idx", "*.npz")
    patterns = (*names, *(f"*/{name}" for name in names))
    found = (sorted(folder.absolute().glob(pattern)) for folder in folders for pattern in patterns)
    paths = (*chain.from_iterable(found), *(path.absolute() for path in files))
    return {str(path): sampled_fingerprint(path) for path in paths if path.is_file()}


_BATCHES = ("batch_size", "max_tokens", "update_freq", "workers")  # which samples make an update
# What decides a training's result, by groups of its configuration, beside all options of four others.
_SETTINGS = {
    "common": ("seed", "fp16", "bf16", "amp"),
    "dataset": ("batch_size", "max_tokens"),
    "model": ("dropout", "attention_dropout", "activation_dropout", "encoder_layerdrop"),
    "optimization": ("max_epoch", "max_update", "lr", "update_freq", "clip_norm", "sentence_avg"),
    "checkpoint": ("finetune_from_model",),
}
# Files are compared by their content, and batches apart; a run may go on, with a larger --max-update.
_NOT_COMPARED = {
    *("data", "synonym_table", "corpus_counts", "teacher", "finetune_from_model"),
    *(*_BATCHES, "cuda_graphs", "max_epoch", "max_update"),
}


def _settings_of(cfg: Any) -> dict[str, Any]:
    """The options that decide a training's result, by name."""
    known = {name: value_of(cfg, group, name) for group, names in _SETTINGS.items() for name in names}
    for group in ("task", "criterion", "optimizer", "lr_scheduler"):
        names = items_of(value_of(cfg, group)).keys() - {"_name", "tpu"}
        known |= {name: value_of(cfg, group, name) for name in sorted(names)}
    if name_of(cfg, "lr_scheduler") == "electra_linear":
        known["total_num_update"] = known["total_num_update"] or cfg.optimization.max_update
    plain = {name: value if isinstance(value, _PLAIN) else str(value) for name, value in known.items()}
    return {"arch": name_of(cfg, "model"), **plain}


def start_facts(trainer: Any) -> dict[str, Any]:
    """What a manifest keeps of one start, by fairseq's trainer."""
    cfg = trainer.cfg
    # Stock criterions have no objective, and not each objective a synonym table.
    objective = getattr(trainer.get_criterion(), "objective", None)
    table = getattr(objective, "table", None)
    pairs = b"" if table is None else str(table.fingerprint).encode() + table.gold.tobytes() + table.synonym.tobytes()
    parameters = sum(parameter.numel() for parameter in trainer.get_model().parameters())
    criterion, folders = items_of(value_of(cfg, "criterion")), data_folders(cfg)
    names = ("corpus_counts", "teacher", "hc_acceptance_model")
    files = [Path(path) for name in names if (path := criterion.get(name))]
    options = None if objective is None else objective.options
    sources, terms = ({}, {}) if options is None else (options.sources, options.weights_of_terms)
    if "corpus" in sources and not criterion.get("corpus_counts"):
        files += map(counts_beside, folders[:1])
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "host": socket.gethostname(),
        "command": shlex.join(sys.argv),
        "versions": versions(),
        "revision": revision(),
        **{group: name_of(cfg, group) for group in ("task", "model", "criterion", "optimizer")},
        "settings": {"parameters": parameters, "workers": trainer.data_parallel_world_size, **_settings_of(cfg)},
        "inputs": input_fingerprints(folders, files),
        "synonym_table": hashlib.sha256(pairs).hexdigest() if pairs else None,
        "synonym_source": None if table is None else str(table.source),
        "ideas": ALTERNATIVES.digests(sources) | TERMS.digests(terms),
    }


def read_manifest(folder: Path) -> list[dict[str, Any]]:
    """The starts of a run, oldest first; [] where it has no manifest."""
    path = folder / MANIFEST_NAME
    return list(json.loads(path.read_text(encoding="utf-8"))["starts"]) if path.exists() else []


def add_start(folder: Path, facts: dict[str, Any]) -> list[str]:
    """Adds a start to a run's manifest, with ``changes``: what is not as at the last one, a line each; returns them."""
    starts = read_manifest(folder)
    found = describe_changes(starts[-1], facts) if starts else []
    write_json(folder / MANIFEST_NAME, {"starts": [*starts, {**facts, "changes": found}]})
    return found


def describe_changes(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What is not the same at a later start, in lines: the inputs, the batches, the synonym table, each option."""
    since, lines = f"the start of {before['time']}", []
    # By name: data that have been moved are the same.
    old, new = (Counter((Path(path).name, found) for path, found in start["inputs"].items()) for start in (before, now))
    if others := sorted({name for name, _ in old - new}):
        lines.append(f"the data differ from {since} ({', '.join(others)})")
    changed = changes({**now["settings"], **before["settings"]}, now["settings"])
    if sizes := ", ".join(f"{name} {was} -> {is_now}" for name, was, is_now in changed if name in _BATCHES):
        lines.append(f"the batch size changed ({sizes}): some samples of this epoch may be repeated or skipped")
    is_idea = now.get("ideas", {})
    lines += [
        f"{idea.name} has other code or data than at {since}"
        for idea in changes({**is_idea, **before.get("ideas", {})}, is_idea)
    ]
    if before["synonym_table"] != now["synonym_table"]:
        lines.append(f"the synonym table is another one than at {since}")
    lines += [
        f"{flag_of(name)} changed from {was} to {is_now} since {since}: updates before and after have different options"
        for name, was, is_now in changed
        if name not in _NOT_COMPARED
    ]
    return lines


_STATE_NAME = "trainer_state.json"
_NO_MEASURE = re.compile("^(step|epoch|learning_rate|grad_norm|total_flos|train_.*)$|runtime|per_second")

Series = dict[tuple[str, str], dict[int, float]]
"""Value by update, by stage (:data:`TRAINING` or a validation set) and quantity."""


def keep_lines(folder: Path, *, until: int, validated: bool = True) -> None:
    """Drops metrics after the update that a run continues from, whose validation may have been interrupted."""
    lines = [line for line in read_metrics(folder) if line["num_updates"] <= until]
    if (folder / METRICS_NAME).exists():
        with replacing_text(folder / METRICS_NAME) as stream:
            kept = (line for line in lines if validated or (line["kind"], line["num_updates"]) != ("valid", until))
            stream.writelines(f"{json.dumps(line)}\n" for line in kept)


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


def transformers_updates(checkpoint: Path) -> int:
    """The updates of a checkpoint of transformers' Trainer; 0 for any other model."""
    state = checkpoint / _STATE_NAME
    return int(json.loads(state.read_bytes())["global_step"]) if state.exists() else 0


def _read_transformers(folder: Path) -> Iterator[dict[str, Any]]:
    """The log of transformers' Trainer, of the newest checkpoint in its output folder, in the same form."""
    states = [json.loads(path.read_bytes()) for path in files_below(folder, _STATE_NAME)]
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
