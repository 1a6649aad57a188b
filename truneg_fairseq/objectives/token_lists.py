"""Lists of tokens by row, as sorted keys: the synonyms of a word, or what a text has after one or between two."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

_LAST_KEY = torch.iinfo(torch.int64).max


class TokenLists(nn.Module):
    """The tokens of each row, to be looked up without waiting for the device, however long the longest list is.

    Args:
        keys: int64, shape (P,), ascending, an array or a tensor: ``row * size + token``.
        size: V, above every token.
        counts: integers, shape (P,), of each pair; None where nothing was counted.
    """

    keys: Tensor
    sums: Tensor  # where something was counted

    def __init__(self, keys: Any, size: int, counts: Any = None) -> None:
        super().__init__()
        self.size, keys = size, torch.as_tensor(keys)
        lengths = (keys // size).unique_consecutive(return_counts=True)[1]
        self.longest = int(lengths.max()) if len(keys) else 1
        # The last key makes every search end at one; sums from the start give counts and totals of rows.
        self.register_buffer("keys", torch.cat([keys, keys.new_tensor([_LAST_KEY])]), persistent=False)
        if counts is not None:
            counts = torch.as_tensor(counts)
            sums = torch.cat([keys.new_zeros(1), counts.cumsum(0), counts.sum()[None]])
            self.register_buffer("sums", sums, persistent=False)

    def place(self, row: Tensor) -> tuple[Tensor, Tensor]:
        """Where the keys of rows begin and end, int64, of their shape."""
        return torch.searchsorted(self.keys, row * self.size), torch.searchsorted(self.keys, (row + 1) * self.size)

    def slots(self, row: Tensor) -> tuple[Tensor, Tensor]:
        """The places of the keys of rows, shape (N,), and which of them are there; int64 and bool, shape (N, K)."""
        start, end = self.place(row)
        slots = start[:, None] + torch.arange(self.longest, device=row.device)
        return slots.clamp(max=len(self.keys) - 1), slots < end[:, None]

    def tokens(self, row: Tensor) -> Tensor:
        """The tokens of rows, shape (N,), ascending, then -1; int64, shape (N, K)."""
        slots, there = self.slots(row)
        return torch.where(there, self.keys[slots] % self.size, -1)

    def contains(self, row: Tensor, token: Tensor) -> Tensor:
        """Which pairs are listed, bool, of their shape."""
        key = row * self.size + token
        return self.keys[torch.searchsorted(self.keys, key)].eq(key) & token.lt(self.size)

    def count(self, row: Tensor, token: Tensor) -> Tensor:
        """How often each pair was counted, 0 if never; int64, of their shape."""
        key = row * self.size + token
        index = torch.searchsorted(self.keys, key)
        return torch.where(self.keys[index].eq(key), self.sums[index + 1] - self.sums[index], 0)
