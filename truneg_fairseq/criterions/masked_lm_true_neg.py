"""Masked-LM criterions that train on true negatives.

One criterion, ``masked_lm_true_neg``, combines hard correction, soft targets, the two soft regularizations and a
softmax temperature; ``masked_lm_hc``, ``masked_lm_sr_word`` and ``masked_lm_sr_sent`` are its presets. With every
weight 0 its losses and gradients are stock ``masked_lm``'s. The mathematics are in :mod:`truneg_fairseq.objectives`;
here are fairseq's batches, models and logs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from fairseq import utils
from fairseq.criterions import register_criterion
from fairseq.criterions.masked_lm import MaskedLmLoss
from fairseq.logging import metrics
from torch import Tensor

from .. import options
from ..data.tokenizer import vocabulary_of
from ..errors import TrueNegError, one_line_errors
from ..models.encoder import layer_states
from ..objective_factory import (
    MODEL_SOURCE,
    SynonymOptions,
    described,
    load_corpus_targets,
    load_pairs,
    looks_at_words,
    make_objective,
    teacher_path,
    with_preset,
)
from ..objectives import EncoderPasses, MaskedPredictions, ObjectiveSettings, Passes, TrueNegativeObjective
from ..objectives.passes import dropout_off
from ..objectives.predictions import at_positions
from ..objectives.rates import MASKED_LM_RATES
from ..objectives.words import WordMarks
from ..vocabulary import Vocabulary
from .config import (
    MaskedLmHardCorrectionConfig,
    MaskedLmSentenceRegularizationConfig,
    MaskedLmTrueNegConfig,
    MaskedLmWordRegularizationConfig,
)
from .mask_rate import FallingMaskRate
from .model_synonyms import ModelSynonyms, log_model_pairs
from .nan_guard import explain_nan
from .rates import log_loss, log_rates
from .step_random import StepGenerator
from .task_hooks import before_each_epoch, follow_device, masked_lm_of, unwrap
from .teacher import Teacher

logger = logging.getLogger(__name__)


@register_criterion("masked_lm_true_neg", dataclass=MaskedLmTrueNegConfig)
class MaskedLmTrueNeg(MaskedLmLoss):
    """Masked-LM loss with any combination of hard correction, soft targets and regularization, and a temperature.

    ``L = L_hc + lambda_word * L_sr + lambda_sent * L_kl`` (Eq. 2, Eq. 3, Section 5), as a sum that fairseq's trainer
    divides by the sample size. The vocabulary is projected once, at masked positions only (once more for what the model
    says of the unmasked sentence), and no host-device sync is added to stock's own indexing.

    Logged, of all workers and micro-batches: ``loss`` and ``ppl`` as stock masked_lm has them (uncorrected, at
    temperature 1, so that runs compare), ``objective`` (what is minimised, in bits as ``loss``), ``accuracy`` (% of the
    masked tokens), ``hc_pred`` (% of the mismatches that are corrected, Table 2), ``hc_iter`` (% of the sequences with
    a correction, Table 2), ``hc_acceptance`` (mean probability, in %, that people accept what is corrected, by a
    detector that scores), ``smoothed`` (% of the masked tokens with a soft target), ``smoothed_mass`` (% of all targets
    that other words get), ``sr`` (mean of 1 - cosine), ``kl`` (mean divergence per token, in nats). The correction
    rates are logged where hard correction is on, or where a ``synonym_table`` is given that nothing else needs.
    Synonyms from the model (:class:`ModelSynonyms`) add ``model_pairs``, the number of pairs in use.
    """

    config: type[MaskedLmTrueNegConfig] = MaskedLmTrueNegConfig
    settings_of: Callable[[Any], ObjectiveSettings] = ObjectiveSettings.of
    step_generators: Sequence[StepGenerator] = ()
    """What this draws random numbers from, beside torch's own generator."""

    def __init__(self, cfg: MaskedLmTrueNegConfig, task: Any) -> None:
        super().__init__(cfg, task)
        self._vocabulary: Vocabulary | None = None
        self.model_synonyms: ModelSynonyms | None = None  # of --synonym-source model
        with one_line_errors():
            self.cfg = with_preset(cfg)
            options.check(options.select(self.config, self.cfg))
            self.objective = self._build_objective(task)
            synonyms = options.select(SynonymOptions, self.cfg)
            logger.info("objective: %s", described(self.objective.settings, synonyms))
            self._hook_into(task)
            self._mask_rate = self._falling_mask_rate(task)

    def _build_objective(self, task: Any) -> TrueNegativeObjective:
        settings = type(self).settings_of(self.cfg)
        settings.check()
        data = _data_of(task)
        corpus = load_corpus_targets(self.cfg, settings, task.source_dictionary.symbols, data)
        teacher = None
        if settings.target_smoothing_teacher:
            teacher = Teacher(teacher_path(self.cfg), data, task.mask_idx)
        if not looks_at_words(self.cfg, settings):
            return TrueNegativeObjective(settings, self.padding_idx, corpus=corpus, teacher=teacher)
        vocabulary = self._vocabulary = _vocabulary_of(task, self.cfg.tokenization)
        if self.cfg.synonym_source == MODEL_SOURCE:
            self.model_synonyms = ModelSynonyms(vocabulary, self.cfg)
        return make_objective(
            self.cfg,
            settings,
            padding=self.padding_idx,
            vocabulary=vocabulary,
            data=data,
            pairs=self.model_synonyms or load_pairs(self.cfg, settings, vocabulary, data),
            corpus=corpus,
            teacher=teacher,
        )

    def _hook_into(self, task: Any) -> None:
        if self.model_synonyms is not None:
            flag, remedy = f"--synonym-source {MODEL_SOURCE}", "another source"
            self.model_synonyms.attach(task, lambda model: _tied_embeddings(model, flag, remedy))
        if self.settings.sr_word_weight:
            before_each_epoch(task, self._embeddings)
        explain_nan(task, self)
        follow_device(task, self)  # last: what hooks into a step later runs earlier

    def _falling_mask_rate(self, task: Any) -> FallingMaskRate | None:
        if self.cfg.final_mask_prob is None:
            return None
        words = None
        if task.cfg.mask_whole_words:
            vocabulary = _vocabulary_of(task, self.cfg.tokenization)
            words = WordMarks(vocabulary.continues, vocabulary.unfinished)
        return FallingMaskRate(self.cfg, task, self, words)

    def with_mask_rate(self, sample: dict[str, Any]) -> dict[str, Any]:
        """The batch as this update masks it (``--final-mask-prob``)."""
        return sample if self._mask_rate is None else self._mask_rate.applied_to(sample, self.training)

    @property
    def repeats_its_step(self) -> bool:
        """Whether batches of one shape take the same kernels with the same constants in every update.

        A falling masking rate changes a constant, and a teacher asks the device whether there is padding.
        """
        return self._mask_rate is None and not self.settings.target_smoothing_teacher

    @property
    def settings(self) -> ObjectiveSettings:
        return self.objective.settings

    @property
    def vocabulary(self) -> Vocabulary:
        """The dictionary's words; only where something looks at them."""
        assert self._vocabulary is not None
        return self._vocabulary

    def forward(self, model: Any, sample: dict[str, Any], reduce: bool = True) -> tuple[Tensor, Any, dict[str, Any]]:
        """The loss of a batch.

        Args:
            model: a fairseq encoder model with an MLM head, perhaps wrapped for data parallelism.
            sample: a batch of a masked-LM task: ``net_input``, and ``target`` (int64, shape (B, T)) with the original
                tokens at masked positions and padding elsewhere.
            reduce: as in stock masked_lm the loss is always summed.

        Returns:
            The loss (fp32 scalar, a sum), the sample size (its denominator) and the counts to log.
        """
        sample = self.with_mask_rate(sample)
        predicted = self.predict(model, sample)
        passes = self.passes(model, sample, predicted)
        with one_line_errors():
            judged = self.objective.judge(predicted, passes)
        return self.score(model, sample, judged, passes)

    def judge(self, model: Any, sample: dict[str, Any]) -> MaskedPredictions:
        """Predicts a batch's masked tokens and finds the false negatives among the mistakes; see :meth:`forward`."""
        predicted = self.predict(model, sample)
        with one_line_errors():
            return self.objective.judge(predicted, self.passes(model, sample, predicted))

    def predict(self, model: Any, sample: dict[str, Any]) -> MaskedPredictions:
        """Predicts a batch's masked tokens."""
        projected = self.projected_positions(sample)
        logits = model(**sample["net_input"], masked_tokens=projected)[0]
        return self.predict_from(logits, sample, projected)

    def predict_from(self, logits: Tensor, sample: dict[str, Any], projected: Tensor | None) -> MaskedPredictions:
        """:meth:`predict` of logits that are there: shape (N, V) at :meth:`projected_positions`, or (B, T, V)."""
        target = sample["target"]
        if projected is None:
            positions = torch.arange(target.numel(), device=target.device)
        else:
            positions = sample["net_input"].get("masked_positions")
            if positions is None:  # stock masked_lm's batches: a host-device sync
                positions = projected.reshape(-1).nonzero().squeeze(1)
        logits = logits.view(-1, logits.size(-1))
        return self.objective.predict(logits, target, sample["net_input"]["src_tokens"], positions)

    def score(
        self, model: Any, sample: dict[str, Any], judged: MaskedPredictions, passes: Passes | None = None
    ) -> tuple[Tensor, Tensor, dict[str, Any]]:
        """The second half of :meth:`forward`: the loss of a batch whose predictions are judged.

        ``passes`` are those made so far.
        """
        with one_line_errors():
            outcome = self.objective.score(judged, passes or self.passes(model, sample, judged))
        log: dict[str, Any] = {**outcome.counts, "ntokens": sample["ntokens"], "nsentences": sample["nsentences"]}
        if self.model_synonyms is not None:
            if not self.training:
                self.model_synonyms.warn_where_unknown()
            log["model_pairs"], log["model_pairs_size"] = self.model_synonyms.pairs(), 1
        return outcome.loss, outcome.sample_size, log

    def projected_positions(self, sample: dict[str, Any]) -> Tensor | None:
        """Where the model projects to the vocabulary: bool, shape (B, T), the masked positions.

        All of them where none is masked, as in stock masked_lm.
        """
        masked: Tensor = sample["target"].ne(self.padding_idx)
        if self.tpu:
            return None
        positions = sample["net_input"].get("masked_positions")
        if positions is not None:  # of the data; a falling rate has dropped some of their targets
            return masked.new_zeros(masked.numel()).index_fill(0, positions, True).view_as(masked)
        if masked.device.type == "cpu":
            return masked if masked.any() else None
        return torch.where(masked.any(), masked, masked.new_ones(()))

    def passes(
        self, model: Any, sample: dict[str, Any], predicted: MaskedPredictions, *, with_layers: bool = False
    ) -> Passes:
        """What else the objective asks of the model, made when it is asked for.

        ``with_layers`` gives the states of all layers, whether the detector compares them or not.
        """
        # All go through the unwrapped model: the gradient hooks of data parallelism sit on the parameters, and a second
        # forward of the wrapper would reset them.
        inner = unwrap(model)
        with_layers = with_layers or self.settings.uses_context
        layout = {"src_tokens": predicted.original, "padded": sample["net_input"].get("padded")}
        return EncoderPasses(
            predicted,
            self.settings,
            embeddings=partial(self._embeddings, model),
            encode=partial(_encode, inner, layout, with_layers=with_layers),
            predict=partial(_predict, inner, predicted),
            with_layers=with_layers,
        )

    def _embeddings(self, model: Any) -> Tensor:
        if self.settings.sr_word_weight:
            flag = "--sr-word-weight"
            return _tied_embeddings(model, f"{flag} {self.settings.sr_word_weight}", f"{flag} 0")
        weight: Tensor = _word_embeddings(masked_lm_of(model)).weight
        return weight

    @staticmethod
    def reduce_metrics(logging_outputs: Sequence[dict[str, Any]]) -> None:
        """Sums the counts of all workers and micro-batches; the rates are derived from the sums when shown."""
        log_loss(logging_outputs)
        metrics.log_derived("ppl", lambda meters: utils.get_perplexity(meters["loss"].avg))
        log_rates(logging_outputs, MASKED_LM_RATES)
        log_model_pairs(logging_outputs)


@register_criterion("masked_lm_hc", dataclass=MaskedLmHardCorrectionConfig)
class MaskedLmHardCorrection(MaskedLmTrueNeg):
    """Hard correction (Eq. 2): :class:`MaskedLmTrueNeg` with ``hc_weight`` 1."""


@register_criterion("masked_lm_sr_word", dataclass=MaskedLmWordRegularizationConfig)
class MaskedLmWordRegularization(MaskedLmTrueNeg):
    """Soft regularization at word level (Eq. 3): :class:`MaskedLmTrueNeg` with ``sr_word_weight`` 1."""


@register_criterion("masked_lm_sr_sent", dataclass=MaskedLmSentenceRegularizationConfig)
class MaskedLmSentenceRegularization(MaskedLmTrueNeg):
    """Soft regularization at sentence level (Section 5): :class:`MaskedLmTrueNeg` with ``sr_sent_weight`` 1."""


def _data_of(task: Any) -> Path:
    return Path(task.cfg.data.split(":")[0])


def _vocabulary_of(task: Any, tokenization: str) -> Vocabulary:
    return vocabulary_of(task.source_dictionary.symbols, _data_of(task), tokenization=tokenization)


def _encode(
    model: Any, layout: dict[str, Any], tokens: Tensor, gradient: bool, dropout: bool, *, with_layers: bool
) -> tuple[Tensor, ...]:
    """The states of every layer, or of the last, shape (B, T, H) each.

    Positions, segments and padding are those of ``layout``, the original sentences: a predicted ``</s>`` or ``<pad>``
    is a wrong word like others.
    """
    encoder = model.encoder
    with torch.set_grad_enabled(gradient and torch.is_grad_enabled()), dropout_off(model, not dropout):
        words = encoder.sentence_encoder.embed_tokens(tokens)
        features, extra = encoder.extract_features(**layout, return_all_hiddens=with_layers, token_embeddings=words)
    return layer_states(features, extra) if with_layers else (features,)


def _predict(model: Any, predicted: MaskedPredictions, original: Callable[[], Tensor]) -> Tensor:
    head, states = masked_lm_of(model).lm_head, at_positions(original().detach(), predicted)
    with torch.no_grad(), dropout_off(head):
        logits: Tensor = head(states)
    return logits


def _word_embeddings(masked_lm: Any) -> Any:
    return getattr(getattr(masked_lm, "sentence_encoder", masked_lm), "embed_tokens", None)


def _tied_embeddings(model: Any, flag: str, remedy: str) -> Tensor:
    """The input embedding matrix, shape (V, E), of a model whose MLM head has the same weight."""
    masked_lm = masked_lm_of(model)
    embedding = _word_embeddings(masked_lm)
    head = getattr(masked_lm, "lm_head", None)
    if head is None or embedding is None or head.weight is not embedding.weight:
        raise TrueNegError(
            f"{flag}: {type(unwrap(model)).__name__} does not tie its MLM head to the input embeddings; expected tied "
            f"embeddings (leave out --untie-weights-roberta), or {remedy}"
        )
    weight: Tensor = embedding.weight
    return weight
