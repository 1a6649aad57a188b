"""What a run was made with, kept beside its checkpoints: versions, revision, command, fingerprints of its inputs."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
import shlex
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from ..corpus_counts import FILE_NAME as ALTERNATIVES
from ..files import VERSION, replacing_text
from .preflight import data_folders, name_of, value_of

MANIFEST_NAME = "manifest.json"
_PACKAGES = ("fairseq-fixed", "torch", "numpy", "hydra-core", "omegaconf", "tokenizers", "nltk")
_BLOCK = 1 << 20
_FEATURES = ("features.npz", "texts.json")
_PLAIN = (int, float, str, type(None))  # numbers and texts of JSON


def versions() -> dict[str, str | None]:
    """Version by package, with Python and this package; None where one is not installed."""
    own = {"truneg_fairseq": VERSION, "python": platform.python_version()}
    return {**own, **{name: installed_version(name) for name in _PACKAGES}}


def installed_version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def revision() -> str | None:
    """The git revision of this package's checkout, "+" after it where files have changed; None outside a checkout."""
    repository = Path(__file__).resolve().parents[2]
    command = ["git", "-C", str(repository), "describe", "--always", "--dirty=+", "--abbrev=40", "--exclude=*"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
    return found if (repository / ".git").exists() else None


def sampled_fingerprint(path: Path) -> str:
    """SHA-256 (hex) of a file's size and of its first, middle and last MiB: of 20 GB in milliseconds.

    It tells another file, a shortened one or another order; a change elsewhere in a file of more than 3 MiB it misses.
    """
    size = path.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    with path.open("rb") as stream:
        for start in sorted({0, max(0, size // 2 - _BLOCK // 2), max(0, size - _BLOCK)}):
            stream.seek(start)
            digest.update(stream.read(_BLOCK))
    return digest.hexdigest()


def input_fingerprints(folders: Sequence[Path], files: Sequence[Path] = ()) -> dict[str, str]:
    """By absolute path: of dictionaries and splits (binarized, or SQuAD's features), one level deep, and of files."""
    names = ("dict.txt", "dict.*.txt", "*.bin", "*.idx")
    patterns = (*names, *(f"*/{name}" for name in (*names, *_FEATURES)))
    found = (sorted(folder.absolute().glob(pattern)) for folder in folders for pattern in patterns)
    paths = (*chain.from_iterable(found), *(path.absolute() for path in files))
    return {str(path): sampled_fingerprint(path) for path in paths if path.is_file()}


def _files_of_criterion(options: Any, data: Path = Path()) -> list[Path]:
    """What an objective reads beside the synonym table."""
    files = [Path(options[name]) for name in ("alternatives", "teacher", "hc_acceptance_model") if options.get(name)]
    if options.get("target_smoothing_corpus") and not options.get("alternatives"):
        files.append(data / ALTERNATIVES)
    return files


# The settings of the training that a report shows, by their groups; the criterion has them all.
_SETTINGS = {
    "common": ("seed", "fp16", "bf16"),
    "task": ("data", "tokens_per_sample", "mask_prob"),
    "dataset": ("batch_size", "max_tokens"),
    "optimization": ("max_epoch", "max_update", "lr", "update_freq"),
    "lr_scheduler": ("warmup_updates",),
    "checkpoint": ("finetune_from_model",),
}


def start_facts(trainer: Any) -> dict[str, Any]:
    """What a manifest keeps of one start, by fairseq's trainer."""
    cfg = trainer.cfg
    # Stock criterions have no objective, and not each objective a synonym table.
    objective = getattr(trainer.get_criterion(), "objective", None)
    table = getattr(getattr(objective, "pairs", None), "table", None)
    pairs = b"" if table is None else str(table.fingerprint).encode() + table.gold.tobytes() + table.synonym.tobytes()
    settings = {name: value_of(cfg, group, name) for group, names in _SETTINGS.items() for name in names}
    settings["arch"] = name_of(cfg, "model")
    settings["parameters"] = sum(parameter.numel() for parameter in trainer.get_model().parameters())
    criterion, folders = value_of(cfg, "criterion"), data_folders(cfg)
    files: list[Path] = []
    if criterion is not None and not isinstance(criterion, str):
        settings |= {name: criterion[name] for name in criterion if name not in ("_name", "tpu")}
        files = _files_of_criterion(criterion, *folders[:1])
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "host": socket.gethostname(),
        "command": shlex.join(sys.argv),
        "folder": str(Path.cwd()),
        "versions": versions(),
        "revision": revision(),
        "workers": trainer.data_parallel_world_size,
        "batches": {  # with the workers they decide which samples make an update
            "batch_size": cfg.dataset.batch_size,
            "max_tokens": cfg.dataset.max_tokens,
            "update_freq": list(cfg.optimization.update_freq),
        },
        **{group: name_of(cfg, group) for group in ("task", "model", "criterion", "optimizer")},
        "settings": {name: value if isinstance(value, _PLAIN) else str(value) for name, value in settings.items()},
        "inputs": input_fingerprints(folders, files),
        "synonym_table": hashlib.sha256(pairs).hexdigest() if pairs else None,
        "synonym_source": None if table is None else str(table.source),
    }


def read_manifest(folder: Path) -> list[dict[str, Any]]:
    """The starts of a run, oldest first; [] where it has no manifest."""
    path = folder / MANIFEST_NAME
    return list(json.loads(path.read_text(encoding="utf-8"))["starts"]) if path.exists() else []


def add_start(folder: Path, facts: dict[str, Any]) -> list[str]:
    """Adds a start to a run's manifest; what has changed since the last one, a line each."""
    starts = read_manifest(folder)
    with replacing_text(folder / MANIFEST_NAME) as stream:
        json.dump({"starts": [*starts, facts]}, stream, indent=1)
    return changes(starts[-1], facts) if starts else []


def changes(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What is not the same at a later start: a line for the inputs, the batches and the synonym table each."""
    since, lines = f"the start of {before['time']}", []
    # By name: data that have been moved are the same.
    old, new = (Counter((Path(path).name, found) for path, found in start["inputs"].items()) for start in (before, now))
    if changed := sorted({name for name, _ in old - new}):
        lines.append(f"the data differ from {since} ({', '.join(changed)})")
    was, is_now = ({**start["batches"], "workers": start["workers"]} for start in (before, now))
    if sizes := ", ".join(f"{name} {was[name]} -> {is_now[name]}" for name in was if is_now[name] != was[name]):
        lines.append(f"the batch size changed ({sizes}): some samples of this epoch may be repeated or skipped")
    if before["synonym_table"] != now["synonym_table"]:
        lines.append(f"the synonym table is another one than at {since}")
    return lines
