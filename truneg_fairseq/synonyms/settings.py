"""Settings of the sources of synonyms, and which of them a table records."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import TrueNegError
from ..files import file_digest

if TYPE_CHECKING:
    from torch import Tensor

    from ..vocabulary import Vocabulary

DEFAULT_NEIGHBOURS = 10
DEFAULT_LANGUAGE = "eng"

# The sources that each setting is for; an exclusion list is for all.
_USERS = {
    "lang": ("omw", "embeddings", "mythes"),
    "vectors": ("embeddings",),
    "neighbours": ("embeddings", "model"),
    "threshold": ("embeddings", "model"),
    "tsv": ("tsv",),
    "thesaurus": ("mythes",),
    "wn": ("wn",),
    "checkpoint": ("model",),
}
MOST_NEIGHBOURS = 10_000
"""Of 30,000 words these take 4 GB."""

_NEEDS = {"omw": "lang", "embeddings": "vectors", "tsv": "tsv", "model": "checkpoint", "mythes": "lang", "wn": "wn"}


@dataclass(frozen=True)
class CheckpointEmbeddings:
    """A checkpoint's input embeddings and the dictionary they belong to."""

    path: Path  # the checkpoint
    embeddings: Tensor  # shape (V, E), any floating dtype
    vocabulary: Vocabulary  # V tokens

    def __str__(self) -> str:
        return str(self.path)

    @property
    def sha256(self) -> str:
        """SHA-256 of the checkpoint file, hexadecimal."""
        return file_digest(self.path)


@dataclass(frozen=True)
class LexiconSettings:
    """The settings of all sources; None where the user gave none."""

    # ISO 639-3 code of the language of ``omw`` and ``mythes``, and of the stop words of ``embeddings``
    lang: str | None = None
    vectors: Path | None = None  # the file of ``embeddings``
    neighbours: int | None = None  # how many nearest words ``embeddings`` lists and ``model`` considers, None for 10
    # the smallest cosine of a neighbour, in [-1, 1]; None for no limit of ``embeddings``, and for 0.6 of ``model``
    threshold: float | None = None
    tsv: Path | None = None  # the file of ``tsv``
    thesaurus: Path | None = None  # the file of ``mythes``; None for the one that is installed for the language
    wn: str | None = None  # the installed wordnet of ``wn``, such as ``oewn:2024``
    exclude: Path | None = None  # a file in the same format of pairs that are not synonyms
    checkpoint: CheckpointEmbeddings | None = None  # the embeddings of ``model``
    flags: str = "--"  # how the flags begin where these settings were given, for messages: "--" or "--synonym-"

    @property
    def source_flag(self) -> str:
        """The flag that names the source."""
        return f"{self.flags}source"

    @property
    def neighbour_count(self) -> int:
        """How many nearest words ``embeddings`` lists."""
        return DEFAULT_NEIGHBOURS if self.neighbours is None else self.neighbours

    @property
    def name_data(self) -> bool:
        """Whether any names the data of a source."""
        return any(getattr(self, setting) is not None for setting in (*_NEEDS.values(), "thesaurus"))

    def check(self, sources: Collection[str]) -> None:
        """Refuses what a source lacks, what no source uses, and what is out of range.

        Args:
            sources: the names in the source expression.
        """
        for source in sorted(sources):
            if (flag := self.lacks(source)) is not None:
                raise TrueNegError(
                    f"{self.source_flag}: {source} needs {flag}, found none; expected {_EXPECTED[source]}"
                )
        for setting, users in _USERS.items():
            value = getattr(self, setting)
            if value is not None and not set(sources) & set(users):
                raise TrueNegError(
                    f"{self.flags}{setting} {value}: has no effect on the source {' '.join(sorted(sources))}; expected "
                    f"{' or '.join(users)} in {self.source_flag}"
                )
        if self.lang is not None and len(self.lang) == len("fr") and "omw" not in sources:  # which lists its codes
            raise TrueNegError(
                f"{self.flags}lang {self.lang}: expected an ISO 639-3 code of three letters, such as fra"
            )
        if self.neighbour_count < 1:
            raise TrueNegError(f"{self.flags}neighbours: found {self.neighbours}, expected a number >= 1")
        if self.neighbour_count > MOST_NEIGHBOURS:
            raise TrueNegError(f"{self.flags}neighbours: found {self.neighbours}, expected at most {MOST_NEIGHBOURS}")
        if self.threshold is not None and not (math.isfinite(self.threshold) and -1 <= self.threshold <= 1):
            raise TrueNegError(f"{self.flags}threshold: found {self.threshold}, expected a cosine in [-1, 1]")

    def only_for(self, sources: Collection[str]) -> LexiconSettings:
        """These settings without those that none of the sources uses."""
        unused: dict[str, Any] = {setting: None for setting, users in _USERS.items() if not set(sources) & set(users)}
        return replace(self, **unused)

    def lacks(self, source: str) -> str | None:
        """The flag that a source cannot do without and that was not given; None where there is none."""
        setting = _NEEDS.get(source)
        return f"{self.flags}{setting}" if setting is not None and getattr(self, setting) is None else None

    def record(self, sources: Collection[str]) -> dict[str, Any]:
        """What a table from these sources remembers of the settings, JSON-able; files by their SHA-256."""
        record: dict[str, Any] = {}
        if {"omw", "mythes"} & set(sources) or ("embeddings" in sources and self.lang is not None):
            record["lang"] = self.lang
        if "embeddings" in sources or "model" in sources:
            record["neighbours"] = self.neighbour_count
        if "embeddings" in sources:
            record["threshold"] = self.threshold
        if "wn" in sources:
            record["wn"] = self.wn
        if "model" in sources and self.checkpoint is not None:
            record["checkpoint_sha256"] = self.checkpoint.sha256
        for setting in ("vectors", "tsv", "thesaurus", "exclude"):
            path = getattr(self, setting)
            if path is not None and set(sources) & set(_USERS.get(setting, sources)):
                record[f"{setting}_sha256"] = file_digest(path)
        return record


_EXPECTED = {
    "omw": "the ISO 639-3 code of a language, such as fra",
    "embeddings": "a file of word vectors (GloVe, word2vec text or binary)",
    "tsv": "a file of lines 'word<TAB>synonym,synonym'",
    "model": "a fairseq checkpoint of the dictionary's model",
    "mythes": "the ISO 639-3 code of a language, such as fra",
    "wn": "an installed wordnet of the package wn, such as oewn:2024",
}
