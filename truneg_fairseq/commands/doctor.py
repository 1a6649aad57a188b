"""``truneg doctor``."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from ..options import option


@dataclass
class DoctorOptions:
    run_folder: Path | None = option(
        None, "--save-dir of a training; without one the installation is checked", metavar="RUN", positional=True
    )


def doctor(options: DoctorOptions) -> None:
    """Check the installation, or the folder of a training run, and say what is wrong."""
    from ..doctor import check_installation, check_run

    if options.run_folder is not None:
        from .. import register

        register()  # what fairseq's checkpoints hold is safe to load from now on
    wrong = 0
    for finding in check_installation() if options.run_folder is None else check_run(options.run_folder):
        print(f"{'ok   ' if finding.good else 'WRONG'}  {finding.text}", flush=True)
        wrong += not finding.good
    if wrong:
        print(f"{wrong} {'problem' if wrong == 1 else 'problems'} found")
        sys.exit(1)
