"""Download and extract corpora, train tokenizers, binarize text, prepare GLUE and SQuAD."""

from __future__ import annotations

from typing import Any

from . import (
    binarize,
    download_corpus,
    extract_corpus,
    extract_glosses,
    prepare_glue,
    prepare_squad,
    train_sentencepiece,
    train_wordpiece,
)

COMMANDS: dict[str, Any] = {
    "": __doc__ or "",
    "download-corpus": download_corpus,
    "extract-corpus": extract_corpus,
    "extract-glosses": extract_glosses,
    "train-wordpiece": train_wordpiece,
    "train-sentencepiece": train_sentencepiece,
    "binarize": binarize,
    "prepare-glue": prepare_glue.prepare_glue,
    "prepare-squad": prepare_squad.prepare_squad,
}
