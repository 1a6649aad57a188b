"""Task ``electra_pretraining``: masked examples of one or two segments, for ELECTRA and for BERT.

fairseq reads the options' types at run time: no ``from __future__ import annotations`` here.
"""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from fairseq import utils
from fairseq.data import SortDataset, data_utils
from fairseq.dataclass import FairseqDataclass
from fairseq.tasks import register_task
from fairseq.tasks.masked_lm import MaskedLMTask
from omegaconf import II, MISSING

from ..data.indexed import parts_of
from ..data.masking import Masking
from ..data.pretraining import BinarizedText, ElectraDataset
from ..data.segments import SHORTEST, concatenate, cut_examples
from ..data.tokenizer import vocabulary_of
from ..errors import TrueNegError, one_line_errors
from ..flags import check, option, select
from ..vocabulary import TOKENIZATIONS, WordBoundaries
from .recorded_step import RecordedSteps

logger = logging.getLogger(__name__)

# ELECTRA's shares of examples with one segment instead of two, and with a random length.
_ONE_SEGMENT, _SHORT = 0.1, 0.05


@dataclass
class ElectraPretrainingConfig(FairseqDataclass):
    """Options of the task; every field is a flag of fairseq-train and a key of hydra's ``task`` group."""

    data: str = option(MISSING, "folder of binarized data; several, separated by colons: shards, an epoch each in turn")
    tokens_per_sample: int = option(128, "most tokens of an example, <s> and </s> included", ge=SHORTEST)
    mask_prob: float = option(0.15, "share of an example's tokens that is predicted", gt=0, lt=1)
    leave_unmasked_prob: float = option(
        0.15, "probability that a predicted token stays as it is instead of being masked", ge=0, le=1
    )
    random_token_prob: float = option(0.0, "probability that a predicted token is replaced by a random one", ge=0, le=1)
    mask_whole_words: bool = option(False, "choose whole words instead of tokens, for the same share of tokens")
    tokenization: str = option(
        "auto", "how the dictionary marks whole words; auto: detected", choices=("auto", *TOKENIZATIONS)
    )
    cuda_graphs: bool = option(
        False,
        "record the training step of full batches on the GPU and replay it, so that the host starts one recording in "
        "place of a thousand kernels",
    )
    seed: int = II("common.seed")


@register_task("electra_pretraining", dataclass=ElectraPretrainingConfig)
class ElectraPretrainingTask(MaskedLMTask):
    """Pre-training on masked examples, cut as ELECTRA cuts them (:mod:`truneg_fairseq.data.segments`).

    The data are those of masked_lm: dict.txt and binarized splits, an item per line, empty lines between documents. So
    are the batches (:meth:`ElectraDataset.collater`): any masked-LM criterion and model train on them.
    """

    # What this package's ELECTRA model looks at to build its generator.
    replaced_token_detection = True

    cfg: ElectraPretrainingConfig

    def __init__(self, cfg: ElectraPretrainingConfig, *args: Any, **kwargs: Any) -> None:
        super().__init__(cfg, *args, **kwargs)
        self._recorded = RecordedSteps()

    @classmethod
    def setup_task(cls, cfg: ElectraPretrainingConfig, **kwargs: Any) -> "ElectraPretrainingTask":
        with one_line_errors():
            check(select(ElectraPretrainingConfig, cfg))
            if cfg.leave_unmasked_prob + cfg.random_token_prob > 1:
                raise TrueNegError(
                    f"--leave-unmasked-prob {cfg.leave_unmasked_prob}: with --random-token-prob "
                    f"{cfg.random_token_prob} it exceeds 1; expected a sum of at most 1"
                )
        task: ElectraPretrainingTask = super().setup_task(cfg, **kwargs)
        return task

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any) -> None:
        """Loads a split; with several data folders, that of the epoch, which counts from 1.

        With ``combine`` the split's continuations ("train1", ...) are loaded too.
        """
        shards = utils.split_paths(self.cfg.data)
        prefix = str(Path(shards[(epoch - 1) % len(shards)]) / split)
        with one_line_errors():
            found = list(parts_of(Path(prefix)))
            texts = [BinarizedText(part) for part in (found if combine else found[:1])]
            if not texts:
                raise FileNotFoundError(f"{prefix}.idx: no such file; expected the split {split}, binarized")
            parts, stored = [], 0
            for text in texts:
                part = cut_examples(
                    text.line_sizes(),
                    max_length=self.cfg.tokens_per_sample,
                    one_segment_prob=_ONE_SEGMENT,
                    short_length_prob=_SHORT,
                    seed=self.cfg.seed,
                )
                parts.append(part.moved(stored))
                stored += len(text.tokens)
            examples = concatenate(parts)
            if not len(examples):
                raise TrueNegError(f"{prefix}.bin: found no token of text; expected lines with words; binarize again")
            dataset = ElectraDataset(texts, examples, self.dictionary, self._masking(), self.cfg.seed)
        logger.info(
            f"{prefix}: {len(examples):,} examples of {examples.sizes.mean():.1f} tokens, "
            f"{100 * np.mean(examples.split < examples.length):.1f} % with two segments"
        )
        with data_utils.numpy_seed(self.cfg.seed):
            shuffle = np.random.permutation(len(dataset))
        self.datasets[split] = SortDataset(dataset, sort_order=[shuffle, dataset.sizes])

    def _masking(self) -> Masking:
        ordinary = np.setdiff1d(np.arange(self.dictionary.nspecial, len(self.dictionary)), [self.mask_idx])
        words = None
        if self.cfg.mask_whole_words:
            data = Path(utils.split_paths(self.cfg.data)[0])
            vocabulary = vocabulary_of(self.dictionary.symbols, data, tokenization=self.cfg.tokenization)
            words = WordBoundaries(vocabulary.continues, vocabulary.unfinished)
        return Masking(
            mask=self.mask_idx,
            pad=self.dictionary.pad(),
            mask_prob=self.cfg.mask_prob,
            leave_unmasked_prob=self.cfg.leave_unmasked_prob,
            random_token_prob=self.cfg.random_token_prob,
            random_tokens=ordinary,
            words=words,
        )

    def train_step(  # noqa: PLR0917  (fairseq's)
        self,
        sample: dict[str, Any],
        model: Any,
        criterion: Any,
        optimizer: Any,
        update_num: int,
        ignore_grad: bool = False,
        **kwargs: Any,
    ) -> Any:
        """With ``--cuda-graphs`` forward and backward are recorded and replayed."""
        stock = super().train_step

        def step(sample: dict[str, Any]) -> Any:
            return stock(sample, model, criterion, optimizer, update_num, ignore_grad, **kwargs)

        if not self.cfg.cuda_graphs or ignore_grad or kwargs:
            return step(sample)
        with one_line_errors():
            return self._recorded.run(step, sample, model, criterion, optimizer)
