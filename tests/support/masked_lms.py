"""A small random BERT in a folder of Hugging Face's, with words and pieces of words."""

from __future__ import annotations

from pathlib import Path

from support.commands import PIECES, WORDS
from support.convert_models import random_model, save

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *PIECES]


def hugging_face_bert(folder: Path, seed: int = 0) -> Path:
    return save(random_model("BertForMaskedLM", seed, tokens=TOKENS), folder, TOKENS)
