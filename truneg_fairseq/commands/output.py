"""Options that several subcommands share for what they print, and what they do."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..files import json_line, replacing_text, require_different, require_writable, without_nan
from ..options import option

_STDOUT = Path("-")
_FILES = ("json", "picture", "html")  # options of files beside what is printed


@dataclass(kw_only=True)
class JsonOutput:
    json: Path | None = option(None, "also write this as JSON; - prints it and nothing else", metavar="FILE")


def in_color() -> bool:
    """Whether to print colours: on a terminal without NO_COLOR."""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ


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


def write_json(options: Any, content: Any) -> None:
    """Writes what ``--json`` asked for: one document."""
    _write(options, json.dumps(without_nan(content), indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def write_json_lines(options: Any, records: Sequence[Any]) -> None:
    """Writes what ``--json`` asked for: a line for each record."""
    _write(options, "".join(f"{json_line(record)}\n" for record in records))


def _write(options: Any, text: str) -> None:
    if options.json == _STDOUT:
        sys.stdout.write(text)
    elif options.json is not None:
        with replacing_text(options.json) as stream:
            stream.write(text)
