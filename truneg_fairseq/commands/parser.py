"""The parser of ``truneg``: made from functions and the dataclasses of their options."""

from __future__ import annotations

import argparse
import difflib
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, Union, get_type_hints

from ..options import add_arguments, from_arguments

Command: TypeAlias = Union[Callable[[Any], None], "Mapping[str, Any]"]
"""A function whose only parameter is annotated with a dataclass of options, or such functions by their names.

A function's docstring is its help. A folder of commands may stand under "" in its own mapping: its help.
"""


class Parser(argparse.ArgumentParser):
    """argparse's, which asks "did you mean" for a command, a choice or a flag that does not exist."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            meant = _alike(str(value), map(str, action.choices))
            known = ", ".join(map(str, action.choices))
            raise argparse.ArgumentError(action, f"invalid choice: {value!r}{meant} (choose from {known})")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        found, unknown = super().parse_known_args(args, namespace)
        for word in unknown:
            flag = word.partition("=")[0]
            if flag.startswith("--") and (meant := _alike(flag, self._option_string_actions)):
                self.error(f"unrecognized argument: {flag}{meant}")
        return found, unknown


def _alike(word: str, known: Iterable[str]) -> str:
    alike = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {alike[0]}?" if alike else ""


def add_command(parser: argparse.ArgumentParser, command: Command) -> None:
    """Adds the arguments of a command, or its subcommands; the parsed ``run`` is called with the parsed arguments."""
    add_traceback_flag(parser)
    if isinstance(command, Mapping):
        add_commands(parser, command)
        return
    (parameter,) = inspect.signature(command).parameters
    kind = get_type_hints(command)[parameter]
    add_arguments(parser, kind)
    parser.set_defaults(run=lambda arguments: command(from_arguments(kind, arguments)))


def add_commands(parser: argparse.ArgumentParser, commands: Mapping[str, Command], *, listed: bool = True) -> None:
    """Adds subcommands; ``--help`` names those that are ``listed``."""
    hidden: dict[str, Any] = {} if listed else {"help": argparse.SUPPRESS}  # no empty section
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND", prog=parser.prog, **hidden)
    for name, command in commands.items():
        if not name:
            continue
        text = description_of(command)
        shown: dict[str, Any] = {"help": summary_of(command).replace("%", "%%")} if listed else {}
        subparser = subparsers.add_parser(name, description=text, **shown)
        add_command(subparser, command)


def description_of(command: Command) -> str:
    """The help of a command: a function's docstring, or what a mapping holds under ""."""
    text = command.get("", "") if isinstance(command, Mapping) else command.__doc__
    return inspect.cleandoc(str(text or "")) or " "


def summary_of(command: Command) -> str:
    """The first sentence of a command's help."""
    return re.split(r"(?<=[.?])\s", " ".join(description_of(command).split()), maxsplit=1)[0]


def add_traceback_flag(parser: argparse.ArgumentParser) -> None:
    """Adds ``--traceback``, which may stand before or behind the name of a command."""
    parser.add_argument(
        "--traceback", action="store_true", default=argparse.SUPPRESS, help="show where in the code an error arose"
    )
