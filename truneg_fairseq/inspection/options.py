"""The options of ``truneg inspect`` and ``truneg explain``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..options import option


@dataclass(kw_only=True)
class _DataOptions:
    data: Path = option(help="folder of binarized data, with its tokenizer", metavar="DATA-BIN")
    synonym_table: Path | None = option(
        None, "default: synonyms.npz beside the data, built when missing", metavar="NPZ"
    )
    tokenization: str = option("auto", "auto (detected), wordpiece, sentencepiece, gpt2 or words")
    batch_size: int = option(32, "sequences per batch", ge=1)
    cpu: bool = option(False, "use the CPU only")


@dataclass(kw_only=True)
class InspectionOptions(_DataOptions):
    checkpoint: list[Path] = option(help="fairseq checkpoints of masked-LM models", metavar="PT")
    split: str = option("valid", "valid, test, train ...")
    seed: int | None = option(None, "of the masked positions (default: that of the last checkpoint's training)")


@dataclass(kw_only=True)
class ExplanationOptions(_DataOptions):
    checkpoint: Path = option(help="of a masked-LM model", metavar="PT")
    detector: str = option(
        "table",
        "which mistakes are false negatives: table, or judged in the sentence as --hc-detector does: table+embedding, "
        "embedding+context ...",
    )
