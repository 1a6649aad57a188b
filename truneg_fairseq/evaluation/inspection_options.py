"""The options of ``truneg inspect`` and ``truneg explain``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..options import option
from ..vocabulary import TOKENIZATIONS


@dataclass(kw_only=True)
class DataOptions:
    """What to read, and how."""

    data: Path | None = option(
        None, "folder of binarized data, with its tokenizer; needed for fairseq checkpoints", metavar="DATA-BIN"
    )
    synonym_table: Path | None = option(
        None,
        "default: synonyms.npz beside the data, else in the cache folder, built when missing; explain: that of the "
        "checkpoint's training",
        metavar="NPZ",
    )
    tokenization: str = option(
        "auto", "how the dictionary marks whole words; auto: detected", choices=("auto", *TOKENIZATIONS)
    )
    batch_size: int = option(32, "sequences per batch", ge=1)
    cpu: bool = option(False, "use the CPU only")


@dataclass(kw_only=True)
class InspectionOptions(DataOptions):
    checkpoint: list[Path] = option(
        help="fairseq checkpoints of masked LMs, or folders of Hugging Face's", metavar="MODEL"
    )
    file: Path | None = option(None, "the text for Hugging Face's models, a paragraph a line", metavar="TXT")
    split: str = option("valid", "valid, test, train ...")
    seed: int | None = option(
        None, "of the masked positions (default: that of the last checkpoint's training; with Hugging Face 1)"
    )


@dataclass(kw_only=True)
class ExplanationOptions(DataOptions):
    checkpoint: Path = option(
        help="a masked LM (fairseq checkpoint or Hugging Face folder), or a checkpoint of translation or a causal LM",
        metavar="MODEL",
    )
    detector: str = option(
        "table",
        "which mistakes are false negatives: table, or judged in the sentence as --hc-detector does: table+embedding, "
        "embedding+context ...",
    )
