"""Criterion ``sentence_prediction_metrics``: fairseq's sentence_prediction with GLUE's metrics of the whole set.

fairseq reads the options' types at run time: no ``from __future__ import annotations`` here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from fairseq.criterions import register_criterion
from fairseq.criterions.sentence_prediction import SentencePredictionCriterion
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from torch import Tensor

from ..criterions.nan_guard import explain_nan
from ..criterions.rates import Rate, log_rates
from .metrics import classification_metrics, regression_metrics

_ACCURACY = Rate("accuracy", "ncorrect", "nsentences", scale=100.0)
_PERCENT = 100.0
# By number of classes, 0 for scores.
_METRICS = {0: ("pearson", "spearman"), 2: ("matthews", "f1")}
_COLLECTED = "_predictions"  # fairseq shows no meter whose name begins with an underscore


@dataclass
class SentencePredictionMetricsConfig(FairseqDataclass):
    """Options of ``--criterion sentence_prediction_metrics``."""

    classification_head_name: str = field(
        default="sentence_classification_head", metadata={"help": "name of the classification head to use"}
    )
    regression_target: bool = field(default=False, metadata={"help": "the targets are scores (STS-B)"})


@register_criterion("sentence_prediction_metrics", dataclass=SentencePredictionMetricsConfig)
class SentencePredictionMetrics(SentencePredictionCriterion):
    """The loss of fairseq's criterion; in validation the metrics of the whole set, on any number of workers.

    Logged in validation, in percent: ``accuracy``, ``matthews`` and, of two classes, ``f1`` of the second; of scores
    ``pearson`` and ``spearman``. Each can be ``--best-checkpoint-metric``. A correlation with a constant is 0.

    The predictions of all workers are gathered after each batch and kept to the end of the validation: a correlation of
    ranks cannot be had from sums.
    """

    def __init__(self, cfg: SentencePredictionMetricsConfig, task: Any) -> None:
        super(SentencePredictionCriterion, self).__init__(task)  # the stock constructor reads its report_ options
        self.classification_head_name = cfg.classification_head_name
        self.regression_target = cfg.regression_target
        self.keep_pred_and_targ = False
        explain_nan(task, self)

    def forward(self, model: Any, sample: dict[str, Any], reduce: bool = True) -> tuple[Tensor, int, dict[str, Any]]:
        """The loss of a batch; in evaluation its predictions too.

        Args:
            model: with the classification head, perhaps wrapped for data parallelism.
            sample: a batch of the task.
            reduce: the loss is always summed.

        Returns:
            The loss (fp32 scalar, a sum), the number of examples, and what to log.
        """
        recorder = _OutputRecorder(model)
        loss, size, log = super().forward(recorder, sample, reduce)
        if not self.training:
            logits = recorder.logits
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
        return round(_PERCENT * scores[name], 4)

    return value


class _OutputRecorder:
    """A model that remembers its output, so that fairseq's criterion need not be repeated to see it."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def __call__(self, **inputs: Any) -> tuple[Tensor, Any]:
        output: tuple[Tensor, Any] = self._model(**inputs)
        self.logits = output[0].detach()
        return output

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)
