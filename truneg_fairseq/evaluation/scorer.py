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

from ..errors import TrueNegError
from ..objectives import EncoderPasses, MaskedPredictions, Passes, TrueNegativeObjective
from ..workers import choose_device

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
        self.path, self.padding, self.longest = path, padding, longest
        self._device = choose_device(cpu=cpu)
        self._model = model.float().eval().to(self._device)

    @abstractmethod
    def _logits(self, tokens: Tensor, chosen: Tensor) -> Tensor:
        """The logits, shape (N, V), of the N places of ``tokens``, (B, T), where ``chosen`` is true, row by row."""

    @abstractmethod
    def _layers(self, tokens: Tensor, original: Tensor) -> Sequence[Tensor]:
        """Every layer's states, each of shape (B, T, H), of ``tokens``, shape (B, T).

        Padding and segments are those of ``original``, shape (B, T): another token in its place is a word.
        """

    @torch.inference_mode()
    def log_probabilities(self, queries: Sequence[Query]) -> Iterator[tuple[list[int], Tensor]]:
        """The logarithms of the probabilities of every token at the places that are asked for.

        Yields:
            The indices of B queries and fp32, shape (B, V), on the device; short sequences first.
        """
        self._check_length(queries)
        for batch in _batches(queries, self.batch_tokens):
            tokens = torch.full((len(batch), max(len(queries[index].tokens) for index in batch)), self.padding)
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
            given = torch.from_numpy(tokens).to(self._device)
            layers = self._layers(given, given)
            parts.append(torch.stack([layer[:, query.position] for layer in layers]).float().cpu())
        return torch.cat(parts, dim=1)

    @torch.inference_mode()
    def mean_states(self, sequences: Sequence[NDArray[np.int64]]) -> Tensor:
        """The mean over its tokens of the last layer's states of every sequence, fp32, shape (N, H), on the CPU."""
        queries, means = [Query(sequence, 0) for sequence in sequences], dict[int, Tensor]()
        for batch in _batches(queries, self.batch_tokens):
            rows = [torch.from_numpy(sequences[index]) for index in batch]
            tokens = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=self.padding)
            lengths = torch.tensor([[len(row)] for row in rows], device=self._device)
            there = torch.arange(tokens.shape[1], device=self._device) < lengths
            states = self._layers(tokens.to(self._device), tokens.to(self._device))[-1].float()
            total = (states * there.unsqueeze(-1)).sum(1)
            means |= zip(batch, (total / lengths).cpu(), strict=True)
        return torch.stack([means[index] for index in range(len(sequences))])

    @torch.no_grad()
    def judge(
        self, objective: TrueNegativeObjective, tokens: Tensor, target: Tensor, *, with_layers: bool = False
    ) -> tuple[MaskedPredictions, Passes]:
        """What it predicts at masked tokens, judged by an objective, and the passes that this took.

        Args:
            objective: on the CPU, or on the model's device.
            tokens: int64, shape (B, T), masked.
            target: int64, shape (B, T), the original tokens at masked positions and padding elsewhere.
            with_layers: give the states of all layers, whether the objective compares them or not.
        """
        objective, tokens, target = objective.to(self._device), tokens.to(self._device), target.to(self._device)
        chosen = target.ne(self.padding)
        logits = self._logits(tokens, chosen)
        predicted = objective.predict(logits, target, tokens, chosen.reshape(-1).nonzero().squeeze(1))
        passes = EncoderPasses(
            predicted,
            objective.settings,
            embeddings=lambda: self.embeddings,
            encode=lambda given, *_: self._layers(given, predicted.original),
            predict=lambda _: self._logits(predicted.original, chosen),
            with_layers=with_layers or objective.settings.uses_context,
        )
        return objective.judge(predicted, passes), passes

    def _check_length(self, queries: Sequence[Query]) -> None:
        longest = max((len(query.tokens) for query in queries), default=0)
        if longest > self.longest:
            raise TrueNegError(
                f"{self.path}: reads {self.longest} tokens, and the longest context has {longest}; expected a model "
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
