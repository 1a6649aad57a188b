"""Extract corpora to text, train a tokenizer, binarize text, prepare GLUE and SQuAD."""

from __future__ import annotations

from typing import Any

from . import prepare_glue, prepare_squad
from .binarize import binarize
from .extract_corpus import extract_corpus
from .extract_glosses import extract_glosses
from .train_wordpiece import train_wordpiece

COMMANDS: dict[str, Any] = {
    "": __doc__ or "",
    "extract-corpus": extract_corpus,
    "extract-glosses": extract_glosses,
    "train-wordpiece": train_wordpiece,
    "binarize": binarize,
    "prepare-glue": prepare_glue.prepare_glue,
    "prepare-squad": prepare_squad.prepare_squad,
}
