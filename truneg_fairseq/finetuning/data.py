"""What all data for fine-tuning share: the pre-trained vocabulary, a description, a folder that appears whole."""

from __future__ import annotations

import contextlib
import hashlib
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.tokenizer import TextTokenizer, load_tokenizer
from ..data.tokenizer_fit import check_dictionary
from ..errors import TrueNegError
from ..files import make_output_folder, replacing_text, writing
from ..vocabulary import fingerprint, read_symbols
from .lock import alone

INFO_FILE = "info.json"
"""Describes a folder of data for fine-tuning; its ``vocabulary`` is :func:`truneg_fairseq.vocabulary.fingerprint`."""

LENGTHS = (128, 512)
"""The sequence lengths, in tokens, for which the reports count the longer examples."""

BOS, EOS, UNKNOWN = 0, 2, 3
"""The ids of ``<s>``, ``</s>`` and ``<unk>`` in every fairseq dictionary."""

# Of a dictionary that was made from a corpus, words of the tokenizer are missing that the corpus does not have. Lacking
# more than this, it is not of the tokenizer's model.
_LACKING_SHARE = 0.5


@dataclass(frozen=True)
class PretrainedVocabulary:
    """The dictionary and the tokenizer of a folder of binarized data.

    Attributes:
        folder: the folder.
        symbols: the dictionary's symbols by id.
        tokenizer: what makes symbols of text.
    """

    folder: Path
    symbols: tuple[str, ...]
    tokenizer: TextTokenizer

    @classmethod
    def load(cls, folder: Path) -> PretrainedVocabulary:
        """Reads ``dict.txt`` and the tokenizer's files beside it.

        Raises:
            TrueNegError: a file is missing or broken, or dictionary and tokenizer are not of one model.
        """
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
    """The description of a folder of data for fine-tuning.

    Raises:
        TrueNegError: there is none, or it is broken.
    """
    path = folder / INFO_FILE
    try:
        info = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not JSON"
        raise TrueNegError(
            f"{path}: cannot be read ({reason}); expected data of prepare_glue.py or prepare_squad.py"
        ) from None
    if not isinstance(info, dict) or "vocabulary" not in info:
        raise TrueNegError(f"{path}: has no vocabulary; expected data of prepare_glue.py or prepare_squad.py")
    return info


def find_made(folder: Path, wanted: Mapping[str, Any]) -> dict[str, Any] | None:
    """The description of a folder that was made before from the same sources with the same settings.

    Args:
        folder: the folder.
        wanted: what its description should say.

    Returns:
        None where there is no such folder yet.

    Raises:
        TrueNegError: the folder is something else.
    """
    if not folder.exists():
        return None
    info = read_info(folder)
    other = [key for key, value in wanted.items() if info.get(key) != value]
    if other:
        raise TrueNegError(
            f"{folder}: was made with another {', another '.join(other)}; remove it or choose another --output-dir"
        )
    return info


@contextlib.contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A folder to fill that takes the name ``folder`` when the block ends well, and leaves nothing when it fails.

    One process fills it at a time.

    Raises:
        TrueNegError: it cannot be made, the disk is full, another process is filling it, or ``folder`` has appeared
            meanwhile.
    """
    make_output_folder(folder.parent)
    with (
        _alone(folder),
        writing(folder),
        tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as staging,
    ):
        filled = Path(staging) / folder.name
        filled.mkdir()
        yield filled
        filled.rename(folder)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    lock = folder.with_name(f".{folder.name}.lock")
    with alone(lock, f"{folder}: another process prepares it"):
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)


def write_info(folder: Path, info: Mapping[str, Any]) -> None:
    """Writes the description of :func:`read_info`."""
    with replacing_text(folder / INFO_FILE) as stream:
        json.dump(info, stream, indent=1, ensure_ascii=False)
        stream.write("\n")


def describe_sources(files: Mapping[str, Path]) -> dict[str, dict[str, str]]:
    """By split, the name and the SHA-256 (hex) of the file.

    Raises:
        TrueNegError: a file cannot be read.
    """
    described = {}
    for split, path in files.items():
        try:
            with path.open("rb") as stream:
                digest = hashlib.sha256()
                while block := stream.read(1 << 20):
                    digest.update(block)
        except OSError as error:
            raise TrueNegError(f"{path}: cannot be read ({error.strerror})") from None
        described[split] = {"file": path.name, "sha256": digest.hexdigest()}
    return described


def count_longer(lengths: NDArray[np.int64]) -> dict[str, int]:
    """How many sequences are longer than each of :data:`LENGTHS`, by length."""
    return {str(length): int((lengths > length).sum()) for length in LENGTHS}
