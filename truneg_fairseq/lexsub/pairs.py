"""The judged one-token candidates as pairs of tokens in their sentences, and what detectors say of them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import TrueNegError
from ..objectives.acceptance import context_cosine, embedding_cosine, visible_log_probability
from ..progress import Progress
from ..synonyms.table import SynonymTable
from .places import Place, Placer
from .swords import Judgements

if TYPE_CHECKING:
    from .model import MaskedLm

ACCEPTED, CONCEIVABLE = 0.5, 0.1
"""A pair counts as accepted where at least half of those asked accept it, as conceivable from one in ten on."""


@dataclass(frozen=True)
class JudgedPairs:
    """(gold, candidate) pairs in their sentences, in the order of the targets.

    Attributes:
        places: the targets that are one token.
        unknown: number of targets that the vocabulary has no token for.
        target: int64, shape (N,), the index of each pair's place.
        gold: int64, shape (N,), tokens.
        candidate: int64, shape (N,), tokens.
        share: float64, shape (N,), of those asked who accept the candidate.
    """

    places: tuple[Place, ...]
    unknown: int
    target: NDArray[np.int64]
    gold: NDArray[np.int64]
    candidate: NDArray[np.int64]
    share: NDArray[np.float64]

    @classmethod
    def of(cls, judgements: Judgements, placer: Placer) -> JudgedPairs:
        """The pairs of a file whose target and candidate are one token each; a token once a target.

        Raises:
            TrueNegError: there are none.
        """
        placed = tuple(place for target in judgements.targets if (place := placer.place(target)) is not None)
        rows = [
            (index, place.gold, int(place.candidates[number]), place.target.candidates[number].share)
            for index, place in enumerate(placed)
            for number in np.flatnonzero(place.candidates >= 0)
        ]
        if not rows:
            raise TrueNegError(
                f"{judgements.path}: no target with a candidate is in the dictionary, one token each; expected "
                "judgements in the language of the dictionary"
            )
        target, gold, candidate, share = map(np.array, zip(*rows, strict=True))
        return cls(placed, len(judgements.targets) - len(placed), target, gold, candidate, share.astype(np.float64))

    def __len__(self) -> int:
        return len(self.target)

    @property
    def accepted(self) -> NDArray[np.bool_]:
        """Shape (N,)."""
        return self.share >= ACCEPTED

    @property
    def conceivable(self) -> NDArray[np.bool_]:
        """Shape (N,)."""
        return self.share >= CONCEIVABLE

    def listed(self, table: SynonymTable) -> NDArray[np.bool_]:
        """Which pairs a table lists, shape (N,)."""
        size = table.vocabulary_size
        return np.isin(self.gold * size + self.candidate, table.gold.astype(np.int64) * size + table.synonym)


def scores(
    pairs: JudgedPairs, features: Collection[str], *, model: MaskedLm | None, table: SynonymTable | None
) -> dict[str, Tensor]:
    """The features of :data:`truneg_fairseq.objectives.acceptance.MEASURED` of every pair, fp32, shape (N,).

    Args:
        pairs: the pairs.
        features: names.
        model: needed for all but "table".
        table: needed for "table".
    """
    found: dict[str, Tensor] = {}
    if "table" in features:
        assert table is not None
        found["table"] = torch.from_numpy(pairs.listed(table)).float()
    if model is None:
        return found
    gold, candidate = torch.from_numpy(pairs.gold), torch.from_numpy(pairs.candidate)
    if "embedding" in features:
        found["embedding"] = embedding_cosine(model.embeddings.cpu(), gold, candidate)
    if "visible" in features:
        found["visible"] = _visible(pairs, model)
    if {"context", "layers"} & set(features):
        last, mean = _in_context(pairs, model)
        found |= {name: value for name, value in (("context", last), ("layers", mean)) if name in features}
    return found


def _visible(pairs: JudgedPairs, model: MaskedLm) -> Tensor:
    found = torch.empty(len(pairs))
    for index, row in model.log_probabilities(pairs.places):
        mine = np.flatnonzero(pairs.target == index)
        logits = torch.from_numpy(row)[None].expand(len(mine), -1)
        found[torch.from_numpy(mine)] = visible_log_probability(logits, torch.from_numpy(pairs.candidate[mine]))
    return found


def _in_context(pairs: JudgedPairs, model: MaskedLm) -> tuple[Tensor, Tensor]:
    """The cosines in context of the last layer, and the means of all layers'."""
    last, mean = torch.empty(len(pairs)), torch.empty(len(pairs))
    for index in Progress(np.unique(pairs.target).tolist(), desc="context", unit=" targets", leave=False):
        mine = np.flatnonzero(pairs.target == index)
        place = pairs.places[index]
        states = model.states(place, np.array([place.gold, *pairs.candidate[mine]]))
        gold, candidates = states[:, :1], states[:, 1:]
        last[torch.from_numpy(mine)] = context_cosine(gold[-1], candidates[-1])
        mean[torch.from_numpy(mine)] = context_cosine(gold, candidates)
    return last, mean
