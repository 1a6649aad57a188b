"""Where models run."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def choose_device(*, cpu: bool) -> torch.device:
    """A GPU where there is one."""
    import torch

    return torch.device("cuda" if torch.cuda.is_available() and not cpu else "cpu")
