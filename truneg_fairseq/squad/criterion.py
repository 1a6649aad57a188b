"""Criterion ``squad``: where answers begin and end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch.nn.functional as F
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from torch import Tensor

from ..criterions.nan_guard import explain_nan
from ..criterions.rates import BITS, Rate, log_rates
from ..errors import TrueNegError, one_line_errors
from ..models.heads import AnswerLogits
from .decoding import Spans, WindowPredictions, best_spans, best_spans_of_beam

ANSWERABILITY_WEIGHT = 0.5
_RATES = (Rate("accuracy", "correct", "sample_size", scale=100.0),)


@register_criterion("squad", dataclass=FairseqDataclass)
class SquadCriterion(FairseqCriterion):
    """The mean of the cross-entropies of start and end, each over ``<s>`` (no answer) and the window's context.

    A joint head for SQuAD 2.0 adds half the cross-entropy of "this window has no answer", as ELECTRA does.

    Logged: ``loss`` (in bits a window), ``accuracy`` (% of the windows whose start and end are both the most likely
    ones); the task adds ``exact_match`` and ``f1`` of the questions (%), in validation.
    """

    def __init__(self, cfg: FairseqDataclass, task: Any) -> None:
        super().__init__(task)
        with one_line_errors():
            if not hasattr(task.cfg, "squad_head"):
                name = getattr(task.cfg, "_name", None) or type(task).__name__
                raise TrueNegError(f"--criterion squad: found --task {name}, expected --task squad")
        explain_nan(task, self)

    def forward(self, model: Any, sample: dict[str, Any], reduce: bool = True) -> tuple[Tensor, int, dict[str, Any]]:
        """The loss of a batch; in evaluation the best answer of every window too.

        Args:
            model: a bert or electra model with a head for question answering, perhaps wrapped for data parallelism.
            sample: a batch of :class:`~truneg_fairseq.squad.task.SquadDataset`.
            reduce: the loss is always summed.

        Returns:
            The loss (fp32 scalar, a sum over the windows), the number of windows, and what to log.
        """
        logits = answer_logits(model, sample, sample["target"][:, 0])
        assert logits.ends is not None
        start, end = sample["target"].unbind(1)
        loss = F.cross_entropy(logits.starts, start, reduction="sum")
        loss = (loss + F.cross_entropy(logits.ends, end, reduction="sum")) / 2
        if logits.unanswerable is not None:
            absent = start.eq(0).float()
            loss = loss + ANSWERABILITY_WEIGHT * F.binary_cross_entropy_with_logits(
                logits.unanswerable, absent, reduction="sum"
            )
        size = len(start)
        correct = logits.starts.argmax(1).eq(start) & logits.ends.argmax(1).eq(end)
        log: dict[str, Any] = {
            "loss": loss.detach(),
            "correct": correct.sum(),
            "sample_size": size,
            "nsentences": size,
            "ntokens": sample["ntokens"],
        }
        if not self.training:
            log["split"], log["answers"] = sample["split"], self.decode(logits, sample)
        return loss, size, log

    def decode(self, logits: AnswerLogits, sample: dict[str, Any], n: int = 1) -> WindowPredictions:
        """The n best answers of every window."""
        return decode(logits, sample, n=n)

    def logging_outputs_can_be_summed(self) -> bool:
        """Counts are summed on the device; the answers of a validation are gathered from the workers."""
        return bool(self.training)

    @staticmethod
    def reduce_metrics(logging_outputs: Sequence[dict[str, Any]]) -> None:
        """Sums the counts of all workers and micro-batches."""
        loss, size = (sum(log[key] for log in logging_outputs) for key in ("loss", "sample_size"))
        metrics.log_scalar("loss", loss * BITS / size if size else 0.0, size, round=3)
        log_rates(logging_outputs, _RATES)


def answer_logits(model: Any, sample: dict[str, Any], starts: Tensor | None) -> AnswerLogits:
    """A model's logits for a batch; answers may stand in the context and, for "none", at ``<s>``."""
    allowed = sample["context"].clone()
    allowed[:, 0] = True
    logits: AnswerLogits = model(**sample["net_input"], answers_allowed=allowed, answer_starts=starts)[0]
    return logits


def decode(logits: AnswerLogits, sample: dict[str, Any], *, n: int) -> WindowPredictions:
    """The n best answers of every window of a batch."""
    places = (sample["begins"], sample["context"])
    spans: Spans
    if logits.beam is not None and logits.beam_ends is not None:
        spans = best_spans_of_beam(logits.starts, logits.beam, logits.beam_ends, *places, n=n)
        return WindowPredictions.of(sample["id"], spans, logits.unanswerable, relative=False)
    assert logits.ends is not None
    spans = best_spans(logits.starts, logits.ends, *places, n=n)
    return WindowPredictions.of(sample["id"], spans, logits.starts[:, 0] + logits.ends[:, 0])
