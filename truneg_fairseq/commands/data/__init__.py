"""Download and extract corpora, train tokenizers, binarize text, prepare GLUE and SQuAD."""

from __future__ import annotations

import argparse
from types import ModuleType

from ..subcommands import add_subcommands
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

STEPS: dict[str, ModuleType] = {
    "download-corpus": download_corpus,
    "extract-corpus": extract_corpus,
    "extract-glosses": extract_glosses,
    "train-wordpiece": train_wordpiece,
    "train-sentencepiece": train_sentencepiece,
    "binarize": binarize,
    "prepare-glue": prepare_glue,
    "prepare-squad": prepare_squad,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the steps, each with its own flags."""
    add_subcommands(parser, STEPS, "STEP")
