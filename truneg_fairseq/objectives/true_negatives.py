"""The whole objective: predictions, false negatives, correction, soft targets, soft regularization, sums and rates.

What trains a model (a criterion of fairseq, a trainer of another library) gives logits and passes, and gets a loss and
counts; the rates of :mod:`~.rates` are derived from the counts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from .corpus_targets import CorpusTargets
from .cross_entropy import MaskedCrossEntropy, least_likely, masked_cross_entropy
from .detectors import Acceptance, Detector
from .hard_correction import mark_whole_words
from .passes import Passes
from .predictions import MaskedPredictions, count_rows, original_tokens
from .settings import ObjectiveSettings
from .soft_regularization import expected_distance_sum, sentence_divergence_sum, word_distance_sum
from .soft_targets import (
    SoftTargets,
    SynonymLists,
    embedding_targets,
    self_targets,
    soft_cross_entropy,
    synonym_targets,
    teacher_targets,
    uniform_targets,
)


class Outcome(NamedTuple):
    """What a batch costs."""

    loss: Tensor  # fp32 scalar with gradient: the objective as a sum, to be divided by ``sample_size``
    sample_size: Tensor  # int64 scalar, the denominator
    counts: dict[str, Tensor]  # what is to be logged, sums without gradient (scalars), by name


class UpdateSize(NamedTuple):
    """The denominators of an update, over all its micro-batches and processes."""

    masked: Tensor  # scalar, what the trainer divides every loss by: the masked tokens, at least 1
    tokens: Tensor  # int64 scalar, the tokens that are not padding


class TrueNegativeObjective(nn.Module):
    """``L = L_hc + lambda_word L_sr + lambda_sent L_kl`` (Eq. 2, Eq. 3, Section 5), with any detector and soft targets.

    Its buffers follow it to a device; it has no parameters and no state.

    Args:
        settings: what is minimised.
        padding: the id of padding.
        continues: bool, shape (V,), whether a token continues the word before it; None where nothing looks at words.
        unfinished: bool, shape (V,), whether the next token continues a token's word; None for never.
        detector: finds the false negatives; None where none are looked for.
        synonyms: of the soft targets "synonyms".
        corpus: the soft targets of ``target_smoothing_corpus``.
        teacher: for ``target_smoothing_teacher``, gives another model's logits at the masked positions, shape (N, V),
            without gradient.
    """

    continues: Tensor | None
    unfinished: Tensor | None

    def __init__(
        self,
        settings: ObjectiveSettings,
        padding: int,
        continues: Tensor | None = None,
        detector: Detector | None = None,
        synonyms: SynonymLists | None = None,
        *,
        corpus: CorpusTargets | None = None,
        teacher: Callable[[MaskedPredictions], Tensor] | None = None,
        unfinished: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.settings = settings
        self.padding = padding
        self.detector = detector
        self.synonyms = synonyms
        self.corpus = corpus
        self.teacher = teacher
        self.register_buffer("continues", continues, persistent=False)
        self.register_buffer("unfinished", unfinished, persistent=False)

    def predict(self, logits: Tensor, target: Tensor, tokens: Tensor, positions: Tensor) -> MaskedPredictions:
        """The predictions of a batch; false negatives are not looked for yet, see :meth:`judge`.

        Args:
            logits: shape (N, V), with gradient.
            target: int64, shape (B, T), the original tokens at masked positions and padding elsewhere.
            tokens: int64, shape (B, T), masked.
            positions: int64, shape (N,), where the logits are, indices into the flattened (B, T).
        """
        gold = target.reshape(-1)[positions]
        counted = gold.ne(self.padding)
        original = original_tokens(tokens, target, self.padding)
        whole_word = None
        if self.continues is not None:
            whole = mark_whole_words(original, self.continues, self.unfinished)
            whole_word = whole.reshape(-1)[positions] & counted
        return MaskedPredictions(logits, original, positions, gold, logits.detach().argmax(dim=-1), counted, whole_word)

    def judge(self, predicted: MaskedPredictions, passes: Passes) -> MaskedPredictions:
        """Finds the false negatives among the predictions."""
        if self.detector is None:
            return predicted
        found = self.detector.accept(predicted, predicted.prediction, passes)
        return predicted._replace(corrected=found.accepted, acceptance=found.probability)

    def accept(self, predicted: MaskedPredictions, tokens: Tensor, passes: Passes) -> Acceptance | None:
        """What the detector says of other tokens in place of the gold words; see :meth:`Detector.accept`."""
        return None if self.detector is None else self.detector.accept(predicted, tokens, passes)

    def score(self, judged: MaskedPredictions, passes: Passes, update: UpdateSize | None = None) -> Outcome:
        """The loss of a judged batch.

        Every term is a mean: cross-entropy and word distance over the masked positions, the divergence over the tokens
        that are not padding. ``update`` is what the means are over, None for the batch.
        """
        settings = self.settings
        soft = self._soft_targets(judged, passes)
        cross_entropy = self._cross_entropy(judged, soft)
        loss = cross_entropy.objective
        sample_size = judged.counted.int().sum()
        correct = judged.prediction.eq(judged.gold) & judged.counted
        counts = {"loss": cross_entropy.plain, "sample_size": sample_size, "correct": correct.sum()}
        if judged.corrected is not None:
            counts["corrected"] = judged.corrected.sum()
            counts["corrected_sentences"] = count_rows(judged.corrected, judged)
            if judged.acceptance is not None:
                counts["acceptance_sum"] = judged.acceptance.sum()
        if alternatives := soft[bool(settings.label_smoothing) :]:
            vocabulary, shares = judged.logits.size(-1), torch.stack([each.share for each in alternatives])
            given_away = [each.given_away(judged.gold, vocabulary) for each in alternatives]
            counts["smoothed"], counts["smoothed_mass"] = shares.gt(0).any(0).sum(), torch.stack(given_away).sum()
        if settings.sr_word_weight:
            distance = self._word_distance(judged, passes.embeddings())
            loss = loss + settings.sr_word_weight * distance
            counts["sr_sum"] = distance.detach()
        if settings.sr_sent_weight:
            real = judged.original.ne(self.padding)
            size = real.sum()
            divergence = sentence_divergence_sum(passes.filled()[1], passes.original().detach(), real)
            loss = loss + settings.sr_sent_weight * scaled_mean(divergence, update or UpdateSize(sample_size, size))
            counts["kl_sum"] = divergence.detach()
            counts["kl_size"] = size
        counts["objective"] = loss.detach()
        counts["objective_size"] = sample_size
        return Outcome(loss, sample_size, counts)

    def _word_distance(self, judged: MaskedPredictions, embeddings: Tensor) -> Tensor:
        if self.settings.sr_word_form == "expected":
            return expected_distance_sum(embeddings, judged.logits, judged.gold, judged.counted)
        return word_distance_sum(embeddings, judged.gold, judged.prediction, judged.counted)

    def _cross_entropy(self, judged: MaskedPredictions, soft: list[SoftTargets]) -> MaskedCrossEntropy:
        settings = self.settings
        if not soft and not settings.hc_graded and not settings.loss_truncation:
            return masked_cross_entropy(
                judged.logits,
                judged.gold,
                judged.corrected,
                correction_weight=settings.hc_weight,
                temperature=settings.softmax_temperature,
                ignore_index=self.padding,
            )
        kept = torch.ones_like(judged.gold, dtype=torch.float32)
        if judged.corrected is not None:
            dropped = judged.corrected if judged.acceptance is None or not settings.hc_graded else judged.acceptance
            kept = kept - settings.hc_weight * dropped
        if share := settings.loss_truncation:
            kept = kept.masked_fill(least_likely(judged.logits, judged.gold, judged.counted, share), 0.0)
        return soft_cross_entropy(
            judged.logits,
            judged.gold,
            kept,
            soft,
            temperature=settings.softmax_temperature,
            ignore_index=self.padding,
        )

    @torch.no_grad()
    def _soft_targets(self, judged: MaskedPredictions, passes: Passes) -> list[SoftTargets]:
        settings, weight = self.settings, self.settings.target_smoothing_weight
        temperature, soft = settings.target_smoothing_temperature, []
        if settings.smoothing == "uniform":
            soft.append(uniform_targets(judged.counted, weight))
        if share := settings.label_smoothing:  # as in fairseq: nothing of it for the gold word
            size = judged.logits.size(-1)
            soft.append(uniform_targets(judged.counted, share * size / (size - 1)))
        if settings.smoothing == "self":
            soft.append(self_targets(passes.visible(), judged.counted, weight))
        if settings.smoothing == "synonyms":
            assert self.synonyms is not None
            assert judged.whole_word is not None
            if self.synonyms.bits is not None:
                soft.append(self.synonyms.targets(judged.gold, judged.whole_word, weight))
            else:
                by_synonym = synonym_targets(
                    self.synonyms.of(judged.gold),
                    judged.whole_word,
                    weight,
                    gold=judged.gold,
                    embeddings=passes.embeddings() if settings.target_smoothing_shape == "cosine" else None,
                    temperature=temperature,
                    threshold=settings.target_smoothing_threshold,
                )
                soft.append(by_synonym)
        if share := settings.target_smoothing_corpus:
            assert self.corpus is not None
            soft.append(self.corpus.of(judged, self.padding, share))
        if share := settings.target_smoothing_embedding:
            embeddings = passes.embeddings()
            soft.append(embedding_targets(embeddings, judged.gold, judged.counted, share, temperature=temperature))
        if share := settings.target_smoothing_teacher:
            assert self.teacher is not None
            soft.append(teacher_targets(self.teacher(judged), judged.counted, share))
        return soft


def scaled_mean(total: Tensor, update: UpdateSize) -> Tensor:
    """The mean of a sum over all tokens, times the number by which the trainer divides every loss."""
    return total * (update.masked / update.tokens.clamp(min=1))
