"""A small random BERT in a folder of Hugging Face's, with words and pieces of words, and what is measured of models."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from support.commands import PIECES, WORDS
from support.convert_models import random_model, save

from truneg_fairseq.commands.main import main
from truneg_fairseq.evaluation.models import OpenedModel, OpeningOptions
from truneg_fairseq.evaluation.yardstick import Task
from truneg_fairseq.results.result import Result, read_results

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


def evaluated(
    models: Sequence[object], tasks: Sequence[object], *flags: object, results: Path | None = None
) -> list[Result]:
    """The result lines of ``truneg evaluate``, in this process and on the CPU; ``results`` is a file to keep them."""
    with tempfile.TemporaryDirectory() as folder:
        file = results or Path(folder, "results.jsonl")
        words = ["evaluate", *models, "--task", *tasks, "--cpu", "--results", file, *flags]
        main([str(word) for word in words])
        return read_results([file])
