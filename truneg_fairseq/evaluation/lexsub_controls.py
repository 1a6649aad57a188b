"""Who may answer in place of a trained model: chance, input embeddings without the sentence, a table looked up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..objectives.soft_targets import synonym_targets
from ..synonyms.table import SynonymTable
from .lexsub_places import Place
from .scorer import MaskedLm

LOOK_UP_WEIGHT = 0.1
"""Of the table beside the model's probability."""
_TEMPERATURE = 0.1  # of cosines, as of --target-smoothing synonyms
_DRAWS = 4


class Predictor(Protocol):
    """Anything that gives each token a probability where a target stands."""

    def rows(self, places: Sequence[Place], mask: int | None) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """The index of a place and the logarithms of the probabilities there, float32, shape (V,), in any order.

        Of a place with several rows the mean of the metrics counts. ``mask`` takes the target's place; None keeps it.
        """


class Trained:
    """The model itself."""

    def __init__(self, model: MaskedLm) -> None:
        self._model = model

    def rows(self, places: Sequence[Place], mask: int | None) -> Iterator[tuple[int, NDArray[np.float32]]]:
        for batch, found in self._model.log_probabilities([place.query(mask) for place in places]):
            yield from zip(batch, found.cpu().numpy(), strict=True)


class Chance:
    """Random orders of the vocabulary, nearly uniform probabilities."""

    def __init__(self, size: int) -> None:
        self._size = size

    def rows(self, places: Sequence[Place], mask: int | None) -> Iterator[tuple[int, NDArray[np.float32]]]:
        random, even = np.random.default_rng(1), -np.log(self._size)
        for index in np.repeat(np.arange(len(places)), _DRAWS):
            yield int(index), (even + 1e-3 * random.standard_normal(self._size)).astype(np.float32)


class EmbeddingCosine:
    """The tokens by the cosine of their input embeddings with that of the target, whatever the sentence."""

    def __init__(self, embeddings: Tensor) -> None:
        self._unit = torch.nn.functional.normalize(embeddings.float(), dim=1)

    def rows(self, places: Sequence[Place], mask: int | None) -> Iterator[tuple[int, NDArray[np.float32]]]:
        for index, place in enumerate(places):
            cosine = self._unit @ self._unit[place.gold]
            yield index, (cosine / _TEMPERATURE).log_softmax(0).cpu().numpy()


class LookUp:
    """A model's probability p where the target is kept, and beside it the table's q: p + 0.1 q, normalised.

    q is what ``--target-smoothing synonyms`` teaches: exp(cosine / 0.1) of the target's synonyms with a cosine of at
    least 0.3 in the model's input embeddings.
    """

    def __init__(self, model: MaskedLm, table: SynonymTable) -> None:
        self._model, self._table = Trained(model), table
        self._embeddings = model.embeddings.cpu()

    def rows(self, places: Sequence[Place], mask: int | None) -> Iterator[tuple[int, NDArray[np.float32]]]:
        for index, row in self._model.rows(places, mask):
            gold = places[index].gold
            listed = torch.from_numpy(self._table.synonyms(gold)).long()[None]
            soft = synonym_targets(
                listed,
                torch.tensor([True]),
                LOOK_UP_WEIGHT,
                gold=torch.tensor([gold]),
                embeddings=self._embeddings,
                temperature=_TEMPERATURE,
            )
            assert soft.probability is not None
            mixed = np.exp(row.astype(np.float64))
            mixed[listed[0].numpy()] += float(soft.share) * soft.probability[0].double().numpy()
            yield index, np.log(mixed / mixed.sum()).astype(np.float32)
