"""Flags that several subcommands share for what they print, and what they do."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..files import replacing_text

_STDOUT = Path("-")


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
    return None if args.json == _STDOUT else args.json


def print_unless_json(args: argparse.Namespace) -> Callable[[str], None]:
    """Prints lines for a person, at once; nothing where JSON goes to stdout."""
    silent = args.json == _STDOUT
    return lambda text: None if silent else print(text, flush=True)


def write_json(args: argparse.Namespace, content: Any) -> None:
    """Writes what ``--json`` asked for: one document."""
    _write(args, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def write_json_lines(args: argparse.Namespace, records: Sequence[Any]) -> None:
    """Writes what ``--json`` asked for: a line a record."""
    _write(args, "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records))


def _write(args: argparse.Namespace, text: str) -> None:
    if args.json == _STDOUT:
        sys.stdout.write(text)
    elif args.json is not None:
        with replacing_text(args.json) as stream:
            stream.write(text)
