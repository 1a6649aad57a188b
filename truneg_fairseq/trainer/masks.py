"""New masks in each epoch, also in the processes that read data."""

from __future__ import annotations

from typing import Any

import torch
from fairseq.data import LRUCacheDataset, MaskTokensDataset


class EpochAwareMaskTokensDataset(MaskTokensDataset):
    """Keeps the epoch in shared memory, where the reading processes see it.

    ``masked_lm`` keeps the processes that read data for all epochs and tells them of none. With ``--num-workers`` 1 or
    more every epoch has the masks of the epoch in which they were started, and a run that resumes in epoch 3 continues
    with other masks than it would have had. Items that were read last also stay in a cache that knows no epoch.
    """

    @classmethod
    def apply_mask(cls, dataset: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        """Source and target. Stock wraps both in a cache by index; the masking has one by seed, epoch and index."""
        dataset = LRUCacheDataset(dataset)
        source = cls(dataset, *args, **kwargs, return_masked_tokens=False)
        return source, cls(dataset, *args, **kwargs, return_masked_tokens=True)

    @property
    def epoch(self) -> int:
        """Counts from 1."""
        return int(self._epoch)

    @epoch.setter
    def epoch(self, epoch: int) -> None:
        if not hasattr(self, "_epoch"):
            self._epoch = torch.zeros((), dtype=torch.int64).share_memory_()
        self._epoch.fill_(epoch)
