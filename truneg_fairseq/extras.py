"""Parts of the package that need more than its base, and how to get that."""

from __future__ import annotations

import importlib.metadata
import importlib.util

from .errors import TrueNegError

_OLDEST_TORCH = (2, 6)  # as in pyproject.toml

# fairseq is compiled against the torch that is there, hence two steps.
_FAIRSEQ = "pip install torch 'setuptools>=77,<82' wheel cython && pip install --no-build-isolation "


class MissingExtraError(TrueNegError, ImportError):
    """A part of the package was imported or run without what it needs."""


def check_torch() -> str:
    """torch's version; pip lets a later command put an older one in its place than the package needs."""
    version = importlib.metadata.version("torch")
    if tuple(map(int, version.split(".")[:2])) < _OLDEST_TORCH:
        oldest = ".".join(map(str, _OLDEST_TORCH))
        raise TrueNegError(f"torch {version}: expected {oldest} or later; run pip install 'torch>={oldest}'")
    return version


def require(*modules: str, extra: str) -> None:
    """Refuses with a :class:`MissingExtraError` to go on without a part's modules; it has the command that installs."""
    check_torch()
    for module in modules:
        if importlib.util.find_spec(module) is None:
            command = f"{_FAIRSEQ if extra == 'fairseq' else 'pip install '}'truneg_fairseq[{extra}]'"
            raise MissingExtraError(f"{module}: not installed, and this part of truneg_fairseq needs it; run {command}")
