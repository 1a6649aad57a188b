"""Settings of the sources of synonyms, and which of them a table records."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import TrueNegError
from ..files import file_digest
from ..options import option

if TYPE_CHECKING:
    from torch import Tensor

    from ..vocabulary import Vocabulary

NEEDS = {"embeddings": "vectors", "tsv": "tsv", "model": "checkpoint", "wn": "wn"}
"""The setting that a source cannot do without."""


@dataclass(frozen=True)
class CheckpointEmbeddings:
    """A checkpoint's input embeddings and the dictionary they belong to."""

    path: Path
    embeddings: Tensor  # shape (V, E), any floating dtype
    vocabulary: Vocabulary  # V tokens


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """What the sources of synonyms are given on a command line; None where nothing is."""

    vectors: Path | None = option(
        None,
        "for embeddings, and for the cosines of any table's pairs (--target-smoothing-shape vectors and rank): GloVe, "
        "word2vec text or binary; also .gz, .bz2, .xz, .zip",
    )
    threshold: float | None = option(
        None, "for embeddings (default: none) and model (0.6): smallest cosine", ge=-1, le=1
    )
    tsv: Path | None = option(None, "for tsv: lines 'word<TAB>synonym,synonym'")
    wn: str | None = option(None, "for wn: an installed wordnet of the package wn, such as oewn:2024", metavar="NAME")
    exclude: Path | None = option(None, "pairs that are synonyms in no source, in the format of --tsv")


@dataclass(frozen=True, kw_only=True)
class LexiconSettings(SourceOptions):
    """The settings of all sources."""

    checkpoint: CheckpointEmbeddings | None = None  # the embeddings of ``model``
    neighbours: int = 10  # of ``embeddings`` and ``model``: the nearest words that are considered

    def check(self, sources: Collection[str]) -> None:
        """Refuses what a source lacks, and files that are not there."""
        for source in sorted(NEEDS.keys() & set(sources)):
            if getattr(self, NEEDS[source]) is None:
                raise TrueNegError(f"--source {source}: needs --{NEEDS[source]}")
        for name in ("vectors", "tsv", "exclude"):
            path = getattr(self, name)
            if path is not None and not path.exists():
                raise TrueNegError(f"--{name} {path}: no such file")

    def record(self, sources: Collection[str]) -> dict[str, Any]:
        """What a table from these sources remembers of the settings, JSON-able; files by their SHA-256."""
        options = {"embeddings": ("neighbours", "threshold"), "model": ("neighbours",), "wn": ("wn",)}
        record = {name: getattr(self, name) for source in sources for name in options.get(source, ())}
        files = {"exclude": self.exclude, "vectors": self.vectors}
        for source in {"tsv", "model"} & set(sources):
            data = getattr(self, NEEDS[source])
            files[NEEDS[source]] = data.path if isinstance(data, CheckpointEmbeddings) else data
        return record | {f"{name}_sha256": file_digest(path) for name, path in files.items() if path is not None}
