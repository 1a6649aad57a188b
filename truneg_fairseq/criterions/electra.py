"""ELECTRA pre-training with the true-negative objectives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from fairseq.criterions import register_criterion
from torch import Tensor

from ..errors import TrueNegError, one_line_errors
from ..models.electra import OriginalPasses, ReplacedTokens, Replacement
from ..objectives import MaskedPredictions, Outcome, fill, sample_tokens
from ..objectives.electra import Replaced, add_discriminator
from ..objectives.predictions import original_tokens
from ..objectives.rates import ELECTRA_RATES
from ..objectives.settings import ElectraSettings
from .config import ElectraConfig
from .masked_lm_true_neg import MaskedLmTrueNeg
from .model_synonyms import log_model_pairs
from .rates import log_loss, log_rates
from .step_random import StepGenerator
from .task_hooks import before_each_attempt


@register_criterion("electra", dataclass=ElectraConfig)
class Electra(MaskedLmTrueNeg):
    """Generator and discriminator, with any combination of the true-negative objectives.

    ``L = L_mlm + 50 L_disc + lambda_word L_sr + lambda_sent L_kl``: hard correction and word-level regularization work
    on the generator, the sentence-level one on the discriminator, whose pass over the sentence that the generator's
    samples fill is H_p already, so that it costs one pass more. L_mlm is a mean over the masked tokens, L_disc over all
    that are not padding. Replaced is what is sampled and differs from the original.

    Logged: ``loss`` (L_mlm + 50 L_disc, uncorrected and at temperature 1, in bits), ``objective`` (what is minimised),
    ``gen_loss`` and ``disc_loss`` (each alone, in bits), ``gen_accuracy`` (% of the masked tokens), ``disc_accuracy``
    (% of all tokens), ``disc_precision`` and ``disc_recall`` (%, of "replaced"), all of the discriminator's against
    plain labels; ``replaced`` (% of the masked tokens); where false negatives are looked for ``hc_pred``,
    ``hc_iter`` (Table 2) and ``hc_acceptance`` of the generator and ``disc_fn`` (% of the replaced tokens that are
    acceptable: the discriminator's false negatives); ``smoothed``, ``smoothed_mass``, ``sr`` and ``kl``.

    What is read of the unmasked sentence is the generator's where words are predicted (self-smoothing) and the
    discriminator's where states are compared (``context``). The discriminator reads the samples: ``context`` judges a
    prediction only where it was sampled, and every sample.
    """

    config = ElectraConfig
    settings_of = ElectraSettings.of

    def __init__(self, cfg: ElectraConfig, task: Any) -> None:
        with one_line_errors():
            if not getattr(task, "replaced_token_detection", False):
                name = getattr(task.cfg, "_name", None) or type(task).__name__
                raise TrueNegError(f"--criterion electra: found --task {name}, expected --task electra_pretraining")
        super().__init__(cfg, task)
        self.random = StepGenerator()
        self.step_generators = (self.random,)
        before_each_attempt(self, self.random.begin)

    def forward(self, model: Any, sample: dict[str, Any], reduce: bool = True) -> tuple[Tensor, Tensor, dict[str, Any]]:
        """The loss of a batch of electra_pretraining, in one forward pass of an ElectraModel with its generator.

        Returns the loss (fp32 scalar, a sum whatever ``reduce``), the sample size (its denominator) and the counts.
        """
        sample = self.with_mask_rate(sample)
        projected = self.projected_positions(sample)

        def replace(logits: Tensor) -> Replacement:
            predicted = self.predict_from(logits, sample, projected)
            sampled = self.sample_replacements(predicted)
            compared = predicted.positions if self.settings.uses_context else None
            return Replacement(predicted, sampled, fill(predicted, sampled), compared)

        output = model(
            **sample["net_input"], masked_tokens=projected, replace=replace, original=self._original_passes(sample)
        )
        passes = _ModelPasses(output, partial(self._embeddings, model))
        with one_line_errors():
            judged = self.objective.judge(output.replacement.predicted, passes)
        generator = Outcome(*self.score(model, sample, judged, passes))
        replaced = Replaced(output.replacement.tokens, output.replacement.sampled, output.discriminator_logits)
        weight = self.cfg.discriminator_weight
        with one_line_errors():
            return add_discriminator(self.objective, generator, judged, passes, replaced, weight=weight)

    def sample_replacements(self, predicted: MaskedPredictions) -> Tensor:
        """The tokens that the generator puts in place of the masked ones, int64, shape (N,), sampled."""
        return sample_tokens(predicted.logits.detach(), self.random.at(predicted.logits.device, self.training))

    def _original_passes(self, sample: dict[str, Any]) -> OriginalPasses | None:
        settings = self.settings
        encode, predict = settings.sr_sent_weight != 0 or settings.uses_context, settings.uses_visible
        if not (encode or predict):
            return None
        tokens = original_tokens(sample["net_input"]["src_tokens"], sample["target"], self.padding_idx)
        return OriginalPasses(tokens, encode, predict, dropout=not settings.uses_context)

    @staticmethod
    def reduce_metrics(logging_outputs: Sequence[dict[str, Any]]) -> None:
        """Sums the counts of all workers and micro-batches; the rates are derived from the sums when shown."""
        log_loss(logging_outputs)
        log_rates(logging_outputs, ELECTRA_RATES)
        log_model_pairs(logging_outputs)


class _ModelPasses:
    """The passes that a pre-training step has made; see :class:`~truneg_fairseq.objectives.Passes`.

    States come from the discriminator, logits from the generator.
    """

    def __init__(self, output: ReplacedTokens, embeddings: Callable[[], Tensor]) -> None:
        self._output = output
        self.embeddings = embeddings

    def original(self) -> Tensor:
        assert self._output.original_features is not None
        return self._output.original_features

    def filled(self) -> tuple[Tensor, Tensor]:
        return self._output.replacement.tokens, self._output.features

    def layers(self) -> tuple[Tensor, Tensor]:
        assert self._output.original_layers is not None
        assert self._output.layers is not None
        return self._output.original_layers, self._output.layers

    def visible(self) -> Tensor:
        assert self._output.visible_logits is not None
        return self._output.visible_logits
