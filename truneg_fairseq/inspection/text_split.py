"""A text file in the tokens of Hugging Face's masked LMs, masked; needs transformers, not fairseq."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from ..corpora.text import read_lines
from ..errors import TrueNegError
from ..hf.collator import DataCollatorForTrueNegatives
from ..masked_lms.hugging_face import HuggingFaceTokens
from ..masked_lms.opening import open_model
from ..progress import Progress
from ..vocabulary import Vocabulary
from .judging import JudgedBatch, judge_of, tokens_of
from .options import InspectionOptions

_LONGEST = 512  # tokens of a sample, where the models have so many positions
_PARAGRAPHS = 1000  # encoded at a time
_NOT_MASKED = -100


class TextSplit:
    """The running text of a file in samples, with the same masked positions for each model."""

    def __init__(self, options: InspectionOptions) -> None:
        if options.file is None:
            raise TrueNegError("--file: found none; expected the text on which Hugging Face's models are measured")
        self._options, paths = options, options.checkpoint
        self._models = {path: open_model(path, None, cpu=options.cpu) for path in paths}
        self._tokens = tokens_of(paths[-1], options)
        self.vocabulary: Vocabulary = self._tokens.vocabulary
        for path in paths[:-1]:
            if tokens_of(path, options).vocabulary.symbols != self.vocabulary.symbols:
                raise TrueNegError(f"{path}: has other tokens than {paths[-1]}; measure it in a command of its own")
        self.padding, self.special = self._models[paths[-1]].padding, self._tokens.special
        self._objective, _ = judge_of(self._tokens, self.padding, options)
        self._batches = list(self._masked(self._samples(options.file)))
        if not self._batches:
            raise TrueNegError(f"--file {options.file}: found no text; expected a paragraph a line")

    def judged(self, checkpoint: Path) -> tuple[int, Iterator[JudgedBatch]]:
        """See :class:`~.inspector.Split`; the updates are not known, 0."""
        return 0, self._judged(checkpoint)

    def _judged(self, checkpoint: Path) -> Iterator[JudgedBatch]:
        model = self._models[checkpoint]
        for tokens, target in Progress(self._batches, desc=checkpoint.name, unit="batch", leave=False):
            judged, passes = model.judge(self._objective, tokens, target)
            with torch.no_grad():
                counts = self._objective.score(judged, passes).counts
            yield JudgedBatch(judged, {**counts, "nsentences": len(tokens)})

    def _samples(self, file: Path) -> list[Tensor]:
        length = min(_LONGEST, *(model.longest for model in self._models.values())) - 2
        paragraphs = [line for line in read_lines(file) if line.strip()]
        samples = []
        for start in range(0, len(paragraphs), _PARAGRAPHS):
            text = " ".join(paragraph.strip() for paragraph in paragraphs[start : start + _PARAGRAPHS])
            (tokens,) = self._tokens.encode_batch([text])
            parts = (tokens[begin : begin + length] for begin in range(0, len(tokens), length))
            samples += [torch.from_numpy(self._tokens.framed(part)) for part in parts]
        return samples

    def _masked(self, samples: list[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
        """Masked tokens, and the original ones at masked positions and padding elsewhere, int64, shape (B, T) each."""
        assert isinstance(self._tokens, HuggingFaceTokens)
        collator = DataCollatorForTrueNegatives(self._tokens.tokenizer)
        for number, start in enumerate(range(0, len(samples), self._options.batch_size)):
            batch = torch.nn.utils.rnn.pad_sequence(
                samples[start : start + self._options.batch_size], batch_first=True, padding_value=self.padding
            )
            seed = 1 if self._options.seed is None else self._options.seed
            tokens, labels = collator.mask(batch, [seed, number], progress=1.0)
            yield tokens, labels.masked_fill(labels.eq(_NOT_MASKED), self.padding)
