"""The passes of a model that detectors, soft targets and sentence-level regularization share."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from .predictions import MaskedPredictions, at_positions, fill
from .settings import ObjectiveSettings


class Passes(Protocol):
    """What the objective asks of a model beyond the logits at the masked positions. No pass is made twice."""

    def embeddings(self) -> Tensor:
        """The input embedding matrix, shape (V, E)."""
        ...

    def original(self) -> Tensor:
        """The last layer's states of the original sentences, shape (B, T, H)."""
        ...

    def filled(self) -> tuple[Tensor, Tensor]:
        """Sentences with other words at the masked positions, int64, shape (B, T), and their states, (B, T, H)."""
        ...

    def layers(self) -> tuple[Tensor, Tensor]:
        """Every layer's states at the masked positions of the original and of the filled sentences, shape (L, N, H)
        each, without gradient. Asked for where :attr:`ObjectiveSettings.uses_context` is true.
        """
        ...

    def visible(self) -> Tensor:
        """The logits at the masked positions of the original sentences, shape (N, V), without gradient."""
        ...


class Encoded(NamedTuple):
    """What is kept of a pass."""

    last: Tensor  # shape (B, T, H), the last layer's states
    # shape (L, N, H), all layers' at the masked positions, without gradient; None where none are compared
    layers: Tensor | None

    @classmethod
    def of(cls, states: Sequence[Tensor], predicted: MaskedPredictions, *, with_layers: bool) -> Encoded:
        """Of the layers' states, shape (B, T, H) each."""
        layers = torch.stack([at_positions(layer.detach(), predicted) for layer in states]) if with_layers else None
        return cls(states[-1], layers)


class EncoderPasses:
    """The passes of a masked-LM encoder, each made when it is first asked for.

    Dropout is on in a pass only where sentence-level regularization trains on it and nothing else reads it, or where it
    needs its gradient.

    Args:
        predicted: the predictions.
        settings: decide on gradient and dropout.
        embeddings: finds the input embedding matrix.
        encode: takes tokens, int64, shape (B, T), whether a gradient is wanted and whether dropout is; gives the
            states of the layers, shape (B, T, H) each, the last layer's last. Without ``with_layers`` those of the last
            layer are enough.
        predict: takes what gives the last layer's states of the original sentences, and gives the logits at the masked
            positions, shape (N, V), without gradient and dropout.
        with_layers: give :meth:`layers`; needed where ``settings.uses_context`` is true.
        filled: the filled sentences and their states, as ``encode`` gives them, where that pass is made already; None
            to fill the sentences with the predictions.
    """

    def __init__(
        self,
        predicted: MaskedPredictions,
        settings: ObjectiveSettings,
        *,
        embeddings: Callable[[], Tensor],
        encode: Callable[[Tensor, bool, bool], Sequence[Tensor]],
        predict: Callable[[Callable[[], Tensor]], Tensor],
        with_layers: bool,
        filled: tuple[Tensor, Sequence[Tensor]] | None = None,
    ) -> None:
        self._predicted = predicted
        self._settings = settings
        self._encode = encode
        self._predict = predict
        self._with_layers = with_layers
        self._original: Encoded | None = None
        self._filled = None if filled is None else (filled[0], self._keep(filled[1]))
        self._visible: Tensor | None = None
        # Detectors and soft targets, which want no gradient, may be the first to ask for a pass that trains.
        self._gradient = torch.is_grad_enabled()
        self.embeddings = embeddings

    def original(self) -> Tensor:
        """See :class:`Passes`."""
        return self._read_original().last

    def filled(self) -> tuple[Tensor, Tensor]:
        """See :class:`Passes`."""
        tokens, read = self._read_filled()
        return tokens, read.last

    def layers(self) -> tuple[Tensor, Tensor]:
        """See :class:`Passes`."""
        original, filled = self._read_original().layers, self._read_filled()[1].layers
        assert original is not None
        assert filled is not None
        return original, filled

    def visible(self) -> Tensor:
        """See :class:`Passes`."""
        if self._visible is None:
            self._visible = self._predict(self.original)
        return self._visible

    def _read_original(self) -> Encoded:
        if self._original is None:
            self._original = self._read(self._predicted.original, False, not self._settings.reads_original)
        return self._original

    def _read_filled(self) -> tuple[Tensor, Encoded]:
        if self._filled is None:
            tokens = fill(self._predicted, self._predicted.prediction)
            trained = self._settings.sr_sent_weight != 0
            self._filled = tokens, self._read(tokens, trained, trained)
        return self._filled

    def _read(self, tokens: Tensor, gradient: bool, dropout: bool) -> Encoded:
        with torch.set_grad_enabled(self._gradient):
            return self._keep(self._encode(tokens, gradient, dropout))

    def _keep(self, states: Sequence[Tensor]) -> Encoded:
        return Encoded.of(states, self._predicted, with_layers=self._with_layers)


@contextlib.contextmanager
def dropout_off(module: nn.Module, off: bool = True) -> Iterator[None]:
    """Has the modules that train evaluate for a while; nothing else about them changes."""
    training = [part for part in module.modules() if part.training] if off else []
    for part in training:
        part.training = False
    try:
        yield
    finally:
        for part in training:
            part.training = True
