"""What a yardstick asks of a masked LM: probabilities at places of token sequences, and states."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..device import choose_device
from ..errors import TrueNegError

WINDOW = 80
"""Tokens of a context, the first and the last included: what every model can read."""


class Query(NamedTuple):
    """A token sequence as the model reads it, and the place that is asked for."""

    tokens: NDArray[np.int64]  # int64, shape (T,)
    position: int


class MaskedLm(ABC):
    """A model in evaluation mode, on the GPU where there is one.

    Args:
        path: the checkpoint or folder, for messages.
        model: the module.
        padding: the token that fills batches up.
        longest: the most tokens that it reads.
        cpu: keep off the GPU.
    """

    embeddings: Tensor
    """The encoder's input embeddings, shape (V, E)."""
    batch_tokens: ClassVar[int] = 4096
    """Of one batch, padding included."""

    def __init__(self, path: Path, model: Any, *, padding: int, longest: int, cpu: bool) -> None:
        self.path, self._padding, self._longest = path, padding, longest
        self._device = choose_device(cpu=cpu)
        self._model = model.float().eval().to(self._device)

    @abstractmethod
    def _logits(self, tokens: Tensor, chosen: Tensor) -> Tensor:
        """The logits, shape (B, V), of the one place of each row of ``tokens``, (B, T), where ``chosen`` is true."""

    @abstractmethod
    def _layers(self, tokens: Tensor) -> Sequence[Tensor]:
        """Every layer's states, each of shape (B, T, H), of ``tokens``, shape (B, T)."""

    @torch.inference_mode()
    def log_probabilities(self, queries: Sequence[Query]) -> Iterator[tuple[list[int], Tensor]]:
        """The logarithms of the probabilities of every token at the places that are asked for.

        Yields:
            The indices of B queries and fp32, shape (B, V), on the device; short sequences first.
        """
        self._check_length(queries)
        for batch in _batches(queries, self.batch_tokens):
            tokens = torch.full((len(batch), max(len(queries[index].tokens) for index in batch)), self._padding)
            chosen = torch.zeros_like(tokens, dtype=torch.bool)
            for row, index in enumerate(batch):
                sequence, position = queries[index]
                tokens[row, : len(sequence)] = torch.from_numpy(sequence)
                chosen[row, position] = True
            logits = self._logits(tokens.to(self._device), chosen.to(self._device))
            if logits.shape != (len(batch), len(self.embeddings)):
                raise TrueNegError(f"{self.path}: has no masked-LM head; expected one of masked-LM training")
            yield batch, logits.float().log_softmax(-1)

    @torch.inference_mode()
    def states(self, query: Query, replacements: NDArray[np.int64]) -> Tensor:
        """Every layer's states at a place with other tokens in it, shape (L, R, H), on the CPU.

        Args:
            query: the sequence and the place.
            replacements: int64, shape (R,).
        """
        self._check_length([query])
        size = max(1, self.batch_tokens // len(query.tokens))
        parts = []
        for begin in range(0, len(replacements), size):
            tokens = np.repeat(query.tokens[None], len(replacements[begin : begin + size]), axis=0)
            tokens[:, query.position] = replacements[begin : begin + size]
            layers = self._layers(torch.from_numpy(tokens).to(self._device))
            parts.append(torch.stack([layer[:, query.position] for layer in layers]).float().cpu())
        return torch.cat(parts, dim=1)

    def _check_length(self, queries: Sequence[Query]) -> None:
        longest = max((len(query.tokens) for query in queries), default=0)
        if longest > self._longest:
            raise TrueNegError(
                f"{self.path}: reads {self._longest} tokens, and the longest context has {longest}; expected a model "
                f"of at least {max(WINDOW, longest)} positions"
            )


def _batches(queries: Sequence[Query], most: int) -> Iterator[list[int]]:
    """Indices of sequences of similar length."""
    batch: list[int] = []
    for index in sorted(range(len(queries)), key=lambda index: len(queries[index].tokens)):
        if (len(batch) + 1) * len(queries[index].tokens) > most and batch:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch
