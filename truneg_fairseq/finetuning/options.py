"""The options that ``truneg glue train`` and ``truneg squad train`` share."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

from ..errors import TrueNegError
from ..options import flag_of, option

PRECISIONS = ("fp32", "fp16", "bf16")


@dataclass(frozen=True, kw_only=True)
class FinetuningOptions:
    checkpoint: Path = option(help="the pre-trained model", metavar="CKPT.pt")
    data: Path = option(help="prepared by 'truneg data prepare-glue' or 'prepare-squad'", metavar="DIR")
    output: Path = option(help="folder of the runs and their results", metavar="DIR")
    precision: str = option("fp32", "of the training", choices=PRECISIONS)
    cpu: bool = option(False, "use the CPU only")
    num_workers: int = option(1, "processes that load data", ge=0, le=256)
    tensorboard_logdir: Path | None = option(None, "TensorBoard's, with a folder for each run", metavar="DIR")
    wandb_project: str | None = option(None, "of Weights and Biases, where runs are logged", metavar="NAME")

    def logger_flags(self, model: str, run: str) -> list[object]:
        """fairseq-train's flags for its loggers; a run is told apart by the names of the model and of itself."""
        for field, package in (("tensorboard_logdir", "tensorboard"), ("wandb_project", "wandb")):
            if getattr(self, field) is not None and importlib.util.find_spec(package) is None:
                raise TrueNegError(f"{flag_of(field)}: needs the package {package}; run pip install {package}")
        flags: list[object] = []
        if self.tensorboard_logdir is not None:
            flags += ["--tensorboard-logdir", self.tensorboard_logdir.resolve() / model / run.replace(" ", "-")]
        return flags + (["--wandb-project", self.wandb_project] if self.wandb_project is not None else [])


@dataclass(frozen=True, kw_only=True)
class PredictOptions:
    checkpoint: Path = option(help="a fine-tuned model", metavar="PT")
    data: Path = option(help="file in the official format of the task", metavar="FILE")
    prepared: Path | None = option(None, "the prepared data of the training, if moved", metavar="DIR")
    cpu: bool = option(False, "use the CPU only")
