"""The models of a command line, and their names in results."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ..errors import TrueNegError

_GENERIC = re.compile(r"checkpoint.*|model.*|train|runs|seed-\d+")  # names that no person chose


class NamedModel(NamedTuple):
    """A model of a command line."""

    name: str  # in tables and results
    path: Path
    seed: int = 1  # of its training
    counts: bool = False  # whether it is mixed with --corpus-counts


def named_models(arguments: Sequence[str], seed: int | None = None) -> list[NamedModel]:
    """The models of a command line, each ``[NAME=]PATH``; the seed is the path's own (``seed-2``) unless one is given.

    Two that would have the same name and seed get the last part of their paths too.
    """
    found = []
    for argument in arguments:
        name, separator, rest = argument.partition("=")
        if not separator or Path(argument).exists():  # folders may be called lr=0.1
            name, rest = "", argument
        path = Path(rest)
        found.append(NamedModel(name or default_name(path), path, seed_of(path) if seed is None else seed))
    keys = [(model.name, model.seed) for model in found]
    found = [
        model._replace(name=f"{model.name}/{model.path.stem}") if keys.count((model.name, model.seed)) > 1 else model
        for model in found
    ]
    if len({(model.name, model.seed) for model in found}) < len(found):
        raise TrueNegError(f"{found[0].path}: two models have the same name; expected different ones, as NAME=PATH")
    return found


def default_name(path: Path) -> str:
    """A model's name in tables and results: that of its file or folder, or of the first folder above it that is named
    by a person (``arm`` of ``runs/arm/seed-1/train/model.pt``, ``run`` of ``run/checkpoint_best.pt``).
    """
    whole = path.absolute()
    parts = [whole.stem if whole.suffix == ".pt" else whole.name, *(parent.name for parent in whole.parents)]
    return next((part for part in parts if part and not _GENERIC.fullmatch(part)), parts[0])


def seed_of(path: Path) -> int:
    """The seed in the path of a training (``runs/arm/seed-2/train/model.pt``); 1 where it has none."""
    found = [match[1] for part in path.absolute().parts if (match := re.fullmatch(r"seed-(\d{1,9})", part))]
    return int(found[-1]) if found else 1
