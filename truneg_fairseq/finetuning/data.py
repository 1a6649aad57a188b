"""Prepared folders: the pre-trained vocabulary in them, and their description."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.tokenizer import TextTokenizer, check_dictionary, load_tokenizer
from ..errors import TrueNegError
from ..files import file_digest, is_new, read_json, replacing_text, require_unsplit
from ..vocabulary import UNKNOWN, fingerprint, read_symbols

INFO_FILE = "info.json"
"""Describes a prepared folder; its ``vocabulary`` is :func:`truneg_fairseq.vocabulary.fingerprint`."""
LENGTHS = (128, 512)
"""The sequence lengths, in tokens, for which the reports count the longer examples."""

# Of a dictionary that was made from a corpus, words of the tokenizer are missing that the corpus does not have. Lacking
# more than this, it is not of the tokenizer's model.
_LACKING_SHARE = 0.5


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
    """The description of a prepared folder."""
    return read_json(folder / INFO_FILE, dict[str, Any], expected="a task's folder, made by 'truneg data prepare'")


def find_made(folder: Path, wanted: Mapping[str, Any]) -> dict[str, Any] | None:
    """The description of a folder that was made before, from the same sources and settings; None without a folder."""
    require_unsplit(folder, "--output-dir")
    if is_new(folder):
        return None
    info = read_info(folder)
    other = [key for key, value in wanted.items() if info.get(key, value) != value]
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
    """How many sequences are longer than each of :data:`LENGTHS`."""
    return {f"longer than {length}": int((lengths > length).sum()) for length in LENGTHS}
