"""``truneg doctor``: checks an installation and says what is wrong."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ..errors import check_torch, reason


@dataclass
class DoctorOptions:
    """The command has none."""


def doctor(options: DoctorOptions) -> None:
    """Check the installation and say what is wrong."""
    wrong = 0
    for finding in check_installation():
        print(f"{'ok   ' if finding.good else 'WRONG'}  {finding.text}", flush=True)
        wrong += not finding.good
    if wrong:
        print(f"{wrong} {'problem' if wrong == 1 else 'problems'} found")
        sys.exit(1)


_WITH_FAIRSEQ = ("fairseq-fixed", "hydra-core", "omegaconf")


class Finding(NamedTuple):
    """One line of the diagnosis."""

    good: bool  # whether all is well
    text: str  # what was found, and where it is wrong what to do


def check_installation() -> Iterator[Finding]:
    """Python, the packages, fairseq's compiled parts, the plugin's registration and WordNet."""
    from ..trainer.folder import versions as installed

    versions = installed()
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
    from .. import register

    register()
    import torch

    return f"registered; {torch.cuda.device_count()} GPUs"


def _find_wordnet() -> str:
    from ..synonyms.wordnet import find_wordnet

    found = find_wordnet()
    if found is None:
        raise LookupError("not found; get it with 'truneg wordnet'")
    return str(found)
