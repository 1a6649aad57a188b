"""``truneg train`` and ``truneg user-dir``: fairseq-train with this package; ``truneg wordnet`` installs WordNet."""

from __future__ import annotations

import logging
import os
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import NoReturn

from ..errors import TrueNegError, one_line_errors, require
from ..options import flag_of, range_of
from ..trainer.stopping import let_signals_wait

_WIDTH = 100
_RESEARCH = (
    "softmax_temperature",
    "loss_truncation",
    "sr_word_form",
    "tpu",
)
_PACKAGE = str(Path(__file__).resolve().parents[1])


@dataclass
class NoOptions:
    """The command has none."""


def user_dir(options: NoOptions) -> None:
    """Print the folder to give to fairseq's --user-dir."""
    print(_PACKAGE)


def train(options: NoOptions) -> None:
    """Train: fairseq-train with this package; all that follows are its arguments."""
    start([])


def start(words: Sequence[str]) -> None:
    """Trains, or shows the options of the criterion that is named."""
    given = [word.partition("=")[0] for word in words]
    if {"-h", "--help"} & {*given}:
        named = [word.partition("=")[2] or following for word, following in zip(words, [*words[1:], ""], strict=True)]
        _show_options(dict(zip(given, named, strict=True)).get("--criterion", "masked_lm_true_neg"))
    elif "--arch" in given or "-a" in given:
        become_fairseq_train(words)
    else:
        sys.exit(
            "truneg_fairseq: error: --arch: found none; expected a model, such as truneg train DATA-BIN --task "
            "masked_lm --arch truneg_bert_small --criterion masked_lm_hc ...; 'truneg train --help' has the options"
        )


def _show_options(criterion: str) -> None:
    """A line for each option of a criterion and what it does: first those of the paper and of the results."""
    with one_line_errors():
        require("fairseq", extra="fairseq")
        logging.basicConfig(level=logging.WARNING)
        from fairseq.criterions import CRITERION_DATACLASS_REGISTRY as REGISTRY

        from .. import register

        register()
        ours = [name for name, kind in REGISTRY.items() if kind.__module__.startswith(__name__.partition(".")[0])]
        if criterion not in ours:
            raise TrueNegError(f"--criterion {criterion}: expected one of {', '.join(ours)}")
    print(
        "usage: truneg train DATA-BIN --task TASK --arch ARCH --criterion CRITERION ...\n\n"
        f"fairseq-train with this package. 'fairseq-train --help' lists fairseq's own options (--arch, --lr).\n\n"
        f"Options of --criterion {criterion} (of others: truneg train --criterion NAME --help, one of\n"
        f"{textwrap.fill(', '.join(ours), _WIDTH)}):\n"
    )
    named = [each for each in fields(REGISTRY[criterion]) if each.metadata.get("help")]
    named.sort(key=lambda each: not each.name.endswith("_weight"))
    for is_research in (False, True):
        if is_research:
            print("\nFor research:\n")
        for each in named:
            if each.name.startswith(_RESEARCH) == is_research:
                range_ = f"; {found}" if (found := range_of(each)) else ""
                print(f"{flag_of(each.name)}  (default: {each.default}{range_})")
                print(
                    textwrap.fill(str(each.metadata["help"]), _WIDTH, initial_indent="    ", subsequent_indent="    ")
                )


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
