"""What all data for fine-tuning share: the pre-trained vocabulary, a description, a folder that appears whole."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..data.tokenizer import TextTokenizer, check_dictionary, load_tokenizer
from ..errors import TrueNegError
from ..files import file_digest, replacing_text
from ..paths import require_unsplit
from ..schema import read_json
from ..vocabulary import UNKNOWN, fingerprint, read_symbols

if TYPE_CHECKING:
    from ..models.checkpoints import Checkpoint

INFO_FILE = "info.json"
"""Describes a folder of data for fine-tuning; its ``vocabulary`` is :func:`truneg_fairseq.vocabulary.fingerprint`."""

LENGTHS = (128, 512)
"""The sequence lengths, in tokens, for which the reports count the longer examples."""

# Of a dictionary that was made from a corpus, words of the tokenizer are missing that the corpus does not have. Lacking
# more than this, it is not of the tokenizer's model.
_LACKING_SHARE = 0.5
_SAME_VOCABULARY = "expected the same: prepare the data with the dictionary and tokenizer of the model"


@dataclass(frozen=True)
class PretrainedVocabulary:
    """The dictionary and the tokenizer of a folder of binarized data."""

    folder: Path  # the folder
    symbols: tuple[str, ...]  # the dictionary's symbols by id
    tokenizer: TextTokenizer  # what makes symbols of text

    @classmethod
    def load(cls, folder: Path) -> PretrainedVocabulary:
        """Reads ``dict.txt`` and the tokenizer's files beside it."""
        symbols = tuple(read_symbols(folder / "dict.txt"))
        tokenizer = load_tokenizer(folder)
        check_dictionary(tokenizer, symbols, str(folder / "dict.txt"), lacking_share=_LACKING_SHARE)
        return cls(folder, symbols, tokenizer)

    @property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of the symbols in their order."""
        return fingerprint(self.symbols)

    @cached_property
    def _id_of(self) -> dict[str, int]:
        return {symbol: index for index, symbol in enumerate(self.symbols)}

    @cached_property
    def _id_of_number(self) -> NDArray[np.int64]:
        return np.array([self._id_of.get(symbol, UNKNOWN) for symbol in self.tokenizer.symbol_of], dtype=np.int64)

    def encode_batch(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        """The ids of every text, without ``<s>`` and ``</s>``; ``<unk>`` for what the dictionary does not have."""
        return [
            self._id_of_number[np.asarray(numbers, dtype=np.int64)] for numbers in self.tokenizer.encode_numbers(texts)
        ]

    def encode_with_offsets(self, text: str) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """The ids of a text, shape (N,), and the characters that each stands for, begin and end, shape (N, 2)."""
        encoded = self.tokenizer.encode_with_offsets(text)
        ids = np.array([self._id_of.get(symbol, UNKNOWN) for symbol, _, _ in encoded], dtype=np.int64)
        return ids, np.array([place for _, *place in encoded], dtype=np.int32).reshape(-1, 2)

    def save(self, folder: Path) -> None:
        """Writes ``dict.txt`` and the tokenizer's files."""
        self.tokenizer.save(folder)
        (folder / "dict.txt").write_bytes((self.folder / "dict.txt").read_bytes())


def read_info(folder: Path) -> dict[str, Any]:
    """The description of a folder of data for fine-tuning."""
    expected = "data of 'truneg data prepare-glue' or 'truneg data prepare-squad'"
    info = read_json(folder / INFO_FILE, dict[str, Any], expected=expected)
    if "vocabulary" not in info:
        raise TrueNegError(f"{folder / INFO_FILE}: has no vocabulary; expected {expected}")
    return info


def find_made(folder: Path, wanted: Mapping[str, Any]) -> dict[str, Any] | None:
    """The description of a folder that was made before; None where there is no such folder yet.

    Args:
        folder: the folder.
        wanted: what its description should say: the same sources, the same settings.
    """
    require_unsplit(folder, "--output-dir")
    if not folder.exists():
        return None
    info = read_info(folder)
    other = [key for key, value in wanted.items() if info.get(key) != value]
    if other:
        raise TrueNegError(
            f"{folder}: was made with another {', another '.join(other)}; remove it or choose another --output-dir"
        )
    return info


def write_info(folder: Path, info: Mapping[str, Any]) -> None:
    """Writes the description of :func:`read_info`."""
    with replacing_text(folder / INFO_FILE) as stream:
        json.dump(info, stream, indent=1, ensure_ascii=False)
        stream.write("\n")


def describe_sources(files: Mapping[str, Path]) -> dict[str, dict[str, str]]:
    """By split, the name and the SHA-256 (hex) of the file."""
    return {split: {"file": path.name, "sha256": file_digest(path)} for split, path in files.items()}


def count_longer(lengths: NDArray[np.int64]) -> dict[str, int]:
    """How many sequences are longer than each of :data:`LENGTHS`, by length."""
    return {str(length): int((lengths > length).sum()) for length in LENGTHS}


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
            f"{_SAME_VOCABULARY}"
        )


def check_fingerprint(found: str | None, expected: str, data: str) -> None:
    """Refuses a model whose dictionary has another fingerprint than the data's.

    Args:
        found: of the model's dictionary, None where it is not known.
        expected: of the data's dictionary.
        data: their folder.
    """
    if found is not None and found != expected:
        raise TrueNegError(
            f"{data}: was made with a vocabulary of fingerprint {expected[:12]}, the checkpoint is of {found[:12]}; "
            f"{_SAME_VOCABULARY}"
        )


def _dictionary(folder: Path) -> Path | None:
    """Of binarized data, of SQuAD's features, or of a GLUE task."""
    return next((path for path in (folder / "dict.txt", folder / "input0" / "dict.txt") if path.is_file()), None)
