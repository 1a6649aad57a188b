"""SQuAD's windows as a dataset of fairseq."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from fairseq.data import FairseqDataset, data_utils
from numpy.typing import NDArray

from .features import SquadFeatures


class SquadDataset(FairseqDataset):
    """The windows of a split; an item is the number of a window, :meth:`collater` makes the batch.

    Args:
        features: the windows.
        split: its name, which every batch carries.
        pad: the id of padding.
        shuffle: whether an epoch has an order of its own; else the longest windows come first.
    """

    def __init__(self, features: SquadFeatures, split: str, pad: int, *, shuffle: bool) -> None:
        super().__init__()
        self.features = features
        self.sizes: NDArray[np.int64] = features.lengths
        self._split = split
        self._pad = pad
        self._shuffle = shuffle

    def __len__(self) -> int:
        return len(self.features)

    def __getitem__(self, index: int) -> int:
        return index

    def size(self, index: int) -> int:
        """Tokens of a window."""
        return int(self.sizes[index])

    def num_tokens(self, index: int) -> int:
        """Same as :meth:`size`."""
        return self.size(index)

    def num_tokens_vec(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """The sizes of several windows."""
        return self.sizes[indices]

    @property
    def can_reuse_epoch_itr_across_epochs(self) -> bool:
        """Whether the batches stay: where windows are shuffled, fairseq makes new ones each epoch."""
        return not self._shuffle

    def ordered_indices(self) -> NDArray[np.int64]:
        """The order of the windows; fairseq has seeded numpy with seed and epoch."""
        if self._shuffle:
            return np.random.permutation(len(self))
        return np.argsort(-self.sizes, kind="stable")

    def collater(self, samples: Sequence[int]) -> dict[str, Any]:
        """Makes a batch of B windows, T positions wide; empty without samples.

        Returns:
            ``id`` (int64, shape (B,): the windows' numbers); ``split``; ``net_input`` with ``src_tokens`` (int64,
            shape (B, T)), ``src_lengths`` (int64, shape (B,)) and ``padded`` (bool, on the host); ``target`` (int64,
            shape (B, 2): first and last position of the answer, 0 where the window has none); ``context`` and
            ``begins`` (bool, shape (B, T): the context's positions, and those of them that have characters and the most
            context in this window); ``nsentences``; ``ntokens``.
        """
        if len(samples) == 0:
            return {}
        index = np.asarray(samples, dtype=np.int64)
        lengths = self.sizes[index]
        shape = (len(index), int(lengths.max()))
        context, begins = np.zeros(shape, dtype=np.bool_), np.zeros(shape, dtype=np.bool_)
        for row, window in enumerate(index.tolist()):
            context[row, : lengths[row]] = self.features.context_mask(window)
            # A space of its own is a token of no characters: an answer that is one would be empty.
            spans = self.features.spans(window)
            begins[row, : lengths[row]] = self.features.max_context(window) & (spans[:, 1] > spans[:, 0])
        tokens = [torch.from_numpy(self.features.tokens(window)) for window in index.tolist()]
        return {
            "id": torch.from_numpy(index),
            "split": self._split,
            "net_input": {
                "src_tokens": data_utils.collate_tokens(tokens, self._pad),
                "src_lengths": torch.from_numpy(lengths),
                "padded": bool((lengths < shape[1]).any()),
            },
            "target": torch.from_numpy(self.features.window_answer[index].astype(np.int64)),
            "context": torch.from_numpy(context),
            "begins": torch.from_numpy(begins),
            "nsentences": len(index),
            "ntokens": int(lengths.sum()),
        }
