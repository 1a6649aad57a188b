"""Print the folder to give to fairseq's --user-dir."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """This subcommand has none."""


def run(args: argparse.Namespace) -> None:
    """Prints the package's folder."""
    print(Path(__file__).resolve().parent.parent)
