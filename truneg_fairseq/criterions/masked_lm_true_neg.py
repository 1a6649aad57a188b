"""Masked-LM criterions that train on true negatives.

One criterion, ``masked_lm_true_neg``, combines hard correction, the two soft regularizations and a softmax temperature;
``masked_lm_hc``, ``masked_lm_sr_word`` and ``masked_lm_sr_sent`` are its presets. With every weight 0 its losses and
gradients are stock ``masked_lm``'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from fairseq.criterions import register_criterion
from fairseq.criterions.masked_lm import MaskedLmLoss
from fairseq.distributed import (
    DistributedTimeoutWrapper,
    LegacyDistributedDataParallel,
    ModuleProxyWrapper,
)
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from ..errors import TrueNegError, one_line_errors
from ..objectives import (
    corrected_predictions,
    mark_whole_words,
    masked_cross_entropy,
    pair_keys,
    sentence_divergence_sum,
    word_distance_sum,
)
from ..synonyms.provision import provide_table
from ..vocabulary import MASK_SYMBOL, Vocabulary, gpt2_encoder_beside
from .config import (
    MODEL_SOURCE,
    MaskedLmHardCorrectionConfig,
    MaskedLmSentenceRegularizationConfig,
    MaskedLmTrueNegConfig,
    MaskedLmWordRegularizationConfig,
    check_options,
    lexicon_settings,
)
from .model_synonyms import ModelSynonyms
from .rates import BITS, Rate, log_rates
from .task_hooks import before_each_epoch

_WRAPPERS = (DistributedDataParallel, DistributedTimeoutWrapper, LegacyDistributedDataParallel, ModuleProxyWrapper)


class Judgement(NamedTuple):
    """A batch's predictions and which of them are false negatives.

    N is the number of projected positions: the masked ones, or all B * T of them in a batch without any (as in stock
    masked_lm), told apart by ``counted``.

    Attributes:
        logits: shape (N, V), with gradient.
        original: int64, shape (B, T), the tokens before masking.
        positions: int64, shape (N,), indices into the flattened (B, T).
        gold: int64, shape (N,), padding where not counted.
        prediction: int64, shape (N,), argmax of the logits, without gradient.
        counted: bool, shape (N,).
        whole_word: bool, shape (N,), where the gold token is a whole word; None where no synonym table is in use.
        corrected: bool, shape (N,), or None likewise.
    """

    logits: Tensor
    original: Tensor
    positions: Tensor
    gold: Tensor
    prediction: Tensor
    counted: Tensor
    whole_word: Tensor | None
    corrected: Tensor | None


class SentenceStates(NamedTuple):
    """Last-layer states that sentence-level regularization compares, each of shape (B, T, H).

    Attributes:
        predicted: of the sentences with the predictions filled in.
        original: of the original sentences.
    """

    predicted: Tensor
    original: Tensor


CORRECTION_RATES = (
    Rate("hc_pred", "corrected", "sample_size", subtracted="correct", scale=100.0),
    Rate("hc_iter", "corrected_sentences", "nsentences", scale=100.0),
    Rate("sr", "sr_sum", "sample_size"),
    Rate("kl", "kl_sum", "kl_size"),
)
"""What the true-negative objectives log."""

_RATES = (
    Rate("objective", "objective", "objective_size", scale=BITS),
    Rate("accuracy", "correct", "sample_size", scale=100.0),
    *CORRECTION_RATES,
)


@register_criterion("masked_lm_true_neg", dataclass=MaskedLmTrueNegConfig)
class MaskedLmTrueNeg(MaskedLmLoss):
    """Masked-LM loss with any combination of hard correction, soft regularization and a softmax temperature.

    ``L = L_hc + lambda_word * L_sr + lambda_sent * L_kl`` (Eq. 2, Eq. 3, Section 5), as a sum that fairseq's trainer
    divides by the sample size. The vocabulary is projected once, at masked positions only, and nothing but stock's own
    indexing waits for the device.

    Logged, of all workers and micro-batches: ``loss`` and ``ppl`` as stock masked_lm has them (uncorrected, at
    temperature 1, so that runs compare), ``objective`` (what is minimised, in bits as ``loss``), ``accuracy`` (% of the
    masked tokens), ``hc_pred`` (% of the mismatches that are corrected, Table 2), ``hc_iter`` (% of the sequences with
    a correction, Table 2), ``sr`` (mean of 1 - cosine), ``kl`` (mean divergence a token, in nats). The correction
    rates need a table: they are logged where hard correction is on or ``synonym_table`` is set. Synonyms from the model
    (:class:`ModelSynonyms`) add ``model_pairs``, the number of pairs in use.
    """

    synonym_keys: Tensor
    continues: Tensor

    def __init__(self, cfg: MaskedLmTrueNegConfig, task: Any) -> None:
        super().__init__(cfg, task)
        self.cfg = cfg
        self.corrects = self.needs_table(cfg)
        self.model_synonyms: ModelSynonyms | None = None
        with one_line_errors():
            check_options(cfg, self.corrects)
            if self.corrects:
                self._load_table(cfg, task)
        if cfg.sr_word_weight:
            before_each_epoch(task, self._regularized_embeddings)

    @staticmethod
    def needs_table(cfg: Any) -> bool:
        """Whether these options need synonyms."""
        return cfg.hc_weight != 0 or cfg.synonym_table is not None

    def _regularized_embeddings(self, model: Any) -> Tensor:
        flag = "--sr-word-weight"
        return _tied_embeddings(model, f"{flag} {self.cfg.sr_word_weight}", f"{flag} 0")

    def _load_table(self, cfg: MaskedLmTrueNegConfig, task: Any) -> None:
        dictionary = task.source_dictionary
        if dictionary is None or MASK_SYMBOL not in dictionary:
            name = getattr(task.cfg, "_name", None) or type(task).__name__
            raise TrueNegError(
                f"--task {name}: its dictionary has no {MASK_SYMBOL} symbol; expected a masked-LM task (masked_lm)"
            )
        data = Path(task.cfg.data.split(":")[0])
        self.vocabulary = Vocabulary.from_symbols(
            dictionary.symbols,
            cfg.tokenization,
            Path(cfg.gpt2_encoder_json) if cfg.gpt2_encoder_json else gpt2_encoder_beside(data),
        )
        self.register_buffer("continues", torch.from_numpy(self.vocabulary.continues), persistent=False)
        if cfg.synonym_source == MODEL_SOURCE:
            self.model_synonyms = ModelSynonyms(self.vocabulary, cfg)
            flag, remedy = f"--synonym-source {MODEL_SOURCE}", "another source"
            self.model_synonyms.attach(task, lambda model: _tied_embeddings(model, flag, remedy))
            return
        self.synonym_table = provide_table(
            self.vocabulary,
            data,
            Path(cfg.synonym_table) if cfg.synonym_table else None,
            cfg.synonym_source,
            lexicon_settings(cfg),
        )
        # Buffers follow the criterion to its device; integers and booleans stay what they are under fp16.
        gold, synonym = (torch.from_numpy(ids).long() for ids in (self.synonym_table.gold, self.synonym_table.synonym))
        self.register_buffer("synonym_keys", pair_keys(gold, synonym), persistent=False)

    def forward(self, model: Any, sample: dict[str, Any], reduce: bool = True) -> tuple[Tensor, Any, dict[str, Any]]:
        """The loss of a batch.

        Args:
            model: a fairseq encoder model with an MLM head, perhaps wrapped for data parallelism.
            sample: a batch of a masked-LM task: ``net_input``, and ``target`` (int64, shape (B, T)) with the original
                tokens at masked positions and padding elsewhere.
            reduce: as in stock masked_lm the loss is always summed.

        Returns:
            The loss (fp32 scalar, a sum), the sample size (its denominator) and the counts to log.

        Raises:
            SystemExit: with one line, where word-level regularization meets a model without tied embeddings.
        """
        return self.score(model, sample, self.judge(model, sample))

    def score(
        self, model: Any, sample: dict[str, Any], judged: Judgement, states: SentenceStates | None = None
    ) -> tuple[Tensor, Tensor, dict[str, Any]]:
        """The second half of :meth:`forward`: the loss of a batch whose predictions are judged.

        Args:
            model: see :meth:`forward`.
            sample: see :meth:`forward`.
            judged: from :meth:`judge`.
            states: what sentence-level regularization compares; None encodes the sentences for it.
        """
        cfg = self.cfg
        cross_entropy = masked_cross_entropy(
            judged.logits,
            judged.gold,
            judged.corrected,
            correction_weight=cfg.hc_weight,
            temperature=cfg.softmax_temperature,
            ignore_index=self.padding_idx,
        )
        loss = cross_entropy.objective
        masked_size = judged.counted.int().sum()
        sample_size = masked_size
        log = {
            "loss": cross_entropy.plain,
            "ntokens": sample["ntokens"],
            "nsentences": sample["nsentences"],
            "sample_size": masked_size,
            "correct": (judged.prediction.eq(judged.gold) & judged.counted).sum(),
        }
        if judged.corrected is not None:
            log["corrected"] = judged.corrected.sum()
            log["corrected_sentences"] = _count_rows(judged.corrected, judged.positions, judged.original)
            if cfg.hc_denominator == "kept":
                sample_size = masked_size - log["corrected"]
        if self.model_synonyms is not None:
            log["model_pairs"], log["model_pairs_size"] = self.model_synonyms.pairs(), 1
        if cfg.sr_word_weight:
            with one_line_errors():
                embeddings = self._regularized_embeddings(model)
            distance = word_distance_sum(embeddings, judged.gold, judged.prediction, judged.counted)
            loss = loss + cfg.sr_word_weight * per(distance, masked_size, sample_size)
            log["sr_sum"] = distance.detach()
        if cfg.sr_sent_weight:
            states = states or self._sentence_states(model, sample, judged)
            real = judged.original.ne(self.padding_idx)
            size = real.sum()
            divergence = sentence_divergence_sum(states.predicted, states.original, real)
            loss = loss + cfg.sr_sent_weight * per(divergence, size, sample_size)
            log["kl_sum"] = divergence.detach()
            log["kl_size"] = size
        log["objective"] = loss.detach()
        log["objective_size"] = sample_size
        return loss, sample_size, log

    def judge(self, model: Any, sample: dict[str, Any]) -> Judgement:
        """Predicts a batch's masked tokens and finds the false negatives among the mistakes.

        Args:
            model: see :meth:`forward`.
            sample: see :meth:`forward`.
        """
        projected = self.projected_positions(sample)
        logits = model(**sample["net_input"], masked_tokens=projected)[0]
        return self.judge_logits(logits, sample, projected)

    def judge_logits(self, logits: Tensor, sample: dict[str, Any], projected: Tensor | None) -> Judgement:
        """:meth:`judge` of logits that are there.

        Args:
            logits: shape (N, V), or (B, T, V) where ``projected`` is None.
            sample: see :meth:`forward`.
            projected: from :meth:`projected_positions`.
        """
        target = sample["target"]
        masked = target.ne(self.padding_idx)
        logits = logits.view(-1, logits.size(-1))
        if projected is None:
            positions = torch.arange(target.numel(), device=target.device)
        else:
            positions = sample["net_input"].get("masked_positions")
            if positions is None:  # stock masked_lm's batches: the host waits for the device
                positions = projected.reshape(-1).nonzero().squeeze(1)
        gold = target.reshape(-1)[positions]
        counted = gold.ne(self.padding_idx)
        prediction = logits.detach().argmax(dim=-1)
        original = torch.where(masked, target, sample["net_input"]["src_tokens"])
        whole_word = corrected = None
        if self.corrects:
            whole_word = mark_whole_words(original, self.continues).reshape(-1)[positions] & counted
            corrected = self.find_synonyms(gold, prediction, whole_word)
        return Judgement(logits, original, positions, gold, prediction, counted, whole_word, corrected)

    def find_synonyms(self, gold: Tensor, tokens: Tensor, whole_word: Tensor) -> Tensor:
        """Where ``tokens`` are synonyms of the gold whole words; see :func:`corrected_predictions`."""
        keys = self.synonym_keys if self.model_synonyms is None else self.model_synonyms.keys
        return corrected_predictions(gold, tokens, whole_word, keys)

    def projected_positions(self, sample: dict[str, Any]) -> Tensor | None:
        """Where the model projects to the vocabulary: bool, shape (B, T), the masked positions.

        All of them where none is masked, as in stock masked_lm.
        """
        masked: Tensor = sample["target"].ne(self.padding_idx)
        if self.tpu:
            return None
        if masked.device.type == "cpu":
            return masked if masked.any() else None
        return torch.where(masked.any(), masked, masked.new_ones(()))

    def _sentence_states(self, model: Any, sample: dict[str, Any], judged: Judgement) -> SentenceStates:
        # Both passes go through the unwrapped model: the gradient hooks of data parallelism sit on the parameters, and
        # a second forward of the wrapper would reset them.
        encoder = _unwrap(model)
        predicted = _features(encoder, sample, fill(judged, judged.prediction))
        with torch.set_grad_enabled(self.cfg.sr_sent_gold_gradient and torch.is_grad_enabled()):
            original = _features(encoder, sample, judged.original)
        return SentenceStates(predicted, original)

    @staticmethod
    def reduce_metrics(logging_outputs: Sequence[dict[str, Any]]) -> None:
        """Sums the counts of all workers and micro-batches; the rates are derived from the sums when shown."""
        MaskedLmLoss.reduce_metrics(logging_outputs)
        log_rates(logging_outputs, _RATES)


@register_criterion("masked_lm_hc", dataclass=MaskedLmHardCorrectionConfig)
class MaskedLmHardCorrection(MaskedLmTrueNeg):
    """Hard correction (Eq. 2): :class:`MaskedLmTrueNeg` with ``hc_weight`` 1."""


@register_criterion("masked_lm_sr_word", dataclass=MaskedLmWordRegularizationConfig)
class MaskedLmWordRegularization(MaskedLmTrueNeg):
    """Soft regularization at word level (Eq. 3): :class:`MaskedLmTrueNeg` with ``sr_word_weight`` 1."""


@register_criterion("masked_lm_sr_sent", dataclass=MaskedLmSentenceRegularizationConfig)
class MaskedLmSentenceRegularization(MaskedLmTrueNeg):
    """Soft regularization at sentence level (Section 5): :class:`MaskedLmTrueNeg` with ``sr_sent_weight`` 1."""


def _count_rows(hits: Tensor, positions: Tensor, grid: Tensor) -> Tensor:
    """Number of rows of the (B, T) grid with a hit; hits is bool, shape (N,), at flattened positions, shape (N,)."""
    rows = torch.zeros(grid.size(0), dtype=torch.long, device=hits.device)
    rows.index_add_(0, torch.div(positions, grid.size(1), rounding_mode="floor"), hits.long())
    return rows.gt(0).sum()


def fill(judged: Judgement, tokens: Tensor) -> Tensor:
    """The original sentences with other tokens, int64, shape (N,), at the judged positions; shape (B, T)."""
    filled = judged.original.reshape(-1).clone()
    filled[judged.positions] = torch.where(judged.counted, tokens, filled[judged.positions])
    return filled.view_as(judged.original)


def per(total: Tensor, size: Tensor, sample_size: Tensor) -> Tensor:
    """The mean total / size, times the sample size by which fairseq's trainer divides every loss."""
    return total if size is sample_size else total * (sample_size / size.clamp(min=1))


def _features(model: Any, sample: dict[str, Any], tokens: Tensor) -> Tensor:
    features: Tensor = model(**{**sample["net_input"], "src_tokens": tokens}, features_only=True)[0]
    return features


def _tied_embeddings(model: Any, flag: str, remedy: str) -> Tensor:
    """The input embedding matrix, shape (V, E), of a model whose MLM head has the same weight."""
    model = _unwrap(model)
    masked_lm = getattr(model, "generator", None) or model.encoder
    embedding: Any = getattr(getattr(masked_lm, "sentence_encoder", masked_lm), "embed_tokens", None)
    head = getattr(masked_lm, "lm_head", None)
    tied = embedding is not None and getattr(head, "weight", None) is embedding.weight
    if not tied:
        raise TrueNegError(
            f"{flag}: {type(model).__name__} does not tie its MLM head to the input embeddings; expected tied "
            f"embeddings (leave out --untie-weights-roberta), or {remedy}"
        )
    embeddings: Tensor = embedding.weight
    return embeddings


def _unwrap(model: Any) -> Any:
    while isinstance(model, _WRAPPERS):
        model = model.module
    return model
