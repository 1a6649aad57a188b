"""Task ``glue``: fairseq's sentence_prediction with BERT's way to shorten pairs.

fairseq reads the options' types at run time: no ``from __future__ import annotations`` here.
"""

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

import numpy as np
from fairseq.data import (
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
from fairseq.dataclass import FairseqDataclass
from fairseq.tasks import register_task
from fairseq.tasks.sentence_prediction import SentencePredictionTask
from omegaconf import II, MISSING

from ..errors import TrueNegError, one_line_errors
from ..finetuning.validation import WholeValidation
from .dataset import SentencesDataset
from .prepared import check_split

logger = logging.getLogger(__name__)

_SHORTEST = 8


@dataclass
class GlueConfig(FairseqDataclass):
    """Options of the task; every field is a flag of fairseq-train and a key of hydra's ``task`` group."""

    data: str = field(default=MISSING, metadata={"help": "folder of one GLUE task, made by 'truneg data prepare-glue'"})
    num_classes: int = field(default=-1, metadata={"help": "number of classes, or 1 for scores"})
    max_length: int = field(
        default=128,
        metadata={"help": "tokens of an example; of longer ones the longer sentence is cut, as in BERT and ELECTRA"},
    )
    max_positions: int = field(default=512, metadata={"help": "positions of the model"})
    separator_token: Optional[int] = field(
        default=None, metadata={"help": "id of a token before the second sentence: 2 for RoBERTa, none for BERT"}
    )
    regression_target: bool = II("criterion.regression_target")
    classification_head_name: str = II("criterion.classification_head_name")
    seed: int = II("common.seed")


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
        """Loads the dictionaries.

        Raises:
            SystemExit: with one line, where an option is out of range or a dictionary is missing.
        """
        with one_line_errors():
            _check_options(cfg)
        task: GlueTask = super().setup_task(cfg, **kwargs)
        return task

    def load_dataset(self, split: str, combine: bool = False, **kwargs: Any) -> SortDataset:
        """Loads a split; a test split need not have labels.

        Raises:
            SystemExit: with one line, where it is missing, or a part of it.
        """
        inputs = [name for name in ("input0", "input1") if name == "input0" or Path(self.cfg.data, name).is_dir()]
        with one_line_errors():
            check_split(Path(self.cfg.data), split)
            sentences = [self._items(name, split) for name in inputs]
            for name, part in zip(inputs, sentences, strict=True):
                if part is None:
                    raise TrueNegError(
                        f"{Path(self.cfg.data, name, split)}: no such data; expected the split {split}, prepared by "
                        "'truneg data prepare-glue'"
                    )
        tokens = SentencesDataset(
            sentences,
            begin=self.dictionary.bos(),
            separator=self.cfg.separator_token,
            max_length=self.cfg.max_length,
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
        targets = self._scores(split) if self.cfg.regression_target else self._labels(split)
        if targets is not None:
            parts["target"] = targets
        with data_utils.numpy_seed(self.cfg.seed):
            shuffled = np.random.permutation(len(tokens))
        self.datasets[split] = SortDataset(NestedDictionaryDataset(parts, sizes=[tokens.sizes]), sort_order=[shuffled])
        logger.info(f"{self.cfg.data}: {len(tokens):,} examples in {split}")
        return self.datasets[split]

    def max_positions(self) -> int:
        """The longest example."""
        return self.cfg.max_length

    def _items(self, key: str, split: str) -> Any:
        return data_utils.load_indexed_dataset(str(Path(self.cfg.data, key, split)), self.dictionary)

    def _labels(self, split: str) -> Any:
        labels = self._items("label", split)
        if labels is None:
            return None
        stripped = StripTokenDataset(labels, id_to_strip=self.label_dictionary.eos())
        return OffsetTokensDataset(stripped, offset=-self.label_dictionary.nspecial)

    def _scores(self, split: str) -> RawLabelDataset | None:
        path = Path(self.cfg.data, "label", f"{split}.label")
        if not path.exists():
            return None
        with one_line_errors():
            try:
                return RawLabelDataset([[float(line)] for line in path.read_text(encoding="utf-8").split()])
            except ValueError:
                raise TrueNegError(f"{path}: has a line without a number; expected one score per line") from None


def _check_options(cfg: GlueConfig) -> None:
    if cfg.num_classes < 1:
        raise TrueNegError(f"--num-classes {cfg.num_classes}: expected the number of classes, or 1 for scores")
    if not _SHORTEST <= cfg.max_length <= cfg.max_positions:
        raise TrueNegError(
            f"--max-length {cfg.max_length}: expected {_SHORTEST} to --max-positions {cfg.max_positions}"
        )
    needed = ["input0"] if cfg.regression_target else ["input0", "label"]
    for path in (Path(cfg.data, name, "dict.txt") for name in needed):
        if not path.is_file():
            raise TrueNegError(
                f"{path}: no such file; expected the folder of one task, prepared by 'truneg data prepare-glue'"
            )
