"""The judged one-token candidates as pairs of tokens in their sentences, and what detectors say of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..objectives.acceptance import context_cosine, embedding_cosine
from ..synonyms.table import SynonymTable
from ..workers import Progress
from .lexsub_places import Place, place_target, require_some
from .swords import Judgements

if TYPE_CHECKING:
    from .scorer import MaskedLm
    from .tokens import Tokens

ACCEPTED, CONCEIVABLE = 0.5, 0.1
"""A pair counts as accepted where at least half of those asked accept it, as conceivable from one in ten on."""


@dataclass(frozen=True)
class JudgedPairs:
    """(gold, candidate) pairs in their sentences, in the order of the targets."""

    places: tuple[Place, ...]  # the targets that are one token
    unknown: int  # number of targets that the vocabulary has no token for
    target: NDArray[np.int64]  # int64, shape (N,), the index of each pair's place
    gold: NDArray[np.int64]  # int64, shape (N,), tokens
    candidate: NDArray[np.int64]  # int64, shape (N,), tokens
    share: NDArray[np.float64]  # float64, shape (N,), of those asked who accept the candidate

    @classmethod
    def of(cls, judgements: Judgements, tokens: Tokens) -> JudgedPairs:
        """The pairs of a file whose target and candidate are one token each; a token once a target."""
        placed = tuple(place for target in judgements.targets if (place := place_target(target, tokens)) is not None)
        rows = [
            (index, place.gold, int(place.candidates[number]), place.target.candidates[number].share)
            for index, place in enumerate(placed)
            for number in np.flatnonzero(place.candidates >= 0)
        ]
        require_some(rows, judgements.path)
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
    """The features of :data:`truneg_fairseq.objectives.acceptance.FEATURES` of every pair, fp32, shape (N,).

    "table" needs the table, all others the model.
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
    if "context" in features:
        found["context"] = torch.empty(len(pairs))
        for mine, gold_states, states in states_in_context(pairs, model):
            found["context"][mine] = context_cosine(gold_states, states)
    return found


def states_in_context(pairs: JudgedPairs, model: MaskedLm) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Every layer's states where the targets stand, target by target, with a bar of progress.

    Yields:
        int64, shape (M,), which pairs belong to the target; the states with the gold word, shape (L, 1, H), and with
        each candidate in its place, shape (L, M, H).
    """
    for index in Progress(np.unique(pairs.target).tolist(), desc="context", unit=" targets", leave=False):
        mine = np.flatnonzero(pairs.target == index)
        place = pairs.places[index]
        states = model.states(place.query(), np.array([place.gold, *pairs.candidate[mine]]))
        yield torch.from_numpy(mine), states[:, :1], states[:, 1:]
