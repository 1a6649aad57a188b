"""Task ``glue``: fairseq's sentence_prediction with BERT's way to shorten pairs.

fairseq reads the options' types at run time: no ``from __future__ import annotations`` here.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq.data import (
    FairseqDataset,
    IdDataset,
    NestedDictionaryDataset,
    NumelDataset,
    NumSamplesDataset,
    OffsetTokensDataset,
    RawLabelDataset,
    RightPadDataset,
    SortDataset,
    StripTokenDataset,
    data_utils,
)
from fairseq.tasks import FairseqTask, register_task
from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask
from numpy.typing import NDArray
from torch import Tensor

from ..errors import one_line_errors
from ..options import check, option

logger = logging.getLogger(__name__)


class WholeValidation(FairseqTask):
    """A task whose validation covers every example.

    fairseq leaves out the last batch where its size is not a multiple of ``--required-batch-size-multiple``, which is 8
    if nothing is said: of 81 validation examples 80 would be scored. The flag is meant for the speed of training.
    """

    def get_batch_iterator(self, dataset: Any, *args: Any, **kwargs: Any) -> Any:
        """As in fairseq, with batches of any size for all but the training data."""
        if dataset is not self.datasets.get("train"):
            kwargs["required_batch_size_multiple"] = 1
        return super().get_batch_iterator(dataset, *args, **kwargs)


@dataclass
class GlueConfig(SentencePredictionConfig):
    """Options of the task: fairseq's, and its own, which cuts the longer sentence of a pair."""

    max_length: int = option(
        128, "tokens of an example; of longer ones the longer sentence is cut, as in BERT and ELECTRA", ge=8
    )


@register_task("glue", dataclass=GlueConfig)
class GlueTask(WholeValidation, SentencePredictionTask):
    """A sentence or a pair of sentences to classify or to score.

    It differs from fairseq's task, whose data and models it takes, in the length: there the end of a joined pair is cut
    off, so that of a long pair nothing may be left of the second sentence; and the model's positions need not be the
    length of the data.
    """

    cfg: GlueConfig

    @classmethod
    def setup_task(cls, cfg: GlueConfig, **kwargs: Any) -> "GlueTask":
        with one_line_errors():
            check(GlueConfig(max_length=cfg.max_length))
        task: GlueTask = super().setup_task(cfg, **kwargs)
        return task

    def load_dataset(self, split: str, combine: bool = False, **kwargs: Any) -> SortDataset:
        """Loads a split; a test split need not have labels."""
        inputs = [name for name in ("input0", "input1") if name == "input0" or Path(self.cfg.data, name).is_dir()]
        sentences = [self._items(name, split) for name in inputs]
        if None in sentences:
            raise FileNotFoundError(f"{self.cfg.data}: has no split {split}")
        tokens = SentencesDataset(
            sentences, begin=self.dictionary.bos(), separator=self.cfg.separator_token, max_length=self.cfg.max_length
        )
        parts = {
            "id": IdDataset(),
            "net_input": {
                "src_tokens": RightPadDataset(tokens, pad_idx=self.dictionary.pad()),
                "src_lengths": NumelDataset(tokens, reduce=False),
            },
            "nsentences": NumSamplesDataset(),
            "ntokens": NumelDataset(tokens, reduce=True),
        }
        if (targets := self._targets(split)) is not None:
            parts["target"] = targets
        with data_utils.numpy_seed(self.cfg.seed):
            shuffled = np.random.permutation(len(tokens))
        self.datasets[split] = SortDataset(NestedDictionaryDataset(parts, sizes=[tokens.sizes]), sort_order=[shuffled])
        logger.info(f"{self.cfg.data}: {len(tokens):,} examples in {split}")
        return self.datasets[split]

    def max_positions(self) -> int:
        return self.cfg.max_length

    def _items(self, key: str, split: str) -> Any:
        return data_utils.load_indexed_dataset(str(Path(self.cfg.data, key, split)), self.dictionary)

    def _targets(self, split: str) -> FairseqDataset | None:
        path = Path(self.cfg.data, "label", f"{split}.label")
        if path.exists():  # scores
            return RawLabelDataset([[float(line)] for line in path.read_text(encoding="utf-8").split()])
        if (labels := self._items("label", split)) is None:
            return None
        stripped = StripTokenDataset(labels, id_to_strip=self.label_dictionary.eos())
        return OffsetTokensDataset(stripped, offset=-self.label_dictionary.nspecial)


def shared_lengths(
    first: NDArray[np.int64], second: NDArray[np.int64], budget: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How much of two sentences is kept: the longer one gives a token until both have the budget, as in BERT.

    Lengths in tokens, each of shape (N,), as they are and as they are kept.
    """
    kept = np.minimum(first, np.maximum(budget - second, (budget + 1) // 2))
    return kept, np.minimum(second, budget - kept)


class SentencesDataset(FairseqDataset):
    """``<s> A </s>`` or ``<s> A </s> B </s>``, the sentences cut at their ends to ``max_length`` tokens in all.

    An item of the one or two datasets is a sentence and ``</s>``; ``begin`` is the id of ``<s>``, ``separator`` one
    before the second sentence (RoBERTa has ``</s>`` there). ``max_length`` includes all of these.
    """

    def __init__(self, sentences: Sequence[Any], *, begin: int, separator: int | None, max_length: int) -> None:
        super().__init__()
        self._sentences = sentences
        self._begin = begin
        self._separator = [] if separator is None or len(sentences) == 1 else [separator]
        lengths = [np.asarray(part.sizes, dtype=np.int64) - 1 for part in sentences]
        fixed = 1 + len(sentences) + len(self._separator)
        budget = max_length - fixed
        self._kept = (
            shared_lengths(lengths[0], lengths[1], budget) if len(lengths) == 2 else (np.minimum(lengths[0], budget),)
        )
        self.sizes: NDArray[np.int64] = fixed + np.sum(self._kept, axis=0)

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, index: int) -> Tensor:
        parts = [torch.tensor([self._begin])]
        for number, (sentences, kept) in enumerate(zip(self._sentences, self._kept, strict=True)):
            sentence = sentences[index]
            if number:
                parts.append(torch.tensor(self._separator, dtype=torch.long))
            parts += [sentence[: kept[index]], sentence[-1:]]
        return torch.cat(parts)

    def size(self, index: int) -> int:
        return int(self.sizes[index])

    def num_tokens(self, index: int) -> int:
        return self.size(index)
