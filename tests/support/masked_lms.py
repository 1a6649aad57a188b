"""A small random BERT in a folder of Hugging Face's, with words and pieces of words."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from support.commands import PIECES, WORDS
from support.convert_models import random_model, save

from truneg_fairseq.evaluation.models import OpenedModel, OpeningOptions
from truneg_fairseq.evaluation.yardstick import Task

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *PIECES]


def hugging_face_bert(folder: Path, seed: int = 0) -> Path:
    return save(random_model("BertForMaskedLM", seed, tokens=TOKENS), folder, TOKENS)


def opened(path: Path, data: Path | None = None) -> tuple[Any, Any]:
    """A model to measure, and its tokens."""
    model = OpenedModel(path, OpeningOptions(data=data, cpu=True))
    tokens = model.tokens()
    return model.scorer(tokens), tokens


def yardstick(kind: Any, tokens: Any, *files: Path, **settings: Any) -> Any:
    """A yardstick with its items."""
    task = Task("task", tuple(map(str, files)), **settings)
    return kind(task, tokens, SimpleNamespace(path=Path("model")))
