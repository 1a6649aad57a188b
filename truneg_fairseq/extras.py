"""Parts of the package that need more than its base, and how to get that."""

from __future__ import annotations

import importlib.util

from .errors import TrueNegError

# fairseq is compiled against the torch that is there, hence two steps.
_FAIRSEQ = "pip install torch 'setuptools>=77,<82' wheel cython && pip install --no-build-isolation "


class MissingExtraError(TrueNegError, ImportError):
    """A part of the package was imported or run without what it needs."""


def require(*modules: str, extra: str) -> None:
    """Refuses with a :class:`MissingExtraError` to go on without a part's modules; it has the command that installs."""
    for module in modules:
        if importlib.util.find_spec(module) is None:
            command = f"{_FAIRSEQ if extra == 'fairseq' else 'pip install '}'truneg_fairseq[{extra}]'"
            raise MissingExtraError(f"{module}: not installed, and this part of truneg_fairseq needs it; run {command}")
