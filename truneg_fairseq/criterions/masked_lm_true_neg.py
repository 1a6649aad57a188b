"""Masked-LM criterions that train on true negatives: fairseq's batches, models and logs around ``objectives/loss.py``.

``masked_lm_hc``, ``masked_lm_sr_word`` and ``masked_lm_sr_sent`` are presets of ``masked_lm_true_neg``. With every
weight 0 its losses and gradients are stock ``masked_lm``'s.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, make_dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import torch
from fairseq import utils
from fairseq.criterions import register_criterion
from fairseq.criterions.masked_lm import MaskedLmConfig, MaskedLmLoss
from fairseq.logging import metrics
from torch import Tensor

from .. import flags as options
from ..errors import TrueNegError, one_line_errors
from ..models.checkpoints import read_checkpoint, require_head
from ..models.encoder import layer_states
from ..models.loading import load_checkpoint
from ..objectives import EncoderPasses, MaskedPredictions, Objective, TrueNegativeOptions, gather_rows
from ..objectives.build import BITS, MaskedTeacher, Setting
from ..objectives.loss import ACCURACY, CORRECTION_RATES, OBJECTIVE, Rate, rates_in
from ..objectives.passes import dropout_off, unwrap

logger = logging.getLogger(__name__)


# fairseq reads the types of the fields: no ``from __future__ import annotations`` here.
@dataclass
class MaskedLmTrueNegConfig(MaskedLmConfig, TrueNegativeOptions):
    """``masked_lm_true_neg``: any combination of the objectives."""


def with_default(name: str, default: Any) -> Any:
    """An option of :class:`MaskedLmTrueNegConfig` with another default."""
    return field(default=default, metadata=MaskedLmTrueNegConfig.__dataclass_fields__[name].metadata)


@register_criterion("masked_lm_true_neg", dataclass=MaskedLmTrueNegConfig)
class MaskedLmTrueNeg(MaskedLmLoss):
    """Masked-LM loss with any combination of hard correction, soft targets and regularization, and a temperature.

    ``L = L_hc + lambda_word * L_sr + lambda_sent * L_kl`` (Eq. 2, Eq. 3, Section 5), as a sum that fairseq's trainer
    divides by the sample size. The logged ``loss`` and ``ppl`` are stock masked_lm's, so that runs compare;
    ``objective`` is what is minimised. docs/reference/files.md explains the other names.
    """

    config: type[Any] = MaskedLmTrueNegConfig
    options_type: ClassVar[type[TrueNegativeOptions]] = TrueNegativeOptions
    step_generators: Sequence[Any] = ()
    """The sources of random numbers beside torch's own generator: :class:`~.electra.StepGenerator`."""

    def __init__(self, cfg: MaskedLmTrueNegConfig, task: Any) -> None:
        super().__init__(cfg, task)
        with one_line_errors():
            options.check(options.select(self.config, cfg))
            chosen = options.select(self.options_type, cfg)
            setting = Setting(
                options=chosen,
                padding=self.padding_idx,
                symbols=task.source_dictionary.symbols,
                folder=(folder := Path(task.cfg.data.split(":")[0])),
                open_teacher=lambda path: fairseq_teacher(Path(path), folder, task.mask_idx),
            )
            self.options, self.objective = chosen, Objective(chosen, setting)
            # Batches of one shape take the same kernels in every update; a teacher asks the device for padding.
            self.repeats_its_step = "teacher" not in chosen.sources
            logger.info("objective: %s", self.options.described())
            setting.log_expected()

    def check_model(self, model: Any) -> None:
        """The trainer asks before it reads the first batch."""
        if self.options.sr_word_weight:
            self._embeddings(model)

    def forward(self, model: Any, sample: dict[str, Any], reduce: bool = True) -> tuple[Tensor, Any, dict[str, Any]]:
        """The loss of a batch of a masked-LM task, a fp32 sum whatever ``reduce``, its denominator, and the counts."""
        predicted = self.predict(model, sample)
        passes = self.passes(model, sample, predicted)
        with one_line_errors():
            _, outcome = self.objective.step(predicted, passes)
        log = {**outcome.counts, "ntokens": sample["ntokens"], "nsentences": sample["nsentences"]}
        return outcome.loss, outcome.sample_size, log

    def predict(self, model: Any, sample: dict[str, Any]) -> MaskedPredictions:
        """Predicts a batch's masked tokens."""
        self.objective.follow(sample["target"].device)
        projected = self.projected_positions(sample)
        return self.predict_from(model(**sample["net_input"], masked_tokens=projected)[0], sample, projected)

    def predict_from(self, logits: Tensor, sample: dict[str, Any], projected: Tensor) -> MaskedPredictions:
        """:meth:`predict` of logits that are there: shape (N, V), at :meth:`projected_positions`."""
        positions = sample["net_input"].get("masked_positions")
        if positions is None:  # stock masked_lm's batches: a host-device sync
            positions = projected.reshape(-1).nonzero().squeeze(1)
        return self.objective.predict(logits, sample["target"], sample["net_input"]["src_tokens"], positions)

    def projected_positions(self, sample: dict[str, Any]) -> Tensor:
        """The masked positions, bool, shape (B, T); all where none is masked, as in stock masked_lm."""
        masked: Tensor = sample["target"].ne(self.padding_idx)
        positions = sample["net_input"].get("masked_positions")
        if positions is not None:  # of the data
            return masked.new_zeros(masked.numel()).index_fill(0, positions, True).view_as(masked)
        return torch.where(masked.any(), masked, masked.new_ones(()))

    def passes(self, model: Any, sample: dict[str, Any], predicted: MaskedPredictions, **filled: Any) -> EncoderPasses:
        """What else the objective asks of the model, made when it is asked for.

        All goes through the unwrapped model: a second forward of data parallelism's wrapper would reset its hooks.
        """
        layout = {"src_tokens": predicted.original, "padded": sample["net_input"].get("padded")}
        with_layers = "states" in self.objective.reads
        return EncoderPasses(
            predicted,
            self.options,
            embeddings=partial(self._embeddings, model),
            encode=partial(encode, unwrap(model), layout, with_layers=with_layers),
            with_layers=with_layers,
            **filled,
        )

    def _embeddings(self, model: Any) -> Tensor:
        """The input embedding matrix, shape (V, E); word-level regularization needs it tied to the MLM head."""
        masked_lm = masked_lm_of(model)
        weight: Tensor = getattr(masked_lm, "sentence_encoder", masked_lm).embed_tokens.weight
        is_tied = getattr(masked_lm.lm_head, "weight", None) is weight
        return require_tied(self.options, weight, is_tied, "leave out --untie-weights-roberta")

    @staticmethod
    def reduce_metrics(logging_outputs: Sequence[dict[str, Any]]) -> None:
        """Sums the counts of all workers and micro-batches; the rates are derived from the sums when shown."""
        log_loss(logging_outputs)
        metrics.log_derived("ppl", lambda meters: utils.get_perplexity(meters["loss"].avg))
        log_rates(logging_outputs, (OBJECTIVE, ACCURACY, *CORRECTION_RATES))


def _register_preset(name: str, class_name: str, weight: str) -> None:
    """Registers :class:`MaskedLmTrueNeg` with a weight of 1; checkpoints keep the name of the class."""
    config = make_dataclass(
        f"{class_name}Config", [(weight, float, with_default(weight, 1.0))], bases=(MaskedLmTrueNegConfig,)
    )
    config.__module__ = __name__
    register_criterion(name, dataclass=config)(type(class_name, (MaskedLmTrueNeg,), {"__module__": __name__}))


_register_preset("masked_lm_hc", "MaskedLmHardCorrection", "hc_weight")  # Eq. 2
_register_preset("masked_lm_sr_word", "MaskedLmWordRegularization", "sr_word_weight")  # Eq. 3
_register_preset("masked_lm_sr_sent", "MaskedLmSentenceRegularization", "sr_sent_weight")  # Section 5


def require_tied(options: TrueNegativeOptions, embeddings: Tensor, is_tied: bool, remedy: str) -> Tensor:
    """The embeddings; word-level regularization needs a model whose output is tied to them."""
    if options.sr_word_weight and not is_tied:
        raise TrueNegError(
            f"--sr-word-weight {options.sr_word_weight}: the model does not tie its output to the embeddings that it "
            f"reads; {remedy}, or use --sr-word-weight 0"
        )
    return embeddings


def masked_lm_of(model: Any) -> Any:
    """The encoder with the prediction head: ELECTRA's generator, or the model's only encoder."""
    model = unwrap(model)
    return getattr(model, "generator", None) or model.encoder


def encode(
    model: Any, layout: dict[str, Any], tokens: Tensor, gradient: bool, dropout: bool, *, with_layers: bool
) -> tuple[Tensor, ...]:
    """The states of every layer, or of the last, shape (B, T, H) each.

    Segments and padding are those of ``layout``, the original sentences: a predicted ``</s>`` is a word like others.
    """
    encoder = model.encoder
    with torch.set_grad_enabled(gradient and torch.is_grad_enabled()), dropout_off(model, not dropout):
        words = encoder.sentence_encoder.embed_tokens(tokens)
        features, extra = encoder.extract_features(**layout, return_all_hiddens=with_layers, token_embeddings=words)
    return layer_states(features, extra) if with_layers else (features,)


def fairseq_teacher(checkpoint: Path, folder: Path, mask: int) -> MaskedTeacher:
    """A trained masked LM; ``mask`` is the id of ``<mask>``."""
    logger.info("teacher %s", checkpoint)
    model, _ = load_checkpoint(read_checkpoint(checkpoint), folder)
    require_head(f"--teacher {checkpoint}", getattr(model, "missing_heads", ()))
    return MaskedTeacher(masked_lm_of(model), mask, _fairseq_logits)


def _fairseq_logits(encoder: Any, tokens: Tensor, positions: Tensor) -> Tensor:
    found: Tensor = encoder.lm_head(gather_rows(encoder.extract_features(tokens)[0], positions))
    return found


def log_loss(logging_outputs: Sequence[dict[str, Any]]) -> None:
    """Logs ``loss``, in bits per masked token; 0 where no token is masked, as stock's NaN would stay in the meter."""
    loss, size = (sum(log.get(key, 0) for log in logging_outputs) for key in ("loss", "sample_size"))
    metrics.log_scalar("loss", loss * BITS / size if size else 0.0, size, round=3)


def log_rates(logging_outputs: Sequence[dict[str, Any]], rates: Sequence[Rate]) -> None:
    """Logs the rates whose counts are there."""
    rates = rates_in(logging_outputs[0].keys() if logging_outputs else (), rates)
    for key in sorted({key for rate in rates for key in rate.counts}):
        metrics.log_scalar_sum(f"_{key}", sum(log[key] for log in logging_outputs))
    for rate in rates:

        def value(meters: Any, rate: Rate = rate) -> float:
            return rate.value({key: float(meters[f"_{key}"].sum) for key in rate.counts})

        metrics.log_derived(rate.name, value)
