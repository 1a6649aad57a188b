"""The synonym table of one dictionary, and its file."""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import TrueNegError
from ..files import parse_json, read_arrays, save_arrays

_EXPECTED = "a synonym table, the npz that 'truneg synonyms build' writes"


@dataclass(frozen=True, kw_only=True)
class _Metadata:
    """What a table's file says beside its pairs."""

    vocabulary_size: int  # number of tokens of the dictionary, special symbols and ``<mask>`` included
    fingerprint: str  # of the dictionary (:attr:`truneg_fairseq.vocabulary.Vocabulary.fingerprint`)
    tokenization: str  # how the dictionary's whole words were understood
    source: str  # the lexicon's name
    options: dict[str, Any] = field(default_factory=dict)  # the lexicon's options, JSON-able
    known_words: int = 0  # number of the dictionary's words that the lexicon lists
    version: str = ""  # of this package; older tables do not say it


@dataclass(frozen=True, kw_only=True)
class SynonymTable(_Metadata):
    """Ordered (gold, synonym) pairs of token ids: V of the paper, for one dictionary."""

    gold: NDArray[np.int32]  # int32, shape (P,), ascending; the gold token of each pair
    # int32, shape (P,), ascending within a gold token; a prediction that does not count as a mistake
    synonym: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.gold)

    @property
    def coverage(self) -> float:
        """Share of the dictionary's tokens that the lexicon lists, in [0, 1]; the paper's 62.51 %."""
        return self.known_words / max(1, self.vocabulary_size)

    @property
    def pair_keys(self) -> NDArray[np.int64]:
        """Each pair as one number, gold * V + synonym: int64, shape (P,), ascending."""
        return self.gold.astype(np.int64) * self.vocabulary_size + self.synonym

    @property
    def summary(self) -> str:
        """Coverage, pairs and lengths of the lists, as a line."""
        lengths = np.unique(self.gold, return_counts=True)[1]
        version = f" (WordNet {self.options['wordnet']})" if "wordnet" in self.options else ""
        return (
            f"{self.source}{version} lists {self.known_words} of {self.vocabulary_size} tokens "
            f"({100 * self.coverage:.2f} %); "
            f"{len(self)} usable pairs over {len(lengths)} tokens "
            f"(mean {len(self) / max(1, len(lengths)):.1f}, at most {lengths.max(initial=0)} synonyms)"
        )

    def synonyms(self, token: int) -> NDArray[np.int32]:
        """The synonyms of one token id, int32, shape (K,), ascending."""
        start, stop = np.searchsorted(self.gold, [token, token + 1])
        return self.synonym[start:stop]

    def check_dictionary(self, fingerprint: str, path: Path, dictionary: str) -> None:
        """Refuses a table that belongs to another dictionary; the file and the dictionary are for the message."""
        if fingerprint != self.fingerprint:
            raise TrueNegError(
                f"{path}: belongs to another dictionary (fingerprint {self.fingerprint[:12]}, {self.vocabulary_size} "
                f"tokens; expected {fingerprint[:12]} of {dictionary}); delete it, or build one with "
                "'truneg synonyms build'"
            )

    def save(self, path: Path) -> None:
        """Writes the table as an npz."""
        metadata = {each.name: getattr(self, each.name) for each in fields(_Metadata)}
        save_arrays(path, metadata, gold=self.gold, synonym=self.synonym)

    @classmethod
    def load(cls, path: Path) -> SynonymTable:
        """Reads a table; nothing in the file is ever unpickled."""
        arrays = read_arrays(path, ("gold", "synonym", "metadata"), expected=_EXPECTED)
        metadata = parse_json(str(arrays["metadata"]), f"{path}: metadata", _Metadata, expected=_EXPECTED)
        gold, synonym = arrays["gold"], arrays["synonym"]
        kept = gold.dtype == synonym.dtype == np.int32 and gold.ndim == 1 and gold.shape == synonym.shape
        ids = np.concatenate([gold, synonym]) if kept else np.array([-1])
        if not (kept and ((ids >= 0) & (ids < metadata.vocabulary_size)).all() and (np.diff(gold) >= 0).all()):
            raise TrueNegError(
                f"{path}: its pairs are not ids of its {metadata.vocabulary_size} tokens in their order; expected "
                f"{_EXPECTED}"
            )
        return cls(gold=gold, synonym=synonym, **asdict(metadata))


def compare_tables(left: SynonymTable, right: SynonymTable) -> list[NDArray[np.int32]]:
    """The (gold, synonym) pairs of both tables of one dictionary, of the first one alone and of the second one alone.

    Each int32, shape (P, 2), ascending.
    """
    a, b = left.pair_keys, right.pair_keys
    found = (np.intersect1d(a, b), np.setdiff1d(a, b), np.setdiff1d(b, a))
    return [np.stack(np.divmod(keys, left.vocabulary_size), axis=1).astype(np.int32) for keys in found]


def sample_pairs(pairs: NDArray[np.int32], count: int, seed: int) -> NDArray[np.int32]:
    """A random sample of pairs, shape (min(count, P), 2) of (P, 2), in their order."""
    chosen = random.Random(seed).sample(range(len(pairs)), min(count, len(pairs)))
    return pairs[sorted(chosen)]
