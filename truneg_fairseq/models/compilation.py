"""Whether torch.compile works on this machine. Imports torch only."""

from __future__ import annotations

import torch

from ..errors import TrueNegError, reason


def check_compiler(flag: str) -> None:
    """Compiles something small, rather than fail in the middle of the first update.

    Args:
        flag: what asks for it.
    """
    try:
        torch.compile(torch.relu)(torch.zeros(2))
    except Exception as error:  # whatever a back end may raise
        raise TrueNegError(
            f"{flag}: torch.compile does not work here ({reason(error)}); expected a C++ compiler that it finds ($CXX "
            "names another); install one or leave the option out"
        ) from None
