"""A text file in the tokens of Hugging Face's masked LMs, masked; needs transformers, not fairseq."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ..corpora.text import read_lines
from ..errors import TrueNegError
from ..hf.collator import DataCollatorForTrueNegatives
from ..objectives import MaskedPredictions
from ..trainer.folder import transformers_updates
from ..vocabulary import Vocabulary
from ..workers import Progress
from .hf_scorer import HuggingFaceTokens
from .inspection_options import InspectionOptions
from .judging import judge_of, tokens_of
from .models import open_model
from .scorer import MaskedLm

_LONGEST = 512  # tokens of a sample, where the models have so many positions
_PARAGRAPHS = 1000  # encoded at a time
_NOT_MASKED = -100


class TextSplit:
    """The running text of a file in samples, with the same masked positions for each model."""

    def __init__(self, options: InspectionOptions) -> None:
        if options.file is None:
            raise TrueNegError("--file: found none; expected the text on which Hugging Face's models are measured")
        self._options, paths = options, options.checkpoint
        self._tokens = tokens_of(paths[-1], options)
        self.vocabulary: Vocabulary = self._tokens.vocabulary
        for path in paths[:-1]:
            if tokens_of(path, options).vocabulary.symbols != self.vocabulary.symbols:
                raise TrueNegError(f"{path}: has other tokens than {paths[-1]}; measure it in a command of its own")
        # One model at a time: together they would fill the memory.
        sizes = [(model.padding, model.longest) for model in map(self._open, paths)]
        self.padding, self.special = sizes[-1][0], self._tokens.special
        self._objective, _ = judge_of(self._tokens, self.padding, options)
        longest = min(_LONGEST, *(longest for _, longest in sizes))
        self._batches = list(self._masked(self._samples(options.file, longest - 2)))
        if not self._batches:
            raise TrueNegError(f"--file {options.file}: found no text; expected a paragraph a line")

    def judged(self, checkpoint: Path) -> tuple[int, Iterator[MaskedPredictions]]:
        """The updates of a model's training, 0 where transformers' Trainer has not written them, and its batches."""
        return transformers_updates(checkpoint), self._judged(checkpoint)

    def _open(self, path: Path) -> MaskedLm:
        return open_model(path, None, cpu=self._options.cpu)

    def _judged(self, checkpoint: Path) -> Iterator[MaskedPredictions]:
        model = self._open(checkpoint)
        for tokens, target in Progress(self._batches, desc=checkpoint.name, unit="batch", leave=False):
            yield model.judge(self._objective, tokens, target)[0]

    def _samples(self, file: Path, length: int) -> list[Tensor]:
        """The text's tokens in samples of that many, and the special ones around them, each int64, shape (T,)."""
        paragraphs = [line for line in read_lines(file) if line.strip()]
        samples = []
        for start in range(0, len(paragraphs), _PARAGRAPHS):
            text = " ".join(paragraph.strip() for paragraph in paragraphs[start : start + _PARAGRAPHS])
            (tokens,) = self._tokens.encode_batch([text])
            parts = (tokens[begin : begin + length] for begin in range(0, len(tokens), length))
            samples += [torch.from_numpy(self._tokens.framed(part)) for part in parts]
        return samples

    def _masked(self, samples: list[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
        """Masked tokens, and the original ones at masked positions and padding elsewhere, int64, shape (B, T) each.

        The masks of a sample depend on the seed and on its place in the text, whatever the size of a batch.
        """
        assert isinstance(self._tokens, HuggingFaceTokens)
        collator = DataCollatorForTrueNegatives(self._tokens.tokenizer)
        seed = 1 if self._options.seed is None else self._options.seed
        masked = [collator.mask(sample[None], [seed, number], progress=1.0) for number, sample in enumerate(samples)]
        for start in range(0, len(samples), self._options.batch_size):
            tokens, labels = zip(*masked[start : start + self._options.batch_size], strict=True)
            yield (
                self._padded(tokens),
                self._padded([row.masked_fill(row.eq(_NOT_MASKED), self.padding) for row in labels]),
            )

    def _padded(self, rows: Sequence[Tensor]) -> Tensor:
        """One batch of rows of shape (1, T) each."""
        return pad_sequence([row[0] for row in rows], batch_first=True, padding_value=self.padding)
