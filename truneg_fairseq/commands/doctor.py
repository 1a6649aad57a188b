"""``truneg doctor``."""

from __future__ import annotations

import sys
from dataclasses import dataclass


@dataclass
class DoctorOptions:
    """The command has none."""


def doctor(options: DoctorOptions) -> None:
    """Check the installation and say what is wrong."""
    from ..doctor import check_installation

    wrong = 0
    for finding in check_installation():
        print(f"{'ok   ' if finding.good else 'WRONG'}  {finding.text}", flush=True)
        wrong += not finding.good
    if wrong:
        print(f"{wrong} {'problem' if wrong == 1 else 'problems'} found")
        sys.exit(1)
