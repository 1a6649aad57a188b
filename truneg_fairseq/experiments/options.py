"""The options of ``truneg experiment``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..options import option


@dataclass(kw_only=True)
class ExperimentOptions:
    file: Path = option(help="the experiment; see docs/experiments.md", metavar="FILE.yaml", positional=True)
    set: list[str] = option(
        default_factory=list,
        help="in place of the file's values, such as paths.data=DATA-BIN",
        metavar="NAME=VALUE",
    )
    output: Path = option(help="folder of the runs and results", metavar="DIR")
    jobs: int = option(1, "trainings at a time, one GPU each", ge=1)
    only: list[str] = option(default_factory=list, help="this time only these arms", metavar="ARM")
    cpu: bool = option(False, "use the CPU only")
