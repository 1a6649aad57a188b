"""The synonym table of one dictionary, and its file."""

from __future__ import annotations

import json
import zipfile
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import TrueNegError, reason
from ..files import replacing

FORMAT = "truneg_fairseq.synonyms/1"
_MEMBERS = ("gold", "metadata", "synonym")


@dataclass(frozen=True)
class SynonymTable:
    """Ordered (gold, synonym) pairs of token ids: V of the paper, for one dictionary.

    Attributes:
        gold: int32, shape (P,), ascending; the gold token of each pair.
        synonym: int32, shape (P,), ascending within a gold token; a prediction that is no mistake.
        vocabulary_size: number of tokens of the dictionary, special symbols and ``<mask>`` included.
        fingerprint: of the dictionary (:attr:`truneg_fairseq.vocabulary.Vocabulary.fingerprint`).
        tokenization: how the dictionary's whole words were understood.
        source: the lexicon's name.
        options: the lexicon's options, JSON-able.
        known_words: number of the dictionary's words that the lexicon lists.
    """

    gold: NDArray[np.int32]
    synonym: NDArray[np.int32]
    vocabulary_size: int
    fingerprint: str
    tokenization: str
    source: str
    options: dict[str, Any] = field(default_factory=dict)
    known_words: int = 0

    def __len__(self) -> int:
        return len(self.gold)

    @property
    def coverage(self) -> float:
        """Share of the dictionary's tokens that the lexicon lists, in [0, 1]; the paper's 62.51 %."""
        return self.known_words / max(1, self.vocabulary_size)

    @property
    def keys(self) -> int:
        """Number of tokens with at least one synonym."""
        return len(np.unique(self.gold))

    @property
    def summary(self) -> str:
        """Coverage, pairs and lengths of the lists, as a line."""
        lengths = np.unique(self.gold, return_counts=True)[1]
        return (
            f"{self.source} lists {self.known_words} of {self.vocabulary_size} tokens ({100 * self.coverage:.2f} %); "
            f"{len(self)} usable pairs over {len(lengths)} tokens "
            f"(mean {lengths.mean():.1f}, at most {lengths.max()} synonyms)"
        )

    def synonyms(self, token: int) -> NDArray[np.int32]:
        """The synonyms of one token id, int32, shape (K,), ascending."""
        start, stop = np.searchsorted(self.gold, [token, token + 1])
        return self.synonym[start:stop]

    def check_dictionary(self, fingerprint: str, path: Path, dictionary: str) -> None:
        """Refuses a table that belongs to another dictionary.

        Args:
            fingerprint: of the dictionary in use.
            path: the table's file, for the message.
            dictionary: what to call the dictionary in the message.

        Raises:
            TrueNegError: the fingerprints differ.
        """
        if fingerprint != self.fingerprint:
            raise TrueNegError(
                f"{path}: belongs to another dictionary (fingerprint {self.fingerprint[:12]}, {self.vocabulary_size} "
                f"tokens; expected {fingerprint[:12]} of {dictionary}); delete it, or build one with "
                "'truneg synonyms build'"
            )

    def save(self, path: Path) -> None:
        """Writes the table as a compressed npz without pickles; the file appears whole or not at all.

        Raises:
            OSError: the folder cannot be written.
        """
        metadata = {
            "format": FORMAT,
            "fingerprint": self.fingerprint,
            "vocabulary_size": self.vocabulary_size,
            "tokenization": self.tokenization,
            "source": self.source,
            "options": self.options,
            "known_words": self.known_words,
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            np.savez_compressed(
                file, gold=self.gold, synonym=self.synonym, metadata=np.array(json.dumps(metadata, sort_keys=True))
            )

    @classmethod
    def load(cls, path: Path) -> SynonymTable:
        """Reads a table; nothing in the file is ever unpickled.

        Raises:
            TrueNegError: no such file, not a table, truncated, or its pairs are not well-formed.
        """
        try:
            return cls._load(path)
        except FileNotFoundError:
            raise TrueNegError(
                f"{path}: no such file; expected a synonym table (build one with 'truneg synonyms build')"
            ) from None
        except (OSError, EOFError, ValueError, KeyError, TypeError, zipfile.BadZipFile, zlib.error) as error:
            raise TrueNegError(
                f"{path}: not a synonym table, or a damaged one ({reason(error)}); expected the npz that "
                "'truneg synonyms build' writes; build it again"
            ) from None

    @classmethod
    def _load(cls, path: Path) -> SynonymTable:
        with path.open("rb") as file:
            if file.read(4) != b"PK\x03\x04":  # np.load would go on to try .npy and pickles
                raise ValueError("not a zip archive")
        with np.load(path, allow_pickle=False) as archive:
            if tuple(sorted(archive.files)) != _MEMBERS:
                raise ValueError(f"holds {sorted(archive.files)}, expected {list(_MEMBERS)}")
            gold, synonym = archive["gold"], archive["synonym"]
            metadata = json.loads(str(archive["metadata"][()]))
        if not isinstance(metadata, dict) or metadata.get("format") != FORMAT:
            raise ValueError(f"format {metadata.get('format') if isinstance(metadata, dict) else None!r}")
        table = cls(
            gold=gold,
            synonym=synonym,
            vocabulary_size=int(metadata["vocabulary_size"]),
            fingerprint=str(metadata["fingerprint"]),
            tokenization=str(metadata["tokenization"]),
            source=str(metadata["source"]),
            options=dict(metadata["options"]),
            known_words=int(metadata["known_words"]),
        )
        table._validate()
        return table

    def _validate(self) -> None:
        for name, ids in (("gold", self.gold), ("synonym", self.synonym)):
            if ids.dtype != np.int32 or ids.ndim != 1:
                raise ValueError(f"{name} is {ids.dtype} of {ids.ndim} dimensions, expected int32 of 1")
            if len(ids) and (ids.min() < 0 or ids.max() >= self.vocabulary_size):
                raise ValueError(f"{name} has ids outside 0..{self.vocabulary_size - 1}")
        if len(self.gold) != len(self.synonym):
            raise ValueError(f"{len(self.gold)} gold tokens but {len(self.synonym)} synonyms")
        keys = self.gold.astype(np.int64) * self.vocabulary_size + self.synonym
        if np.any(np.diff(keys) <= 0):
            raise ValueError("its pairs are not sorted")
