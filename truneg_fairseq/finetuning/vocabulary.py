"""Whether a model and data for fine-tuning have one vocabulary."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import TrueNegError
from ..vocabulary import fingerprint, read_symbols

if TYPE_CHECKING:
    from ..models.checkpoints import Checkpoint

_ADVICE = "expected the same: prepare the data with the dictionary and tokenizer of the model"


def check_vocabulary(checkpoint: Checkpoint, expected: str, data: Path) -> None:
    """Refuses a checkpoint of another vocabulary: of another size or, where its own data are here, other symbols.

    Args:
        checkpoint: the pre-trained model.
        expected: fingerprint of the dictionary of the data for fine-tuning.
        data: their folder.
    """
    pretrained = Path(str(checkpoint.task.get("data", "")).split(":")[0])
    dictionary = _dictionary(pretrained) if checkpoint.task.get("data") else None
    if dictionary is not None:
        check_fingerprint(fingerprint(read_symbols(dictionary)), expected, str(data))
    own, weight = _dictionary(data), checkpoint.state.get("encoder.sentence_encoder.embed_tokens.weight")
    if own is not None and weight is not None and len(weight) != (size := len(read_symbols(own))):
        raise TrueNegError(
            f"{checkpoint.path}: has {len(weight):,} embeddings, the dictionary of {data} has {size:,} symbols; "
            f"{_ADVICE}"
        )


def check_fingerprint(found: str | None, expected: str, data: str) -> None:
    """Refuses a model whose dictionary has another fingerprint than the data's.

    Args:
        found: that of the model's dictionary, None where it is not known.
        expected: that of the data.
        data: their folder.
    """
    if found is not None and found != expected:
        raise TrueNegError(
            f"{data}: was made with a vocabulary of fingerprint {expected[:12]}, the checkpoint is of {found[:12]}; "
            f"{_ADVICE}"
        )


def _dictionary(folder: Path) -> Path | None:
    """Of binarized data, of SQuAD's features, or of a GLUE task."""
    return next((path for path in (folder / "dict.txt", folder / "input0" / "dict.txt") if path.is_file()), None)
