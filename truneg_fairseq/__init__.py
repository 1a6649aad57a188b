"""Pre-training on true negatives for fairseq (Zhang, Zhao, Utiyama and Sumita, AAAI 2023).

fairseq imports this package for ``--user-dir``; that import registers models, tasks, criterions and optimizers.
Imported without fairseq, for instance for :mod:`truneg_fairseq.objectives` alone, it stays light: fairseq (3 s to
import) is not loaded, and :func:`register` does the registration when it is wanted.
"""

from __future__ import annotations

import sys

__version__ = "0.1.0"


def register() -> None:
    """Registers what the package has for fairseq, and applies :mod:`truneg_fairseq.compat`.

    Calling it again changes nothing.

    Raises:
        SystemExit: with one line, where the installed fairseq is not the supported one.
    """
    from .errors import one_line_errors

    with one_line_errors():
        from . import compat

        compat.apply()
    from . import criterions, models, tasks  # noqa: F401  (importing is registering)
    from .optim import adapters  # noqa: F401


if "fairseq" in sys.modules:  # imported by fairseq for --user-dir, or after it
    register()
