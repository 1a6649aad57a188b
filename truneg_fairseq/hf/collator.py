"""Masked batches for transformers: whole words, a masking rate that may fall, and masks that can be repeated."""

from __future__ import annotations

import copy
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import DataCollatorForLanguageModeling

from ..errors import TrueNegError
from ..vocabulary import WordBoundaries
from ..vocabulary import vocabulary_of_tokenizer as vocabulary_of


@dataclass
class DataCollatorForTrueNegatives(DataCollatorForLanguageModeling):
    """transformers' collator for masked LMs, with whole words, a rate that may fall, and masks that can be repeated.

    In the stock Trainer it masks anew each time at the rate ``mlm_probability``, as transformers' own does.
    In :class:`~.trainer.TrueNegativeTrainer` the masks of an evaluation follow from ``seed`` and each sample's tokens,
    whatever the batch, the order or the number of processes; those of a training follow from its seed, the update, the
    micro-batch and the process, so that a run that resumes has the masks of an uninterrupted one. A subclass that has a
    ``torch_call`` or ``torch_mask_tokens`` keeps its masks in both. Special tokens, and those marked in a column
    ``special_tokens_mask``, are never masked.

    Args:
        whole_words: mask all tokens of a word or none, with any tokenizer that marks words
            (:class:`~truneg_fairseq.vocabulary.Vocabulary`). A token is as likely to be masked as without, and each is
            replaced by [MASK], another token or itself as without. The name of transformers, ``whole_word_mask``, means
            the same.
        final_mlm_probability: in TrueNegativeTrainer, the masking rate at the end of the training, to which it falls
            from ``mlm_probability`` in a straight line; None for a constant one. Evaluations have the final rate.
        tokenization: how the tokenizer marks words.
    """

    whole_word_mask: bool = False
    whole_words: bool = False
    final_mlm_probability: float | None = None
    tokenization: str = "auto"

    def __post_init__(self) -> None:
        self.whole_words |= self.whole_word_mask
        self.whole_word_mask = False  # transformers' own way replaces each token by [MASK]
        super().__post_init__()
        if not self.mlm:
            raise ValueError("mlm: found False, expected True: it masks; use DataCollatorForLanguageModeling")
        if self.final_mlm_probability is not None and not 0 <= self.final_mlm_probability <= 1:
            raise ValueError(f"final_mlm_probability: found {self.final_mlm_probability}, expected 0 to 1")
        self._special = torch.tensor(sorted(set(self.tokenizer.all_special_ids)))
        self._words: WordBoundaries | None = None
        self._is_by_sample = False
        self._protected: Tensor | None = None  # of the last batch
        if self.whole_words:
            vocabulary = vocabulary_of(self.tokenizer, self.tokenization)
            self._words = WordBoundaries(vocabulary.continues, vocabulary.unfinished)

    @property
    def is_overridden(self) -> bool:
        """Whether a subclass masks in its own way."""
        own, kind = DataCollatorForTrueNegatives, type(self)
        return kind.torch_call is not own.torch_call or kind.torch_mask_tokens is not own.torch_mask_tokens

    def by_sample(self) -> DataCollatorForTrueNegatives:
        """A copy that masks by sample, and leaves the column ``special_tokens_mask`` in the batch."""
        collator = copy.copy(self)
        collator._is_by_sample = not self.is_overridden
        return collator

    def torch_call(self, examples: list[Any]) -> dict[str, Any]:
        """A batch of examples, masked."""
        if any(isinstance(each, Mapping) and np.ndim(each.get("labels", 0)) for each in examples[:1]):
            raise TrueNegError(
                "labels: found in the data, which would be masked once more; expected data without labels, or "
                "data_collator=DataCollatorForTokenClassification(tokenizer), which keeps them"
            )
        batch: dict[str, Any] = super().torch_call(examples)
        if self._is_by_sample and self._protected is not None:
            batch["special_tokens_mask"] = self._protected
        return batch

    def torch_mask_tokens(
        self, inputs: Any, special_tokens_mask: Any = None, offset_mapping: Any = None
    ) -> tuple[Tensor, Tensor]:
        """The masked tokens and the labels of a batch, int64, shape (B, T) each."""
        self._protected = special_tokens_mask
        if self._is_by_sample:
            return self._masked(inputs, self._numbers_of_samples(inputs), 1.0, special_tokens_mask)
        return self._masked(inputs, torch.rand(3, *inputs.shape, generator=self.generator), 0.0, special_tokens_mask)

    def mask(
        self, tokens: Tensor, seed: Sequence[int], progress: float, protected: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The masked tokens and the labels, int64, shape (B, T) each, the same on every device.

        Args:
            tokens: int64, shape (B, T), unmasked.
            seed: numbers that decide on the masks.
            progress: the share of the training that is over, in [0, 1].
            protected: shape (B, T), 1 or True for tokens that are not masked, beside the special ones.
        """
        return self._masked(tokens, torch.rand(3, *tokens.shape, generator=seeded(seed)), progress, protected)

    def _numbers_of_samples(self, tokens: Tensor) -> Tensor:
        """Random numbers that follow from each sample, its padding left out; fp32, shape (3, B, T)."""
        numbers = torch.zeros(3, *tokens.shape)
        for row, sample in enumerate(tokens):
            real = sample.ne(-1 if self.tokenizer.pad_token_id is None else self.tokenizer.pad_token_id)
            generator = seeded([self.seed or 0, zlib.crc32(sample[real].numpy().tobytes())])
            numbers[:, row, real] = torch.rand(3, int(real.sum()), generator=generator)
        return numbers

    def _masked(
        self, tokens: Tensor, numbers: Tensor, progress: float, protected: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        start, end = self.mlm_probability or 0.0, self.final_mlm_probability
        rate = start if end is None else start + min(max(progress, 0.0), 1.0) * (end - start)
        chance, replacement, other = numbers.to(tokens.device)
        special = torch.isin(tokens, self._special.to(tokens.device))
        if protected is not None:
            special |= protected.bool()
        if self._words is not None:
            inside = self._words.on(tokens.device).inside(tokens) & ~special
            # One number for all tokens of a word: that at the word's place among the words of its row.
            begins = ~inside
            begins[:, 0] = True
            chance = chance.gather(1, begins.cumsum(1) - 1)
        masked = chance.lt(rate) & ~special
        labels = tokens.masked_fill(~masked, -100)
        random = masked & replacement.lt(self.mask_replace_prob + self.random_replace_prob)
        tokens = torch.where(random, (other * len(self.tokenizer)).long(), tokens)
        return tokens.masked_fill(masked & replacement.lt(self.mask_replace_prob), self.tokenizer.mask_token_id), labels


def seeded(numbers: Sequence[int], device: torch.device | str = "cpu") -> torch.Generator:
    """A generator whose random numbers follow from these numbers."""
    state = int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)
    return torch.Generator(device).manual_seed(state)
