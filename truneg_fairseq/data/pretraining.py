"""ELECTRA's training examples on fairseq's binarized data: gathered, masked and padded a batch at a time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq.data import Dictionary, FairseqDataset
from numpy.typing import NDArray

from ..errors import TrueNegError, one_line_errors
from ..vocabulary import EOS
from .indexed import map_tokens, read_sizes, require_whole
from .masking import Masking, example_keys
from .segments import Examples, Layout, lay_out

# Lines that are looked at to see whether the data end them with </s>.
_PROBED_LINES = 10_000


class BinarizedText:
    """A binarized text in fairseq's usual format (mmap), mapped."""

    tokens: NDArray[np.integer]  # shape (tokens,), some integer type: all lines, one after the other

    def __init__(self, prefix: Path) -> None:
        """Opens ``prefix.bin``."""
        require_whole(prefix)
        self._prefix, self.tokens = prefix, map_tokens(prefix)

    def __reduce__(self) -> tuple[Any, ...]:
        """A spawned worker maps the file again instead of receiving a copy."""
        return type(self), (self._prefix,)

    def line_sizes(self) -> NDArray[np.int32]:
        """Tokens of each line, its ``</s>`` included, shape (lines,); read anew, as they are needed once."""
        sizes = read_sizes(self._prefix)
        probed = np.unique(np.linspace(0, len(sizes) - 1, num=min(len(sizes), _PROBED_LINES), dtype=np.int64))
        last = np.cumsum(sizes, dtype=np.int64)[probed] - 1
        wrong = probed[(sizes[probed] < 1) | (self.tokens[last] != EOS)]
        if len(wrong):
            raise TrueNegError(
                f"{self._prefix}.bin: line {wrong[0] + 1:,} does not end with </s>; expected a line an item, as "
                "fairseq-preprocess writes them; binarize the text again"
            )
        return sizes


class ElectraDataset(FairseqDataset):
    """Masked examples of a text.

    An item is only the number of its example: :meth:`collater` gathers, masks and pads the whole batch in a few array
    operations, some twenty times faster than example by example.

    The examples are cut once, the masks are new in each epoch. Both are functions of (seed, epoch, index), also in
    workers that live through several epochs.
    """

    def __init__(
        self, texts: Sequence[BinarizedText], examples: Examples, dictionary: Dictionary, masking: Masking, seed: int
    ) -> None:
        """The raw positions of ``examples`` count through all texts."""
        super().__init__()
        self._texts = list(texts)
        self._bounds = np.cumsum([0, *(len(text.tokens) for text in texts)])
        self._examples = examples
        self._dictionary = dictionary
        self._masking = masking
        self._seed = seed
        # In shared memory: fairseq keeps the workers for all epochs, and tells them of none.
        self._epoch = torch.ones((), dtype=torch.int64).share_memory_()
        # A special symbol that is written out in the text would end a segment or look like padding.
        self._as_text = np.arange(len(dictionary))
        self._as_text[[dictionary.bos(), dictionary.pad(), dictionary.eos(), masking.mask]] = dictionary.unk()

    def __len__(self) -> int:
        return len(self._examples)

    def __getitem__(self, index: int) -> int:
        return index

    @property
    def sizes(self) -> NDArray[np.int32]:
        """Tokens of each example, specials included, shape (N,)."""
        return self._examples.sizes

    def size(self, index: int) -> int:
        return int(self.sizes[index])

    num_tokens = size

    def num_tokens_vec(self, indices: NDArray[np.int64]) -> NDArray[np.int32]:
        return self.sizes[indices]

    @property
    def can_reuse_epoch_itr_across_epochs(self) -> bool:
        """True: an epoch changes the masks and no size."""
        return True

    def set_epoch(self, epoch: int) -> None:
        """Other masks from now on, here and in the workers."""
        self._epoch.fill_(epoch)

    def collater(self, samples: Sequence[int]) -> dict[str, Any]:
        """Makes a batch of B examples, T tokens wide, as masked_lm has it; empty without samples.

        It has ``id``; ``net_input`` with ``src_tokens`` (int64, shape (B, T)), ``src_lengths`` (int64, shape (B,)),
        ``padded`` (bool, on the host: whether there is any padding) and ``masked_positions`` (int64, shape (N,), where
        tokens are predicted, as indices into the flattened (B, T)); ``target`` (int64, shape (B, T), padding where
        nothing is predicted); ``nsentences``; ``ntokens``.
        """
        if len(samples) == 0:
            return {}
        index = np.asarray(samples, dtype=np.int64)
        with one_line_errors():
            batch = self._assemble(index)
        keys = example_keys(self._seed, int(self._epoch), index)
        source, target = self._masking.apply(batch.tokens, batch.is_text, batch.lengths, keys)
        return {
            "id": torch.from_numpy(index),
            "net_input": {
                "src_tokens": torch.from_numpy(source),
                "src_lengths": torch.from_numpy(batch.lengths),
                "padded": bool((batch.lengths < batch.tokens.shape[1]).any()),
                # Found here, on the host: later, counting them would need a host-device sync.
                "masked_positions": torch.from_numpy(np.flatnonzero(target != self._dictionary.pad())),
            },
            "target": torch.from_numpy(target),
            "nsentences": len(index),
            "ntokens": int(batch.lengths.sum()),
        }

    def _assemble(self, index: NDArray[np.int64]) -> Layout:
        examples, dictionary = self._examples, self._dictionary
        length, split = examples.length[index], examples.split[index]
        start = examples.start[index]
        text_of = np.searchsorted(self._bounds, start, side="right") - 1
        start = start - self._bounds[text_of]
        spans = zip(text_of.tolist(), start.tolist(), (start + length).tolist(), strict=True)
        raw = np.concatenate([self._texts[number].tokens[begin:end] for number, begin, end in spans])  # end to end
        is_text = raw != dictionary.eos()
        before = np.concatenate([[0], np.cumsum(is_text)])  # text tokens before each raw one
        raw_bounds = np.concatenate([[0], np.cumsum(length)])
        begin = before[raw_bounds[:-1]]
        try:
            text = self._as_text[raw[is_text]]
        except IndexError:
            raise TrueNegError(
                f"binarized text: found the token id {raw.max()}, but dict.txt has {len(dictionary):,} symbols; "
                "expected the dict.txt that the text was binarized with"
            ) from None
        return lay_out(
            text,
            before[raw_bounds[:-1] + split] - begin,
            before[raw_bounds[1:]] - begin,
            bos=dictionary.bos(),
            eos=dictionary.eos(),
            pad=dictionary.pad(),
        )
