"""The options that the commands of GLUE and of SQuAD share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..launch.process import PRECISIONS
from ..launch.slurm import LaunchOptions
from ..options import option


@dataclass(frozen=True, kw_only=True)
class FinetuningOptions(LaunchOptions):
    checkpoint: Path = option(help="the pre-trained model", metavar="CKPT.pt")
    data: Path = option(help="prepared by 'truneg data prepare-glue' or 'prepare-squad'", metavar="DIR")
    output: Path = option(help="folder of the runs and their results", metavar="DIR")
    model: str | None = option(None, "name in the results (default: of the checkpoint or its folder)", metavar="NAME")
    precision: str = option("fp32", "of the training", choices=PRECISIONS)
    cpu: bool = option(False, "use the CPU only")


@dataclass(frozen=True, kw_only=True)
class PredictOptions:
    checkpoint: Path = option(help="a fine-tuned model", metavar="PT")
    data: Path = option(help="file in the official format of the task", metavar="FILE")
    prepared: Path | None = option(None, "the prepared data of the training, if moved", metavar="DIR")
    cpu: bool = option(False, "use the CPU only")
