"""Pre-training on true negatives for fairseq (Zhang, Zhao, Utiyama and Sumita, AAAI 2023).

fairseq imports this package for ``--user-dir``; that import registers models, tasks, criterions and optimizers.
Imported without fairseq, for instance for :mod:`truneg_fairseq.objectives` alone, it stays light: fairseq (3 s to
import) is not loaded, and :func:`register` does the registration when it is wanted.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from .registry import register_alternatives, register_task, register_term, register_yardstick

if TYPE_CHECKING:
    from .objectives import Alternatives, Term, TrueNegativeLoss

__all__ = [
    "Alternatives",
    "Term",
    "TrueNegativeLoss",
    "register",
    "register_alternatives",
    "register_task",
    "register_term",
    "register_yardstick",
]

__version__ = "0.1.0"

# The modules that register themselves with fairseq when they are imported.
_REGISTERED = """
models.bert models.electra_model criterions tasks.electra_pretraining optim finetuning.fairseq_tasks
""".split()


def register() -> None:
    """Imports fairseq, registers what the package has for it, and applies :mod:`truneg_fairseq.fairseq_runs.repairs`.

    Calling it again changes nothing.

    Raises:
        SystemExit: with one line, where no fairseq is installed or another one than the supported.
    """
    from .errors import one_line_errors, require

    with one_line_errors():
        require("fairseq", extra="fairseq")
        import fairseq  # noqa: F401  (before the compatibility repairs, which change its modules)

        from .fairseq_runs import repairs

        repairs.apply()
    for module in _REGISTERED:
        importlib.import_module(f"{__name__}.{module}")


def __getattr__(name: str) -> Any:
    if name in ("Alternatives", "Term", "TrueNegativeLoss"):  # torch takes a second to import
        from . import objectives

        return getattr(objectives, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if "fairseq" in sys.modules:  # imported by fairseq for --user-dir, or after it
    register()
