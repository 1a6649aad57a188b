"""Masked batches for transformers: whole words, and a masking rate that falls over training."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import DataCollatorForLanguageModeling

from ..objectives.mask_rate import rate_at, same_in_words
from ..objectives.words import WordMarks
from .tokenizer import vocabulary_of


@dataclass
class DataCollatorForTrueNegatives(DataCollatorForLanguageModeling):
    """transformers' collator for masked LMs, whose masks follow from the tokens and the seed alone.

    An evaluation thus has the same masks every time. While it trains, :class:`~.trainer.TrueNegativeTrainer` masks each
    batch anew, from the seed, the update, the micro-batch and the process: a run that resumes has the masks of one that
    was never interrupted, whatever the number of workers. Special tokens are never masked.

    Args:
        whole_words: mask all tokens of a word or none, with any tokenizer that marks words
            (:class:`~truneg_fairseq.vocabulary.Vocabulary`). A token is as likely to be masked as without, and each is
            replaced by [MASK], another token or itself as without. The name of transformers, ``whole_word_mask``, means
            the same.
        final_mlm_probability: the masking rate at the end of the training, to which it falls from ``mlm_probability``
            in a straight line; None for a constant one. Evaluations have the final rate.
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
        if self.final_mlm_probability is not None and not 0 <= self.final_mlm_probability <= 1:
            raise ValueError(f"final_mlm_probability: found {self.final_mlm_probability}, expected 0 to 1")
        self._special = torch.tensor(sorted(set(self.tokenizer.all_special_ids)))
        self._words: WordMarks | None = None
        if self.whole_words:
            vocabulary = vocabulary_of(self.tokenizer, self.tokenization)
            self._words = WordMarks(vocabulary.continues, vocabulary.unfinished)

    def torch_mask_tokens(self, inputs: Any, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """The masked tokens and the labels of a batch, int64, shape (B, T) each."""
        return self.mask(inputs, [self.seed or 0, zlib.crc32(inputs.numpy().tobytes())], progress=1.0)

    def mask(self, tokens: Tensor, seed: Sequence[int], progress: float) -> tuple[Tensor, Tensor]:
        """The masked tokens and the labels, int64, shape (B, T) each, the same on every device.

        Args:
            tokens: int64, shape (B, T), unmasked.
            seed: numbers that decide on the masks.
            progress: the share of the training that is over, in [0, 1].
        """
        start, end = self.mlm_probability or 0.0, self.final_mlm_probability
        rate = start if end is None else rate_at(start, end, progress)
        state = int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0] >> 1)
        drawn = torch.rand(3, *tokens.shape, generator=torch.Generator().manual_seed(state))
        chance, replacement, other = drawn.to(tokens.device)
        special = torch.isin(tokens, self._special.to(tokens.device))
        if self._words is not None:
            inside = self._words.on(tokens.device).inside(tokens) & ~special
            inside[:, 1:] &= ~special[:, :-1]
            chance = same_in_words(chance, inside)
        masked = chance.lt(rate) & ~special
        labels = tokens.masked_fill(~masked, -100)
        random = masked & replacement.lt(self.mask_replace_prob + self.random_replace_prob)
        tokens = torch.where(random, (other * len(self.tokenizer)).long(), tokens)
        return tokens.masked_fill(masked & replacement.lt(self.mask_replace_prob), self.tokenizer.mask_token_id), labels
