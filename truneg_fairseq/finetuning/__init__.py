"""GLUE and SQuAD: their data for fairseq, fine-tuning, answers, scores; here the options of the commands."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..flags import option, user_dir_option
from ..launch.process import PRECISIONS


@dataclass(frozen=True, kw_only=True)
class PrepareOptions:
    task: list[str] = option(
        help="a task with its official files: CoLA=DIR, SQuAD=DIR or SQuAD=FILE, ..; GLUE=DIR for GLUE's eight, each a "
        "folder in DIR",
        metavar="NAME=DIR",
    )
    data: Path = option(help="the pre-trained model's data: dict.txt, tokenizer", metavar="DATA-BIN")
    output_dir: Path = option(help="folder to write, with a folder for each task", metavar="DIR")
    max_length: int | None = option(
        None, "tokens of an example (default: 128, as ELECTRA's; of SQuAD's windows 384, in the paper 512)", ge=8
    )
    swap_pairs: bool = option(
        False, "double the training pairs of MRPC and STS-B by swapping the sentences, as ELECTRA does"
    )
    user_dir: Path | None = user_dir_option()


@dataclass(frozen=True, kw_only=True)
class FinetuneOptions:
    models: list[str] = option(
        help="pre-trained checkpoints; a name is for the results", positional=True, metavar="[NAME=]CKPT.pt"
    )
    prepared: Path = option(help="folder of 'truneg data prepare'", metavar="DIR")
    output: Path = option(help="folder of the runs and their results", metavar="DIR")
    tasks: list[str] = option(
        default_factory=list, help="of CoLA, SST-2 .. and SQuAD (default: all that are prepared)", metavar="TASK"
    )
    seeds: list[int] = option(
        default_factory=lambda: [1, 2, 3, 4, 5], help="a run for each model, task and seed (default: 1 2 3 4 5)", ge=0
    )
    lr: float | None = option(None, "learning rate (default: from the recipe)", gt=0)
    epochs: int | None = option(None, "epochs (default: from the recipe)", ge=1)
    batch_size: int | None = option(None, "examples per update (default: from the recipe)", ge=1)
    layer_lr_decay: float | None = option(
        None, "factor of the learning rate from layer to layer (default: from the recipe)", gt=0, le=1
    )
    precision: str = option("fp32", "of the training", choices=PRECISIONS)
    jobs: int = option(1, "runs side by side; they share the GPUs in turn", ge=1)
    keep_models: bool = option(False, "keep the fine-tuned models, as model.pt")
    cpu: bool = option(False, "use the CPU only")
    user_dir: Path | None = user_dir_option()


@dataclass(frozen=True, kw_only=True)
class PredictOptions:
    checkpoint: Path = option(help="a fine-tuned model", positional=True, metavar="MODEL.pt")
    file: Path = option(help="examples in the official format of the model's task", positional=True, metavar="FILE")
    output: Path | None = option(
        None, "write the answers: of GLUE as its server takes them, of SQuAD as its scorer does", metavar="FILE"
    )
    prepared: Path | None = option(None, "the task's folder of 'truneg data prepare', if it has moved", metavar="DIR")
    na_prob_file: Path | None = option(
        None, "SQuAD: also write the probability of no answer by question id", metavar="JSON"
    )
    threshold: float = option(0.5, "SQuAD 2.0: largest no-answer probability with an answer", ge=0, le=1)
    cpu: bool = option(False, "use the CPU only")
    user_dir: Path | None = user_dir_option()
