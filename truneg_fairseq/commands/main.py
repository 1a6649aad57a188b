"""The ``truneg`` command: :data:`COMMANDS` is the tree of its subcommands.

A command is a function of one dataclass of options (:mod:`..options`); its docstring is the help. Modules of commands
import fairseq and torch inside functions only, so that ``truneg --help`` answers at once.
"""

from __future__ import annotations

import argparse
import gc
import inspect
import io
import logging
import sys
import traceback
import warnings
from collections.abc import Sequence

from .. import __version__
from ..errors import describe
from ..launch.process import exit_on_signals
from . import compare, data, evaluate, synonyms
from . import train as training
from .parser import Command, add_command, drop_stdout

TRACEBACK = "--traceback"
COMMANDS: dict[str, Command] = {
    "wordnet": training.wordnet,
    "doctor": data.doctor,
    "data": data.COMMANDS,
    "synonyms": synonyms.COMMANDS,
    "convert": data.convert,
    "train": training.train,
    "experiment": training.experiment,
    "finetune": training.finetune,
    "user-dir": training.user_dir,
    "evaluate": evaluate.evaluate,
    "predict": training.predict,
    "score": evaluate.score,
    "explain": evaluate.explain,
    "compare": compare.compare,
}
"""In the order of the work: preparing, training, measuring, showing."""


def build_parser() -> argparse.ArgumentParser:
    """The parser of the whole command."""
    parser = argparse.ArgumentParser(
        prog="truneg",
        description="Train masked language models on true negatives, see their mistakes, and measure whether it helps.",
    )
    parser.add_argument("--version", action="version", version=f"truneg_fairseq {__version__}")
    parser.add_argument(TRACEBACK, action="store_true", help="show where in the code an error arose; of any command")
    add_command(parser, COMMANDS)
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of ``truneg``; exits with 1 and one line on a user's error, with 2 on a wrong command line."""
    words = sys.argv[1:] if argv is None else [*argv]
    if words[:1] == ["train"]:
        return training.start(words[1:])
    parser = build_parser()
    if words in ([], ["help"]):
        return parser.print_help()
    _run(parser, words)


def run_as_script(command: Command, argv: Sequence[str] | None = None) -> None:
    """Runs one command as a stand-alone script (data-bin-scripts/ and user_dir_examples/)."""
    parser = argparse.ArgumentParser(description=inspect.getdoc(command))
    add_command(parser, command)
    _run(parser, sys.argv[1:] if argv is None else [*argv])


def _run(parser: argparse.ArgumentParser, words: list[str]) -> None:
    """Every command ends here, and nothing but ``--traceback``, anywhere among the words, shows where in the code an
    error arose.
    """
    args = parser.parse_args([word for word in words if word != TRACEBACK])
    # Before fairseq is imported: its import would make the root logger print other packages' INFO and DEBUG lines.
    logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.WARNING)
    logging.getLogger("truneg_fairseq").setLevel(logging.INFO)
    if not sys.warnoptions:
        warnings.simplefilter("ignore")  # this package logs what it warns of; these are other packages'
    if sys.stdout is None:  # as `truneg ... >&-` has it
        sys.exit("truneg_fairseq: error: stdout: is closed; expected an open one, such as /dev/null")
    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal in ASCII or Latin-1 gets "?" for what it lacks
        sys.stdout.reconfigure(errors="replace")
    try:
        with exit_on_signals():
            args.run(args)
        sys.stdout.flush()
    except KeyboardInterrupt:
        gc.freeze()  # or Python's end would search all of torch and fairseq for garbage: a second and more
        sys.exit(130)
    except BrokenPipeError:  # `truneg synonyms show ... | head`
        drop_stdout()
        sys.exit(141)
    except Exception as error:
        if TRACEBACK in words:
            traceback.print_exc()
        sys.exit(f"truneg_fairseq: error: {describe(error)}")
