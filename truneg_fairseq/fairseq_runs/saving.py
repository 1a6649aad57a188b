"""Checkpoint files: whole or not there, and checked before a run continues from them.

torch.save writes a zip archive with a CRC-32 of every record, and torch.load does not compare them: a flipped bit in a
weight is loaded without a word. :func:`damage` compares them.
"""

from __future__ import annotations

import re
import shutil
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..errors import TrueNegError, reason
from ..files import replacing_file

LAST = "checkpoint_last.pt"
VOCABULARY = "vocabulary"
"""What the extra_state of a checkpoint calls the fingerprint of its dictionary."""
_NAMES = re.compile(r"checkpoint(_last|_best|\d+|_\d+_\d+|\.best_.+)\.pt")  # fairseq's own
_PARTS = re.compile(r"\.checkpoint.*\.pt\.[0-9a-f]+\.part")


def save(state: Any, path: Path) -> None:
    """Writes a checkpoint, at once or not at all; it has reached the disk when this returns.

    A link is replaced, not what it names: that may belong to another run.
    """
    import torch

    with replacing_file(path, durable=True, follow_link=False) as stream:
        torch.save(state, stream)


def copy(source: Path, target: Path) -> None:
    """Copies a checkpoint, at once or not at all."""
    with source.open("rb") as original, replacing_file(target, durable=True, follow_link=False) as stream:
        shutil.copyfileobj(original, stream, 1 << 20)


def damage(path: Path) -> str | None:
    """What is wrong with a checkpoint's bytes, or None. Files of torch < 1.6, which have no checksums, are loaded."""
    try:
        if not _is_zip(path):
            read_lazily(path)
            return None
        with zipfile.ZipFile(path) as archive:
            broken = archive.testzip()
    except Exception as error:  # a damaged archive has many ways to fail
        return f"cannot be read ({reason(error)})"
    return f"is damaged (wrong checksum of {broken})" if broken else None


def _is_zip(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(4) == b"PK\x03\x04"


def read_lazily(path: Path) -> Any:
    """What a checkpoint holds; its tensors are mapped from the file, not read. It may fail in any way."""
    import torch

    return torch.load(str(path), map_location="cpu", weights_only=True, mmap=_is_zip(path))


def require_whole(path: Path, flag: str) -> None:
    """Refuses a checkpoint to start from that is damaged, not safe to load, or another file."""
    problem = damage(path)
    try:
        if problem is None and not {"model", "optimizer_history"} <= set(read_lazily(path)):
            problem = "is not a checkpoint of fairseq"
    except Exception as error:  # other files fail to load in many ways
        problem = f"cannot be loaded ({reason(error)})"
    if problem is not None:
        raise TrueNegError(f"{flag} {path}: {problem}; expected a whole checkpoint of fairseq")


def updates_of(state: Any) -> int:
    """The number of updates that a checkpoint was written after; other files than fairseq's fail in any way."""
    return int(state["optimizer_history"][-1]["num_updates"])


def checkpoints_in(folder: Path) -> list[Path]:
    """The checkpoints that fairseq has written into a run's folder."""
    return sorted(path for path in folder.glob("checkpoint*.pt") if _NAMES.fullmatch(path.name))


def remove_leftovers(folder: Path) -> None:
    """Removes what is left of checkpoints whose writing was interrupted by a kill."""
    for path in folder.glob(".checkpoint*.part"):
        if _PARTS.fullmatch(path.name):
            path.unlink(missing_ok=True)


def choose_start(folder: Path, *, other_than: Iterable[Path] = ()) -> tuple[Path | None, str | None]:
    """The newest whole checkpoint where checkpoint_last.pt is damaged, or missing beside others; a line to log.

    (None, None) where fairseq's own rule holds: checkpoint_last.pt is whole, or the folder has no checkpoint at all.
    ``other_than`` names files that are not of this run, such as the model to fine-tune.
    """
    last = folder / LAST
    found = damage(last) if last.exists() else "is missing"
    if found is None:
        return None, None
    known, damaged = [], {last.name: found} if last.exists() else {}
    foreign = {path.resolve() for path in other_than}
    for path in checkpoints_in(folder):
        if path == last or path.resolve() in foreign:
            continue
        try:
            known.append((updates_of(read_lazily(path)), path))
        except Exception as error:
            damaged[path.name] = f"cannot be read ({reason(error)})"
    for updates, path in sorted(known, key=lambda pair: pair[0], reverse=True):
        problem = damage(path)
        if problem is None:
            return path, f"{last}: {found}; continuing from {path.name}, update {updates:,}"
        damaged[path.name] = problem
    if damaged:
        problems = "; ".join(f"{name} {problem}" for name, problem in damaged.items())
        raise TrueNegError(
            f"{folder}: no checkpoint of this run is whole ({problems}); put back a good one as {LAST}, or choose "
            "another --save-dir for a new run"
        )
    return None, None
