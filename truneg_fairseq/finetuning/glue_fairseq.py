"""Task ``glue``: fairseq's sentence_prediction with BERT's way to shorten pairs; and its criterion.

fairseq reads the options' types at run time: no ``from __future__ import annotations`` here.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq.criterions import register_criterion
from fairseq.criterions.sentence_prediction import SentencePredictionConfig as CriterionConfig
from fairseq.criterions.sentence_prediction import SentencePredictionCriterion
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
from fairseq.logging import metrics
from fairseq.tasks import FairseqTask, register_task
from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask
from numpy.typing import NDArray
from torch import Tensor

from ..criterions.masked_lm_true_neg import log_rates
from ..errors import TrueNegError, one_line_errors
from ..objectives.rates import Rate
from ..options import check, option
from .glue import classification_metrics, regression_metrics

_ACCURACY = Rate("accuracy", "ncorrect", "nsentences", scale=100.0)
# By number of classes, 0 for scores.
_METRICS = {0: ("pearson", "spearman"), 2: ("matthews", "f1")}
_COLLECTED = "_predictions"  # fairseq shows no meter whose name begins with an underscore

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
            if not (path := Path(cfg.data, "input0", "dict.txt")).is_file():
                raise TrueNegError(
                    f"{path}: no such file; expected the folder of one task, made by 'truneg data prepare'"
                )
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


@register_criterion("sentence_prediction_metrics", dataclass=CriterionConfig)
class SentencePredictionMetrics(SentencePredictionCriterion):
    """The loss of fairseq's criterion; in validation the metrics of the whole set, on any number of workers.

    Logged in validation, in percent: ``accuracy``, ``matthews`` and, of two classes, ``f1`` of the second; of scores
    ``pearson`` and ``spearman``. Each can be ``--best-checkpoint-metric``. A correlation with a constant is 0.

    The predictions of all workers are gathered after each batch and kept to the end of the validation: a correlation of
    ranks cannot be had from sums.
    """

    def __init__(self, cfg: CriterionConfig, task: Any) -> None:
        super().__init__(cfg, task)
        self.keep_pred_and_targ = False  # whatever its report_ options say

    def forward(self, model: Any, sample: dict[str, Any], reduce: bool = True) -> tuple[Tensor, int, dict[str, Any]]:
        """The loss of a batch (fp32 scalar, a sum), the number of examples, and in evaluation their predictions."""
        outputs: list[Tensor] = []
        with model.register_forward_hook(lambda _, given, output: outputs.append(output[0].detach())):
            loss, size, log = super().forward(model, sample, reduce)
        if not self.training:
            (logits,) = outputs
            log["predictions"] = (logits.view(-1).float() if self.regression_target else logits.argmax(1)).cpu()
            log["targets"] = sample["target"].view(-1).cpu()
            log["classes"] = 0 if self.regression_target else logits.shape[1]
        return loss, size, log

    def logging_outputs_can_be_summed(self) -> bool:
        """Counts are summed on the device; the predictions of a validation are gathered from the workers."""
        return bool(self.training)

    @staticmethod
    def reduce_metrics(logging_outputs: Sequence[dict[str, Any]]) -> None:
        """Logs the loss as fairseq does, the accuracy, and the metrics of all predictions so far."""
        counted = [{key: value for key, value in log.items() if key != "ncorrect"} for log in logging_outputs]
        SentencePredictionCriterion.reduce_metrics(counted)
        log_rates(logging_outputs, (_ACCURACY,))
        collected = [log for log in logging_outputs if "predictions" in log]
        if not collected:
            return
        pairs = [torch.stack((log["predictions"].double(), log["targets"].double()), dim=1) for log in collected]
        metrics.log_concat_tensor(_COLLECTED, torch.cat(pairs))
        classes = collected[0]["classes"]
        for name in _METRICS.get(classes, ("matthews",)):
            metrics.log_derived(name, _metric(name, classes))


def _metric(name: str, classes: int) -> Callable[[Any], float]:
    """A function from fairseq's meters to a metric in percent."""

    def value(meters: Any) -> float:
        predictions, targets = meters[_COLLECTED].tensor.numpy().T
        scores = (
            classification_metrics(predictions, targets, classes)
            if classes
            else regression_metrics(predictions, targets)
        )
        return round(100 * scores[name], 4)

    return value
