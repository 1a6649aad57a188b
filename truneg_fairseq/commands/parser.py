"""The parser of ``truneg``, made from functions and the dataclasses of their options, and what commands print."""

from __future__ import annotations

import argparse
import difflib
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, Union, get_type_hints

from ..files import json_line, replacing_text, require_different, require_writable
from ..options import add_arguments, from_arguments, option

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


@dataclass
class NoOptions:
    """Of a command that has none."""


_STDOUT = Path("-")
_FILES = ("json", "picture", "html")  # options of files beside what is printed


@dataclass(kw_only=True)
class JsonOutput:
    json: Path | None = option(None, "also write this as JSON; - prints it and nothing else", metavar="FILE")


def print_unless_json(options: Any) -> Callable[[str], None]:
    """Prints lines for a person, at once; nothing if JSON goes to stdout.

    A reader that leaves early, as ``| head`` does, ends the command, unless it has files still to write.
    """
    silent = options.json == _STDOUT
    has_files = any(getattr(options, name, None) is not None for name in _FILES)

    def say(text: str) -> None:
        if silent:
            return
        try:
            print(text, flush=True)
        except BrokenPipeError:
            if not has_files:
                raise
            drop_stdout()

    return say


def drop_stdout() -> None:
    """Lets what is still printed go nowhere: its reader has left, and Python flushes once more at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def check_outputs(options: Any) -> None:
    """Says before anything is computed that a file of :data:`_FILES` cannot be written, or is one of the inputs."""
    given = vars(options)
    outputs = {name: given[name] for name in _FILES if given.get(name) not in (None, _STDOUT)}
    for name, path in outputs.items():
        require_writable(path, f"--{name}")
    if outputs:
        inputs = {name: value for name, value in given.items() if name not in _FILES and _is_path(value)}
        require_different(**inputs, **outputs)


def _is_path(value: Any) -> bool:
    return isinstance(value, Path) or (isinstance(value, list) and all(isinstance(each, Path) for each in value))


def write_json_lines(options: Any, records: Sequence[Any]) -> None:
    """Writes what ``--json`` asked for: a line for each record."""
    text = "".join(f"{json_line(record)}\n" for record in records)
    if options.json == _STDOUT:
        sys.stdout.write(text)
    elif options.json is not None:
        with replacing_text(options.json) as stream:
            stream.write(text)
