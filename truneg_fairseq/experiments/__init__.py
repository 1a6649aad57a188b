"""Experiments: arms and seeds of pre-training from one file, each evaluated the same way, and compared."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..flags import option, user_dir_option


@dataclass(frozen=True, kw_only=True)
class ExperimentOptions:
    file: Path | None = option(
        None, "the experiment; see docs/start/experiments.md", metavar="FILE.yaml", positional=True
    )
    init: Path | None = option(
        None,
        "only write FILE.yaml for --data and --model (plain masked LM, label smoothing and soft targets, three seeds) "
        "with what it needs",
        metavar="FILE.yaml",
    )
    data: Path | None = option(None, "for --init: binarized data with validation text", metavar="DATA-BIN")
    model: str | None = option(
        None, "for --init: a fairseq checkpoint, a folder of Hugging Face's, or hub:NAME", metavar="MODEL"
    )
    set: list[str] = option(
        default_factory=list, help="in place of the file's values, such as paths.data=DATA-BIN", metavar="NAME=VALUE"
    )
    output: Path = option(Path("experiment"), "folder of the runs and results", metavar="DIR")
    jobs: int = option(1, "trainings at a time; they share the GPUs in turn", ge=1)
    only: list[str] = option(default_factory=list, help="this time only these arms", metavar="ARM")
    cpu: bool = option(False, "use the CPU only")
    user_dir: Path | None = user_dir_option()
