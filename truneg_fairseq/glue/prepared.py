"""A task's prepared folder, checked before it is used: what ``info.json`` says is there, and there whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..data.indexed import require_whole
from ..errors import TrueNegError
from ..finetuning.data import INFO_FILE, read_info
from ..vocabulary import SPECIAL_SYMBOLS, fingerprint, read_symbols
from .files import TASKS, TaskFormat


def check_folder(task: TaskFormat, folder: Path) -> dict[str, Any]:
    """The description of a task's prepared folder, to train on and to score on."""
    if not folder.is_dir():
        raise TrueNegError(
            f"{folder}: no such folder; expected {task.name} prepared by 'truneg data prepare-glue' "
            "(or leave it out of --tasks)"
        )
    info = read_info(folder)
    if info.get("task") != task.name:
        raise TrueNegError(f"{folder}: has the task {info.get('task')}, expected {task.name}; prepare it again")
    labels = _labels(folder / "label" / "dict.txt")
    if not info.get("labels") == labels == list(task.labels):
        raise TrueNegError(
            f"{folder}: has the labels {', '.join(labels) or 'none (scores)'}, expected "
            f"{', '.join(task.labels) or 'none (scores)'} of {task.name}; prepare it again"
        )
    splits = info.get("splits", {})
    for split in ("train", *(name for name, _ in task.files if name.startswith("valid"))):
        if split not in splits:
            raise TrueNegError(f"{folder}: has no split {split}; expected one to train and to score on")
    if fingerprint(read_symbols(folder / "input0" / "dict.txt")) != info["vocabulary"]:
        raise TrueNegError(
            f"{folder / 'input0' / 'dict.txt'}: is not the dictionary that the data were made with; prepare them again"
        )
    for split in splits:
        check_split(folder, split)
    return info


def check_split(folder: Path, split: str) -> None:
    """Refuses a split of which a sentence or the labels are missing, as an interrupted copy leaves it.

    A folder without ``info.json``, which 'truneg data prepare-glue' has not made, passes.
    """
    if not (folder / INFO_FILE).is_file():
        return
    info = read_info(folder)
    task = TASKS.get(str(info.get("task")))
    counts = info.get("splits", {}).get(split)
    if task is None or counts is None:
        raise TrueNegError(
            f"{folder}: {INFO_FILE} has no split {split} of a GLUE task; expected data of 'truneg data prepare-glue'"
        )
    expected = int(counts["examples"])
    parts = [f"input{number}" for number in range(len(task.texts))]
    if not split.startswith("test") and not task.regression:
        parts.append("label")
    for part in parts:
        _check_items(folder / part / split, expected)
    if not split.startswith("test") and task.regression:
        _check_scores(folder / "label" / f"{split}.label", expected)


def _check_items(prefix: Path, expected: int) -> None:
    """fairseq's two files: whole, and as many items as there are examples."""
    found = require_whole(prefix, again="prepare the task again")
    if found != expected:
        raise TrueNegError(f"{prefix}: has {found:,} examples, expected {expected:,}; prepare the task again")


def _check_scores(path: Path, expected: int) -> None:
    try:
        found = len(path.read_text(encoding="utf-8").split())
    except (OSError, UnicodeDecodeError):
        raise TrueNegError(f"{path}: cannot be read; expected {expected:,} scores; prepare the task again") from None
    if found != expected:
        raise TrueNegError(f"{path}: has {found:,} scores, expected {expected:,}; prepare the task again")


def _labels(path: Path) -> list[str]:
    if not path.is_file():
        return []
    return [symbol for symbol in read_symbols(path) if symbol not in SPECIAL_SYMBOLS]
