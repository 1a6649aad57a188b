"""Label smoothing on true negatives, for models that generate: translation, BART, causal LMs.

With every weight 0 it is the code of fairseq's ``label_smoothed_cross_entropy`` that runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from fairseq.criterions import register_criterion
from fairseq.criterions.label_smoothed_cross_entropy import (
    LabelSmoothedCrossEntropyCriterion,
    LabelSmoothedCrossEntropyCriterionConfig,
)
from torch import Tensor

from .. import flags as options
from ..errors import TrueNegError, one_line_errors
from ..objectives import EncoderPasses, Objective, TrueNegativeOptions
from ..objectives.build import Setting
from ..objectives.loss import CORRECTION_RATES
from ..objectives.options import GenerationOptions
from ..objectives.passes import unwrap
from .masked_lm_true_neg import log_rates, require_tied


@dataclass
class LabelSmoothedTrueNegConfig(LabelSmoothedCrossEntropyCriterionConfig, GenerationOptions):
    """``label_smoothed_true_neg``: stock's options, and those of the objectives that need no masked words."""


@register_criterion("label_smoothed_true_neg", dataclass=LabelSmoothedTrueNegConfig)
class LabelSmoothedTrueNeg(LabelSmoothedCrossEntropyCriterion):
    """Stock label smoothing, and beside its share of the target (``--label-smoothing``) those of the alternatives.

    ``L = (1 - eps - a) CE(gold) + eps mean_v CE(v) + a sum_r q(r) CE(r)`` at each target token, v over all other
    tokens, with hard correction (Eq. 2) and ``+ lambda_word L_sr`` (Eq. 3). The logged ``nll_loss`` is plain
    cross-entropy, as stock's.
    """

    def __init__(self, cfg: LabelSmoothedTrueNegConfig, task: Any) -> None:
        super().__init__(task, cfg.sentence_avg, cfg.label_smoothing, cfg.ignore_prefix_size, cfg.report_accuracy)
        given = task.cfg or task.args  # language_modeling has the second alone
        with one_line_errors():
            options.check(options.select(LabelSmoothedTrueNegConfig, cfg))
            chosen = options.select(TrueNegativeOptions, cfg)
            setting = Setting(
                options=chosen,
                padding=self.padding_idx,
                symbols=task.target_dictionary.symbols,
                folder=Path(given.data.split(":")[0]),
            )
            self.options, self.objective = chosen, Objective(chosen, setting, label_smoothing=self.eps)
        # Whether anything but fairseq's own label smoothing is in use.
        used = (chosen.hc_weight, chosen.sr_word_weight, chosen.loss_truncation, chosen.shares)
        self.changes_loss = any(used)

    def check_model(self, model: Any) -> None:
        """Refuses an adaptive softmax, of which a model gives states that would pass for logits: a wrong loss."""
        if getattr(unwrap(model).decoder, "adaptive_softmax", None) is not None:
            raise TrueNegError(
                "--criterion label_smoothed_true_neg: the model has an adaptive softmax; expected one without "
                "--adaptive-softmax-cutoff"
            )

    def forward(self, model: Any, sample: dict[str, Any], reduce: bool = True) -> tuple[Tensor, Any, dict[str, Any]]:
        """The loss of a batch: a sum, its denominator and the counts to log; ``target`` is int64, shape (B, T)."""
        if not (self.changes_loss or self.objective.detector):
            return super().forward(model, sample, reduce)
        self.objective.follow(sample["target"].device)
        net_output = model(**sample["net_input"])
        counted, target, logits = sample["target"], sample["target"], net_output[0]
        if self.ignore_prefix_size:
            counted = target.clone()
            counted[:, : self.ignore_prefix_size] = self.padding_idx
        positions = torch.arange(target.numel(), device=target.device)
        predicted = self.objective.predict(logits.reshape(-1, logits.size(-1)), counted, target, positions)
        # All that the objective asks of the model: the embeddings that its decoder reads.
        decoder = unwrap(model).decoder
        passes = EncoderPasses(predicted, self.options, embeddings=lambda: self._embeddings(decoder), encode=_no_states)
        with one_line_errors():
            _, outcome = self.objective.step(predicted, passes)
        counts = {name: count for name, count in outcome.counts.items() if not name.startswith("objective")}
        positions, correct, nll_loss = counts.pop("sample_size"), counts["correct"], counts.pop("loss")
        loss = outcome.loss
        if not self.changes_loss:  # a table is there to measure with
            loss, nll_loss = self.compute_loss(model, net_output, sample)
        sample_size = sample["target"].size(0) if self.sentence_avg else sample["ntokens"]
        log = {
            "loss": loss.detach(),
            "nll_loss": nll_loss.detach(),
            "ntokens": sample["ntokens"],
            "nsentences": sample["target"].size(0),
            "sample_size": sample_size,
            "positions": positions,
            **counts,
        }
        if self.report_accuracy:
            log |= {"n_correct": correct, "total": positions}
        return loss, sample_size, log

    def _embeddings(self, decoder: Any) -> Tensor:
        weight: Tensor = decoder.embed_tokens.weight
        is_tied = decoder.output_projection.weight is weight
        return require_tied(self.options, weight, is_tied, "give --share-decoder-input-output-embed")

    @classmethod
    def reduce_metrics(cls, logging_outputs: Sequence[dict[str, Any]]) -> None:
        """Stock's metrics, and the rates of what is in use."""
        super().reduce_metrics(logging_outputs)
        sizes = {"sample_size": "positions"}  # stock's sample size may be the number of sentences
        rates = [rate._replace(denominator=sizes.get(rate.denominator, rate.denominator)) for rate in CORRECTION_RATES]
        log_rates(logging_outputs, rates)


def _no_states(*_: Any) -> tuple[Tensor, ...]:
    raise TrueNegError("--soft-targets: found a source that looks at an encoder's states; expected a masked LM for it")
