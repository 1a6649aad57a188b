"""The parser of ``truneg``, made from functions and the dataclasses of their options, and what commands print."""

from __future__ import annotations

import argparse
import inspect
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeAlias, Union, get_type_hints

from ..errors import require
from ..files import json_line, replacing_text, require_different, require_writable
from ..flags import add_arguments, from_arguments, option
from ..registry import import_user_dir

Command: TypeAlias = Union[Callable[[Any], None], "Mapping[str, Any]"]
"""A function whose only parameter is annotated with a dataclass of options, or such functions by their names.

A function's docstring is its help. A folder of commands may stand under "" in its own mapping: its help.
"""


def add_command(parser: argparse.ArgumentParser, command: Command) -> None:
    """Adds the arguments of a command, or its subcommands; the parsed ``run`` is called with the parsed arguments."""
    if isinstance(command, Mapping):
        subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
        for name, each in command.items():
            if name:
                text = each[""] if isinstance(each, Mapping) else inspect.getdoc(each) or ""
                first = " ".join(text.split()).partition(". ")[0].rstrip(".")
                add_command(subparsers.add_parser(name, description=text, help=first.replace("%", "%%")), each)
        return
    (parameter,) = inspect.signature(command).parameters
    kind = get_type_hints(command)[parameter]
    add_arguments(parser, kind)

    def run(arguments: argparse.Namespace) -> None:
        options = from_arguments(kind, arguments)
        check_outputs(options)
        import_user_dir(getattr(options, "user_dir", None))
        command(options)

    parser.set_defaults(run=run)


@dataclass
class NoOptions:
    """Of a command that has none."""


_STDOUT = Path("-")
_FILES = ("json", "picture", "html")  # options of files beside what is printed


@dataclass(kw_only=True)
class JsonOutput:
    json: Path | None = option(None, "also write this as JSON; - prints it and nothing else", metavar="FILE")


def next_step(*words: object) -> str:
    """The line that names the command to go on with, as a shell reads it."""
    return f"next: {shlex.join(map(str, words))}"


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
    outputs = {name: path for name in _FILES if (path := getattr(options, name, None)) not in (None, _STDOUT)}
    if not outputs:
        return
    if outputs.keys() & {"picture", "html"}:
        require("altair", "vl_convert", "jinja2", extra="report")
    for name, path in outputs.items():
        require_writable(path, f"--{name}")
    inputs = [each for each in fields(options) if each.name not in _FILES]
    named = {each.name.upper() if each.metadata.get("positional") else each.name: each.name for each in inputs}
    require_different(**{flag: _files_in(getattr(options, name)) for flag, name in named.items()}, **outputs)


def _files_in(value: Any) -> list[Path]:
    """The files that there are among an option's values, each FILE or NAME=FILE."""
    texts = [str(each) for each in (value if isinstance(value, list) else [value]) if isinstance(each, str | Path)]
    parts = [part for text in texts for part in (text, text.partition("=")[2])]
    return [Path(part) for part in parts if os.path.isfile(part)]  # noqa: PTH113 (a sentence is too long for a path)


def write_json_lines(options: Any, records: Sequence[Any]) -> None:
    """Writes what ``--json`` asked for: a line for each record."""
    text = "".join(f"{json_line(record)}\n" for record in records)
    if options.json == _STDOUT:
        sys.stdout.write(text)
    elif options.json is not None:
        with replacing_text(options.json) as stream:
            stream.write(text)
