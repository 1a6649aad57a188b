"""Checks an installation, or the folder of a run, and says what is wrong."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from .errors import TrueNegError, check_torch, reason
from .trainer import checkpoints
from .trainer import folder as records

_WITH_FAIRSEQ = ("fairseq-fixed", "hydra-core", "omegaconf")


class Finding(NamedTuple):
    """One line of the diagnosis."""

    good: bool  # whether all is well
    text: str  # what was found, and where it is wrong what to do


def check_installation() -> Iterator[Finding]:
    """Python, the packages, fairseq's compiled parts, the plugin's registration and WordNet."""
    versions = records.versions()
    has_fairseq = versions["fairseq-fixed"] is not None
    for name, number in versions.items():
        if number is None and not has_fairseq and name in _WITH_FAIRSEQ:
            yield Finding(True, f"{name} is not installed: needed for training with fairseq (README: Installation)")
        elif name == "torch" and number is not None:
            yield _try(name, check_torch)
        else:
            yield Finding(number is not None, f"{name} {number or 'is not installed: pip install ' + name}")
    if has_fairseq:
        compiled = "fairseq.data.data_utils_fast"
        yield _try("fairseq's compiled parts", lambda: importlib.import_module(compiled) and "found")
        yield _try("the plugin", _register)
    yield _try("WordNet", _find_wordnet)


def _try(what: str, look: Callable[[], object]) -> Finding:
    try:
        return Finding(True, f"{what}: {look()}")
    except (Exception, SystemExit) as error:
        return Finding(False, f"{what}: {reason(error).removeprefix(f'{what} ')}")


def _register() -> str:
    from . import register

    register()
    import torch

    return f"registered; {torch.cuda.device_count()} GPUs"


def _find_wordnet() -> str:
    from .synonyms.wordnet import find_wordnet

    found = find_wordnet()
    if found is None:
        raise LookupError("not found; get it with 'truneg wordnet'")
    return str(found)


def check_run(folder: Path) -> Iterator[Finding]:
    """The checkpoints, manifest and inputs in a run's --save-dir, and whether a training is at work there."""
    if not folder.is_dir():
        raise TrueNegError(f"{folder}: no such folder; expected the --save-dir of a training")
    at_work = records.is_held(folder)
    if at_work:
        facts = records.holder(folder)
        yield Finding(True, f"process {facts.get('pid')} on {facts.get('host')} is training here")
    yield from _check_checkpoints(folder, at_work=at_work)
    yield from _check_manifest(folder)


def _check_checkpoints(folder: Path, *, at_work: bool) -> Iterator[Finding]:
    paths = checkpoints.checkpoints_in(folder)
    if not paths:
        yield Finding(False, "no checkpoint; expected a fairseq checkpoint, such as checkpoint_last.pt")
    elif folder / checkpoints.LAST not in paths:
        yield Finding(False, f"{checkpoints.LAST} is missing; the next start continues from the newest of the others")
    for path in paths:
        try:
            problem = checkpoints.damage(path)
            text = problem or f"whole, update {checkpoints.updates_of(checkpoints.read_lazily(path)):,}"
        except Exception as error:
            problem = text = f"is not a checkpoint of fairseq that is safe to load ({reason(error)})"
        yield Finding(
            problem is None, f"{path.name}: {text}{'; remove it, or put back a good copy' if problem else ''}"
        )
    for path in [] if at_work else checkpoints.leftovers_in(folder):
        yield Finding(False, f"{path.name}: left by a kill while it was written; the next start removes it")


def _check_manifest(folder: Path) -> Iterator[Finding]:
    starts = records.read_manifest(folder)
    if not starts:
        yield Finding(False, f"no {records.MANIFEST_NAME}: it was trained without this package")
        return
    last = starts[-1]
    yield Finding(True, f"{len(starts)} starts, the last one {last.get('time')} on {last.get('host')}")
    before = last.get("inputs", {})
    now = {path: records.sampled_fingerprint(Path(path)) for path in before if Path(path).is_file()}
    lines = records.changes(last, {**last, "inputs": now})
    yield from (Finding(False, line) for line in lines)
    if before and not lines:
        yield Finding(True, f"{len(before)} files of data: as they were at the last start")
    trained_with, here = last.get("versions", {}), records.versions()
    for name in ("truneg_fairseq", "fairseq-fixed", "torch"):
        if trained_with.get(name) != here.get(name):
            text = f"{name} {here.get(name)} is installed; the run was trained with {trained_with.get(name)}"
            yield Finding(False, text)
