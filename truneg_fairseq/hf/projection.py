"""The vocabulary projection of transformers' masked LMs at the masked positions only."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

logger = logging.getLogger(__name__)

# By type of the configuration, the first module of the head: it and all that follow work on each position alone.
_HEADS: dict[str, tuple[str, ...]] = {
    "bert": ("cls",),
    "roberta": ("lm_head",),
    "xlm-roberta": ("lm_head",),
    "camembert": ("lm_head",),
    "distilbert": ("vocab_transform",),
    "electra": ("generator_predictions",),
    "modernbert": ("head",),
    "deberta": ("cls", "lm_predictions"),
    "deberta-v2": ("cls", "lm_predictions"),
    "albert": ("predictions",),
    "mpnet": ("lm_head",),
    "convbert": ("generator_predictions",),
}


class MaskedProjection:
    """Has a masked LM's own head see the states at the masked positions alone; its logits then have shape (N, V).

    A hook before the head's first module selects them, whatever wraps the model. It does nothing outside :meth:`at`,
    and stays where it is, as a compiled model takes no notice of a hook that comes and goes.

    Args:
        model: a masked LM of transformers, unwrapped. One whose head is not known projects every position.
    """

    def __init__(self, model: nn.Module) -> None:
        self.everywhere = False  # project every position all the same
        self._positions: Tensor | None = None
        if (head := _head(model)) is not None:
            head.register_forward_pre_hook(self._select)
        else:
            logger.warning(
                "%s: its masked-LM head is not known, so that every position is projected to the vocabulary, not only "
                "the masked ones; training is slower than it could be",
                type(model).__name__,
            )

    @contextmanager
    def at(self, positions: Tensor) -> Iterator[None]:
        """Projects these positions of each forward pass; int64, shape (N,), indices into the flattened (B, T)."""
        self._positions = None if self.everywhere else positions
        try:
            yield
        finally:
            self._positions = None

    def _select(self, module: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        if self._positions is None:
            return arguments
        states, *others = arguments
        return (states.flatten(0, 1).index_select(0, self._positions), *others)


def _head(model: Any) -> nn.Module | None:
    """The first module of the head; None where it is not known, as in classes that are not transformers' own."""
    for name in _HEADS.get(model.config.model_type, ()):
        head = getattr(model, name, None)
        sources = [type(model).forward.__module__, type(head).__module__]
        if head is not None and all(source.split(".")[0] in ("transformers", "torch", "peft") for source in sources):
            return head
    return None


def select_rows(logits: Tensor, positions: Tensor) -> Tensor:
    """The logits at positions, shape (N, V): of shape (B, T, V), or of :meth:`MaskedProjection.at` already."""
    return logits if logits.dim() == 2 else logits.flatten(0, 1).index_select(0, positions)
