"""Flags that several subcommands share for what they print, and what they do."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..files import replacing_text
from ..paths import require_writable

_STDOUT = Path("-")
_FILES = ("json", "picture", "csv", "sheet", "html")  # flags of files beside what is printed


def add_json(parser: argparse.ArgumentParser, what: str) -> None:
    """Adds ``--json FILE``, which is ``-`` for stdout alone."""
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help=f"also write JSON: {what}; - prints it and nothing else"
    )


def add_color(parser: argparse.ArgumentParser) -> None:
    """Adds ``--color``."""
    parser.add_argument(
        "--color", choices=("auto", "always", "never"), default="auto", help="default: on a terminal without NO_COLOR"
    )


def in_color(args: argparse.Namespace) -> bool:
    """Whether to print colours, as ``--color`` says."""
    if args.color == "auto":
        return sys.stdout.isatty() and "NO_COLOR" not in os.environ
    return bool(args.color == "always")


def file_of(args: argparse.Namespace) -> Path | None:
    """The file of ``--json``; None without, or where it is stdout."""
    file: Path | None = getattr(args, "json", None)
    return None if file == _STDOUT else file


def print_unless_json(args: argparse.Namespace) -> Callable[[str], None]:
    """Prints lines for a person, at once; nothing where JSON goes to stdout.

    A reader that leaves early, as ``| head`` does, ends the command, unless it has files still to write.
    """
    silent = args.json == _STDOUT
    has_files = any(getattr(args, name, None) is not None for name in _FILES)

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


def check_outputs(args: argparse.Namespace) -> None:
    """Says before anything is computed that the file of ``--json`` or ``--picture`` cannot be written."""
    if (file := file_of(args)) is not None:
        require_writable(file, "--json")
    if (picture := getattr(args, "picture", None)) is not None:
        from ..pages.charts import require_svg

        require_svg(picture)
        require_writable(picture, "--picture")


def write_json(args: argparse.Namespace, content: Any) -> None:
    """Writes what ``--json`` asked for: one document."""
    _write(args, json.dumps(_without_nan(content), indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def write_json_lines(args: argparse.Namespace, records: Sequence[Any]) -> None:
    """Writes what ``--json`` asked for: a line a record."""
    lines = (json.dumps(_without_nan(record), ensure_ascii=False, allow_nan=False) for record in records)
    _write(args, "".join(f"{line}\n" for line in lines))


def _without_nan(content: Any) -> Any:
    """The same with null for NaN and infinities, which JSON has not."""
    if isinstance(content, dict):
        return {name: _without_nan(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_without_nan(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def _write(args: argparse.Namespace, text: str) -> None:
    if args.json == _STDOUT:
        sys.stdout.write(text)
    elif args.json is not None:
        with replacing_text(args.json) as stream:
            stream.write(text)
