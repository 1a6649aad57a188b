"""The options of ``truneg glue`` and ``truneg data prepare-glue``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..options import option
from .glue_files import TASKS
from .options import FinetuningOptions, PredictOptions

_TASKS: dict[str, Any] = {
    "default_factory": lambda: list(TASKS),
    "help": f"of {', '.join(TASKS)} (default: all)",
    "metavar": "TASK",
}


@dataclass(frozen=True, kw_only=True)
class PrepareGlueOptions:
    glue_dir: Path = option(help="folder with a folder of official files per task", metavar="DIR")
    data: Path = option(help="the pre-trained model's data: dict.txt, tokenizer", metavar="DATA-BIN")
    output_dir: Path = option(help="folder to write", metavar="DIR")
    tasks: list[str] = option(**_TASKS)
    swap_pairs: bool = option(
        False, "double the training pairs of MRPC and STS-B by swapping the sentences, as ELECTRA does"
    )


@dataclass(frozen=True, kw_only=True)
class TrainGlueOptions(FinetuningOptions):
    tasks: list[str] = option(**_TASKS)
    seeds: list[int] = option(
        default_factory=lambda: [1, 2, 3, 4, 5], help="a run for each task and seed (default: 1 2 3 4 5)", ge=0
    )
    lr: float | None = option(None, "learning rate (default: from the recipe)", gt=0)
    epochs: int | None = option(None, "epochs (default: from the recipe)", ge=1)
    batch_size: int | None = option(None, "examples per update (default: from the recipe)", ge=1)
    weight_decay: float | None = option(None, "weight decay (default: from the recipe)", ge=0)
    layer_lr_decay: float | None = option(
        None, "factor of the learning rate from layer to layer (default: from the recipe)", gt=0, le=1
    )
    max_length: int | None = option(None, "tokens of an example (default: from the recipe)", ge=8)
    workers: int = option(1, "data-parallel workers of a run, a GPU for each", ge=1, le=256)
    jobs: int = option(1, "runs side by side; they share the GPUs in turn", ge=1)
    keep_models: bool = option(False, "keep the fine-tuned models, as model.pt")


@dataclass(frozen=True, kw_only=True)
class PredictGlueOptions(PredictOptions):
    output: Path | None = option(None, "also write the answers, as the GLUE server takes them", metavar="TSV")
