"""Which tokens are of one word."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch


class WordMarks(NamedTuple):
    """The marks of a dictionary: arrays, or tensors of one device."""

    continues: Any  # bool, shape (V,), whether a token continues the word of the token before it
    unfinished: Any = None  # bool, shape (V,), whether the next token continues it (subword-nmt); None for never

    def inside(self, tokens: Any) -> Any:
        """Whether a token is of the same word as the token before it; bool, of the shape of ``tokens``, (B, T)."""
        inside = self.continues[tokens]
        if self.unfinished is not None:
            inside[:, 1:] |= self.unfinished[tokens[:, :-1]]
        return inside

    def on(self, device: torch.device) -> WordMarks:
        """As tensors of a device."""
        return WordMarks(*(None if marks is None else torch.as_tensor(marks, device=device) for marks in self))
