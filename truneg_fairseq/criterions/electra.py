"""ELECTRA pre-training with the true-negative objectives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from fairseq.criterions import register_criterion
from fairseq.logging import metrics
from torch import Tensor

from ..errors import TrueNegError, one_line_errors
from ..objectives import Detection, detection_sums, sample_tokens
from .config import ElectraConfig, check_electra_options
from .masked_lm_true_neg import CORRECTION_RATES, Judgement, MaskedLmTrueNeg, SentenceStates, fill, per
from .rates import BITS, Rate, log_rates
from .step_random import StepGenerator

_RATES = (
    Rate("objective", "objective", "objective_size", scale=BITS),
    Rate("gen_loss", "gen_loss", "sample_size", scale=BITS),
    Rate("gen_accuracy", "correct", "sample_size", scale=100.0),
    Rate("disc_loss", "disc_loss", "disc_size", scale=BITS),
    Rate("disc_accuracy", "disc_correct", "disc_size", scale=100.0),
    Rate("disc_precision", "disc_found", "disc_suspected", scale=100.0),
    Rate("disc_recall", "disc_found", "disc_replaced", scale=100.0),
    Rate("replaced", "replaced", "sample_size", scale=100.0),
    Rate("disc_fn", "disc_synonyms", "replaced", scale=100.0),
    *CORRECTION_RATES,
)


@register_criterion("electra", dataclass=ElectraConfig)
class Electra(MaskedLmTrueNeg):
    """Generator and discriminator, with any combination of the true-negative objectives.

    ``L = L_mlm + 50 L_disc + lambda_word L_sr + lambda_sent L_kl``: hard correction and word-level regularization work
    on the generator, the sentence-level one on the discriminator, whose pass over the sentence that the generator's
    samples fill is H_p already, so that it costs one pass more. L_mlm is a mean over the masked tokens, L_disc over all
    that are not padding. Replaced is what is sampled and differs from the original.

    Logged: ``loss`` (L_mlm + 50 L_disc, uncorrected and at temperature 1, in bits), ``objective`` (what is minimised),
    ``gen_loss`` and ``disc_loss`` (each alone, in bits), ``gen_accuracy`` (% of the masked tokens), ``disc_accuracy``
    (% of all tokens), ``disc_precision`` and ``disc_recall`` (%, of "replaced"), ``replaced`` (% of the masked tokens);
    with a table ``hc_pred`` and ``hc_iter`` of the generator (Table 2) and ``disc_fn`` (% of the replaced tokens that
    are synonyms of the original: the discriminator's false negatives); ``sr`` and ``kl``.
    """

    def __init__(self, cfg: ElectraConfig, task: Any) -> None:
        with one_line_errors():
            check_electra_options(cfg)
            if not getattr(task, "replaced_token_detection", False):
                name = getattr(task.cfg, "_name", None) or type(task).__name__
                raise TrueNegError(f"--criterion electra: found --task {name}, expected --task electra_pretraining")
        super().__init__(cfg, task)
        self.random = StepGenerator()

    @staticmethod
    def needs_table(cfg: Any) -> bool:
        """Whether these options need synonyms."""
        return MaskedLmTrueNeg.needs_table(cfg) or cfg.discriminator_false_negatives != "keep"

    def forward(self, model: Any, sample: dict[str, Any], reduce: bool = True) -> tuple[Tensor, Tensor, dict[str, Any]]:
        """The loss of a batch, in one forward pass of the model.

        Args:
            model: an ElectraModel with its generator, perhaps wrapped for data parallelism.
            sample: a batch of the task electra_pretraining, in the format of masked_lm.
            reduce: the loss is always summed.

        Returns:
            The loss (fp32 scalar, a sum), the sample size (its denominator) and the counts to log.
        """
        judgements: list[Judgement] = []
        samples: list[Tensor] = []

        def replace(logits: Tensor) -> Tensor:
            judgements.append(self.judge_logits(logits, sample, projected))
            samples.append(self.sample_replacements(judgements[0]))
            return fill(judgements[0], samples[0])

        projected = self.projected_positions(sample)
        output = model(
            **sample["net_input"],
            masked_tokens=projected,
            replace=replace,
            original_tokens=self._original_tokens(sample) if self.cfg.sr_sent_weight else None,
            original_gradient=self.cfg.sr_sent_gold_gradient,
        )
        judged, sampled = judgements[0], samples[0]
        states = None
        if output.original_features is not None:
            states = SentenceStates(output.features, output.original_features)
        loss, sample_size, log = self.score(model, sample, judged, states)
        detection, size = self._detect(output, judged, sampled, log)
        loss = loss + self.cfg.discriminator_weight * per(detection.loss, size, sample_size)
        log["gen_loss"], log["disc_loss"] = log["loss"], detection.loss.detach()
        masked_size = log["sample_size"]
        log["loss"] = log["gen_loss"] + self.cfg.discriminator_weight * per(log["disc_loss"], size, masked_size)
        log["objective"] = loss.detach()
        return loss, sample_size, log

    def sample_replacements(self, judged: Judgement) -> Tensor:
        """The tokens that the generator puts in place of the masked ones, int64, shape (N,), sampled."""
        return sample_tokens(judged.logits.detach(), self.random.at(judged.logits.device, self.training))

    def _original_tokens(self, sample: dict[str, Any]) -> Tensor:
        target = sample["target"]
        return torch.where(target.ne(self.padding_idx), target, sample["net_input"]["src_tokens"])

    def _detect(self, output: Any, judged: Judgement, sampled: Tensor, log: dict[str, Any]) -> tuple[Detection, Tensor]:
        """The discriminator's sums and their denominator; adds its counts to the log."""
        replaced = output.tokens.ne(judged.original)
        counted = judged.original.ne(self.padding_idx)
        log["replaced"] = replaced.sum()
        if judged.whole_word is not None:
            synonym = self.find_synonyms(judged.gold, sampled, judged.whole_word)
            log["disc_synonyms"] = synonym.sum()
            if self.cfg.discriminator_false_negatives != "keep":
                excused = torch.zeros_like(replaced).view(-1).index_put((judged.positions,), synonym).view_as(replaced)
                if self.cfg.discriminator_false_negatives == "ignore":
                    counted &= ~excused
                else:
                    replaced &= ~excused
        detection = detection_sums(output.discriminator_logits, replaced, counted)
        size = counted.sum()
        log["disc_size"] = size
        for name in ("correct", "found", "suspected", "replaced"):
            log[f"disc_{name}"] = getattr(detection, name)
        return detection, size

    @staticmethod
    def reduce_metrics(logging_outputs: Sequence[dict[str, Any]]) -> None:
        """Sums the counts of all workers and micro-batches; the rates are derived from the sums when shown."""
        loss, size = (sum(log[key] for log in logging_outputs) for key in ("loss", "sample_size"))
        metrics.log_scalar("loss", loss * BITS / size if size else 0.0, size, round=3)
        log_rates(logging_outputs, _RATES)
