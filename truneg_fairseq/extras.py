"""Parts of the package that need more than its base, and how to get that."""

from __future__ import annotations

import importlib.util

from .errors import TrueNegError

_INSTALL = {
    # fairseq is compiled against the torch that is there, hence two steps.
    "fairseq": "pip install torch 'setuptools>=77,<82' wheel cython && "
    "pip install --no-build-isolation 'truneg_fairseq[fairseq]'",
}


class MissingExtraError(TrueNegError, ImportError):
    """A part of the package was imported or run without what it needs."""


def require(*modules: str, extra: str) -> None:
    """Refuses to go on without a part's modules.

    Raises:
        MissingExtraError: one of them is not installed; the message has the command that installs it.
    """
    for module in modules:
        if importlib.util.find_spec(module) is None:
            command = _INSTALL.get(extra, f"pip install 'truneg_fairseq[{extra}]'")
            raise MissingExtraError(f"{module}: not installed, and this part of truneg_fairseq needs it; run {command}")
