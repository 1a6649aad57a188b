"""``truneg train`` and ``truneg user-dir``: fairseq-train with this package; ``truneg wordnet`` installs WordNet."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from ..errors import one_line_errors, require
from ..trainer.stopping import let_signals_wait

_PACKAGE = str(Path(__file__).resolve().parents[1])


@dataclass
class NoOptions:
    """The command has none."""


def user_dir(options: NoOptions) -> None:
    """Print the folder to give to fairseq's --user-dir."""
    print(_PACKAGE)


def train(options: NoOptions) -> None:
    """Train: fairseq-train with this package; all that follows are its arguments."""
    become_fairseq_train([])


def wordnet(options: NoOptions) -> None:
    """Install WordNet 3.0 from NLTK's server, without root, and check it. It goes to the first folder of NLTK_DATA,
    else to nltk_data in the virtual environment, else in the home folder.
    """
    from ..synonyms.wordnet import install_wordnet

    print(f"WordNet: {install_wordnet(report=print)}")


def become_fairseq_train(arguments: Sequence[str]) -> NoReturn:
    """Goes on as fairseq-train in this process, whose signals and exit status it takes over."""
    with one_line_errors():
        require("fairseq", extra="fairseq")
    let_signals_wait()  # until the package is imported there
    os.environ.setdefault("PYTHONWARNINGS", "ignore")  # of hydra and torch: 20 lines before an error
    os.environ["PYTHONSAFEPATH"] = "1"  # -m would import from the current folder first
    os.execv(sys.executable, [sys.executable, "-m", "fairseq_cli.train", *arguments, "--user-dir", _PACKAGE])
