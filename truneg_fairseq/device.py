"""Where models run: on a GPU where there is one, on the CPU with ``--cpu``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def add_cpu(parser: argparse.ArgumentParser) -> None:
    """Adds ``--cpu``."""
    parser.add_argument("--cpu", action="store_true", help="use the CPU only")


def choose_device(*, cpu: bool) -> torch.device:
    """A GPU where there is one.

    Args:
        cpu: keep off it.
    """
    import torch

    return torch.device("cuda" if torch.cuda.is_available() and not cpu else "cpu")
