"""The options of ``truneg squad`` and ``truneg data prepare-squad``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..errors import TrueNegError
from ..options import option
from .options import FinetuningOptions, PredictOptions


@dataclass(frozen=True, kw_only=True)
class WindowSettings:
    """How contexts are cut into windows, in tokens; BERT's values."""

    max_length: int = option(384, "tokens of a window (default: 384; in the paper 512)")
    doc_stride: int = option(128, "tokens between window starts", ge=1)
    max_query_length: int = option(64, "longest question in tokens", ge=1)

    def __post_init__(self) -> None:
        least = self.max_query_length + 4
        if self.max_length < least:
            raise TrueNegError(
                f"--max-length {self.max_length}: expected at least {least}, for --max-query-length "
                f"{self.max_query_length}, <s>, two </s> and a token of the context"
            )


@dataclass(frozen=True, kw_only=True)
class PrepareSquadOptions(WindowSettings):
    train: Path | None = option(None, "SQuAD's questions to train on", metavar="JSON")
    valid: Path | None = option(None, "questions to answer: SQuAD's dev set or an attack's", metavar="JSON")
    data: Path = option(help="the pre-trained model's data: dict.txt, tokenizer", metavar="DATA-BIN")
    output_dir: Path = option(help="folder to make", metavar="DIR")


@dataclass(frozen=True, kw_only=True)
class TrainSquadOptions(FinetuningOptions):
    results: Path | None = option(None, "default: results.jsonl in the run's folder", metavar="JSONL")
    seed: int = option(1, "of the training", ge=0)
    lr: float | None = option(None, "default: 1e-4; 5e-5 for large models", gt=0)
    layer_lr_decay: float | None = option(None, "default: 0.8; 0.9 for large models", gt=0, le=1)
    weight_decay: float = option(0.01, "decoupled", ge=0)
    epochs: int = option(2, "over the windows", ge=1)
    batch_size: int = option(32, "windows per update", ge=1)


@dataclass(frozen=True, kw_only=True)
class PredictSquadOptions(PredictOptions):
    output: Path = option(help="answer texts by question id", metavar="JSON")
    na_prob_file: Path | None = option(None, "also write the probability of no answer by question id", metavar="JSON")
    threshold: float = option(0.5, "SQuAD 2.0: largest no-answer probability with an answer", ge=0, le=1)
    batch_size: int = option(32, "windows", ge=1)


@dataclass(frozen=True, kw_only=True)
class ScoreSquadOptions:
    data: Path = option(help="in SQuAD's format", metavar="DATA.json", positional=True)
    predictions: Path = option(help="answer texts by question id", metavar="PREDICTIONS.json", positional=True)
    na_prob_file: Path | None = option(None, "SQuAD 2.0: the probability of no answer by question id", metavar="JSON")
    adversarial: bool = option(
        False, "Jia and Liang's files: each original question counts by the worst of its variants"
    )
