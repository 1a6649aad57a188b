"""The parser of every command: numbers have bounds, and a wrong name of a command is answered with the nearest one."""

from __future__ import annotations

import argparse
import difflib
import math
import re
import sys
from typing import Any, NoReturn

from ..parallel import MOST_PROCESSES

LARGEST_NUMBER = 2**31 - 1


class Parser(argparse.ArgumentParser):
    """A parser whose whole numbers are 0 to :data:`LARGEST_NUMBER` and whose other numbers are finite."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.register("type", int, whole_number)
        self.register("type", float, finite_number)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Takes no unknown argument; the usage shown is that of the command that has it, not of ``truneg``."""
        self._arguments = sys.argv[1:] if args is None else list(args)
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self._refuse(unknown)
        return parsed, unknown

    def _refuse(self, unknown: list[str]) -> NoReturn:
        flag = unknown[0].partition("=")[0]
        near = difflib.get_close_matches(flag, self._option_string_actions, n=1) if flag.startswith("--") else []
        hint = f"; did you mean {near[0]}?" if near else ""
        self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")

    def error(self, message: str) -> NoReturn:
        """Ends with exit code 2, and with the nearest of the choices where one is misspelt."""
        found = re.fullmatch(r"(.*invalid choice: '(.*?)') \(choose from (.*)\)", message, re.DOTALL)
        if found:
            # argparse takes the value of a misspelt flag for the name of a command.
            before = self._arguments[: self._arguments.index(found[2])] if found[2] in self._arguments else []
            if before and before[-1].startswith("--") and self._get_option_tuples(before[-1]) == []:
                self._refuse(before[-1:])
            choices = [choice.strip(" '") for choice in found[3].split(",")]
            near = difflib.get_close_matches(found[2], choices, n=1)
            if near:
                message = f"{found[1]}; did you mean {near[0]!r}? (choose from {', '.join(choices)})"
        super().error(message)


def add_cpu(parser: argparse.ArgumentParser) -> None:
    """Adds ``--cpu``."""
    parser.add_argument("--cpu", action="store_true", help="use the CPU only")


def add_traceback_flag(parser: argparse.ArgumentParser) -> None:
    """Adds ``--traceback``, which may stand before or behind the name of a command."""
    parser.add_argument(
        "--traceback", action="store_true", default=argparse.SUPPRESS, help="show where in the code an error arose"
    )


def whole_number(text: str) -> int:
    """An argument that is a whole number; every seed of numpy and torch is one of these.

    Raises:
        argparse.ArgumentTypeError: it is none, or out of the bounds.
    """
    # int() refuses more than 4,300 digits with advice for programmers.
    if re.fullmatch(r"\d{1,10}", text.strip()) is None or int(text) > LARGEST_NUMBER:
        raise argparse.ArgumentTypeError(f"{text[:40]!r}: expected a whole number from 0 to {LARGEST_NUMBER}")
    return int(text)


def process_count(text: str) -> int:
    """An argument that is a number of processes.

    Raises:
        argparse.ArgumentTypeError: it is none, or out of the bounds.
    """
    count = whole_number(text)
    if count > MOST_PROCESSES:
        raise argparse.ArgumentTypeError(f"{count}: expected a number of processes from 0 to {MOST_PROCESSES}")
    return count


def finite_number(text: str) -> float:
    """An argument that is a number.

    Raises:
        argparse.ArgumentTypeError: it is none, NaN or infinite.
    """
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"{text[:40]!r}: expected a finite number")
    return number
