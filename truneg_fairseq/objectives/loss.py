"""The loss that trains on true negatives, in the order of Section 3 of the paper.

``L = L_hc + lambda_word L_sr + lambda_sent L_kl`` (Eq. 2, Eq. 3, Section 5), with any detector of false negatives and
soft targets: :meth:`Objective.predict`, :meth:`Objective.judge`, :meth:`Objective.loss`. Nothing waits for the device.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import TrueNegError, refuse
from ..registry import ALTERNATIVES, TERMS, Registry
from ..vocabulary import WordBoundaries
from .alternatives import Alternatives
from .build import BITS, Setting
from .false_negatives import Detector, FalseNegatives, acceptance_model
from .options import FLAT, TABLE, TrueNegativeOptions
from .passes import EncoderPasses, MaskedPredictions, accumulated, count_rows, full_precision, most_likely
from .soft_targets import SoftTargets, Target, soft_cross_entropy
from .token_lists import TokenLists

logger = logging.getLogger(__name__)

IGNORED = -100
"""The label of a token that is not predicted."""


class Outcome(NamedTuple):
    """The loss of a batch, and what is logged of it."""

    loss: Tensor  # fp32 scalar with gradient: a sum, to be divided by ``sample_size``
    sample_size: Tensor  # int64 scalar, the denominator
    counts: dict[str, Tensor]  # sums without gradient (scalars), by name


class UpdateSize(NamedTuple):
    """The denominators of an update, over all its micro-batches and processes."""

    masked: Tensor  # scalar, the number by which the trainer divides every loss: the masked tokens, at least 1
    tokens: Tensor  # int64 scalar, the tokens that are not padding


class Objective(nn.Module):
    """What is minimised: predictions, their false negatives, and the loss of both.

    It has no parameters and no state; its buffers are moved by :meth:`follow`.

    Args:
        options: what is minimised.
        setting: what sources of alternatives are made of; None for a loss that knows no words.
        label_smoothing: fairseq's epsilon, which gives nothing to the gold word and is not logged as a soft target.
        ideas: sources of alternatives and regularizers of one's own that are made already, by the names that the
            options have.
        allowed: bool, shape (V,), the words that are ever predicted: others get no share of a target and are no
            prediction; None for all.
    """

    allowed: Tensor | None
    continues: Tensor | None
    unfinished: Tensor | None
    _progress: Tensor

    def __init__(
        self,
        options: TrueNegativeOptions,
        setting: Setting | None = None,
        *,
        label_smoothing: float = 0.0,
        ideas: Mapping[str, Any] | None = None,
        allowed: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.register_buffer("allowed", allowed, persistent=False)
        options.check(label_smoothing)
        setting = setting or Setting(options=options)
        self.options, self.padding, self.label_smoothing = options, setting.padding, label_smoothing
        # A table that is only given is there to log with.
        only_logs = options.synonym_table is not None and options.detectors == (TABLE,)
        asked = options.sources | ({TABLE: "--synonym-table"} if only_logs else {})
        given, weights = ideas or {}, options.weights_of_terms
        made = {name: _made(ALTERNATIVES, name, flag, setting, given) for name, flag in asked.items()}
        terms = {name: _made(TERMS, name, "--terms", setting, given) for name in weights}
        unused = sorted(given.keys() - made.keys() - terms.keys())
        refuse((unused, f"ideas: {', '.join(unused)}: no option names it; expected the names of the options"))
        self.sources, self.terms = nn.ModuleList(made.values()), nn.ModuleList(terms.values())
        # Tuples: of a dict that is empty torch.compile keeps no guard, and another loss would have its graph.
        self._soft = tuple((share, made[share.source]) for share in options.shares)
        self._terms = tuple((name, weight, terms[name]) for name, weight in weights.items())
        self.detector = _detector(options, setting, made) if options.finds_false_negatives or only_logs else None
        looks_at_words = self.detector is not None or any(source.whole_words for source in made.values())
        self.known = len(setting.words) if looks_at_words else None
        """The number of the vocabulary's tokens (a model may have more rows); None where nothing looks at words."""
        boundaries = setting.boundaries if looks_at_words else (None, None)
        for name, marks in zip(WordBoundaries._fields, boundaries, strict=True):
            # The last one is for tokens that the vocabulary does not have.
            self.register_buffer(name, None if marks is None else F.pad(marks, (0, 1)), persistent=False)
        self.register_buffer("_progress", torch.zeros(()), persistent=False)
        self.reads = frozenset().union(*(each.reads for each in (*made.values(), *terms.values())))
        self.table = setting.table if TABLE in made else None
        """The :class:`~truneg_fairseq.synonyms.SynonymTable` in use, for records and for explanations."""

    @property
    def progress(self) -> float:
        """How much of the training is done, in [0, 1]: of its updates. Shares of soft targets fall with it."""
        return float(self._progress)

    @progress.setter
    def progress(self, done: float) -> None:
        if not 0 <= done <= 1:
            raise TrueNegError(f"progress: found {done}, expected 0 to 1: update / updates")
        self._progress.fill_(done)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        def moved(tensor: Tensor) -> Tensor:  # fairseq halves criterions in fp16; what sources look up keeps its type
            other = fn(tensor)
            return other if other.dtype == tensor.dtype else tensor.to(other.device)

        return super()._apply(moved, recurse)

    def follow(self, device: torch.device) -> None:
        """Moves the buffers to a device, where they are not there yet."""
        if any(buffer.device != device for buffer in self.buffers()):
            self.to(device)

    def predict(
        self, logits: Tensor, labels: Tensor, tokens: Tensor, positions: Tensor, ignored: int | None = None
    ) -> MaskedPredictions:
        """The predictions of a batch; false negatives are not looked for yet, see :meth:`step`.

        Args:
            logits: shape (N, V), with gradient.
            labels: int64, shape (B, T), the original tokens at masked positions and ``ignored`` elsewhere.
            tokens: int64, shape (B, T), masked.
            positions: int64, shape (N,), where the logits are, indices into the flattened (B, T).
            ignored: None for padding.
        """
        masked = labels.ne(self.padding if ignored is None else ignored)
        original = torch.where(masked, labels, tokens)
        gold, counted = original.reshape(-1)[positions], masked.reshape(-1)[positions]
        whole = None
        if self.known is not None:
            words = original.clamp(max=self.known)
            whole = WordBoundaries(self.continues, self.unfinished).whole(words) if words.numel() else words.bool()
            whole = (whole & original.lt(self.known)).reshape(-1)[positions] & counted
        return MaskedPredictions(logits, original, positions, gold, self.most_likely(logits), counted, whole)

    def real(self, predicted: MaskedPredictions) -> Tensor:
        """The tokens that are not padding, bool, shape (B, T)."""
        return predicted.original.ne(self.padding) if predicted.real is None else predicted.real

    def most_likely(self, logits: Tensor) -> Tensor:
        """The prediction of each row, int64, shape (N,)."""
        allowed = self.allowed if logits.device.type != "meta" else None
        return most_likely(logits if allowed is None else logits.detach().masked_fill(~allowed, -torch.inf))

    def all_soft_targets(self, judged: MaskedPredictions, passes: EncoderPasses) -> list[SoftTargets]:
        """:meth:`soft_targets` of words that are allowed, and those of the batch."""
        soft = self.soft_targets(judged, passes)
        if self.allowed is not None:
            soft = [each.among(self.allowed) for each in soft]
        return [*soft, *judged.given]

    def step(
        self,
        predicted: MaskedPredictions,
        passes: EncoderPasses,
        update: UpdateSize | None = None,
        reduction: str = "sum",
    ) -> tuple[MaskedPredictions, Outcome]:
        """The predictions of :meth:`predict` with their false negatives marked, and their :meth:`loss`."""
        judged = self.judge(predicted, passes)
        return judged, self.loss(judged, passes, update, reduction)

    def judge(self, predicted: MaskedPredictions, passes: EncoderPasses) -> MaskedPredictions:
        """Finds the false negatives among the predictions: ``r_k`` in ``V[w_k]``, with ``w_k`` a whole word (Eq. 2)."""
        found = self.find(predicted, predicted.prediction, passes)
        return predicted if found is None else predicted._replace(**found._asdict())

    def find(self, predicted: MaskedPredictions, tokens: Tensor, passes: EncoderPasses) -> FalseNegatives | None:
        """The false negatives among any tokens in place of the gold words; see :meth:`Detector.find`."""
        if self.detector is None:
            return None
        with full_precision(predicted.gold.device):
            return self.detector.find(predicted, tokens, passes)

    def loss(
        self,
        judged: MaskedPredictions,
        passes: EncoderPasses,
        update: UpdateSize | None = None,
        reduction: str = "sum",
    ) -> Outcome:
        """The loss of a judged batch, and what is logged of it.

        Every term is a mean: cross-entropy and word distance over the masked positions, the divergence over the tokens
        that are not padding. ``update`` has the denominators, None for this batch's own. All of it is in fp32.
        ``reduction`` "none" gives a loss for each position, shape (N,), which the divergence has not.
        """
        with full_precision(judged.gold.device):
            soft = self.all_soft_targets(judged, passes)
            total, plain = self.cross_entropy(judged, soft, reduction)  # Eq. 1, Eq. 2
            return self.regularized(judged, passes, soft, (total, plain), update)

    def regularized(
        self,
        judged: MaskedPredictions,
        passes: EncoderPasses,
        soft: list[SoftTargets],
        cross_entropy: tuple[Tensor, Tensor],
        update: UpdateSize | None = None,
    ) -> Outcome:
        """The outcome of what :meth:`cross_entropy` gives, with soft regularization added to it."""
        total, plain = cross_entropy
        with full_precision(judged.gold.device):
            counts = self._counts(judged, soft, plain)
            for name, weight, term in self._terms:
                values, logged = term(judged, passes), SR_COUNTS.get(name, (f"term:{name}", f"term_size:{name}"))
                is_of_tokens = term.over == "tokens"
                counted = self.real(judged) if is_of_tokens else judged.counted
                values = values.where(counted, 0.0)
                counts[logged[0]], counts[logged[1]] = values.detach().sum(), counted.sum()
                if is_of_tokens:
                    sizes = update or UpdateSize(counts["sample_size"], counts[logged[1]])
                    values = scaled_mean(values.sum(), sizes)
                elif judged.weights is not None:
                    values = values * judged.weights
                total = total + weight * (values if total.dim() else values.sum())
            counts["objective"], counts["objective_size"] = total.detach().sum(), counts["sample_size"]
            return Outcome(total, counts["sample_size"], counts)

    def cross_entropy(
        self, judged: MaskedPredictions, soft: list[SoftTargets], reduction: str = "sum"
    ) -> tuple[Tensor, Tensor]:
        """The cross-entropy without the false negatives (Eq. 2), and the plain sum of Eq. 1 at temperature 1.

        Both fp32: a scalar (``reduction`` "none": shape (N,), 0 where a position does not count), and a scalar without
        gradient.
        """
        logits, temperature, keep = judged.logits, self.options.softmax_temperature, self.keep(judged)
        labels, kind = judged.gold.masked_fill(~judged.counted, IGNORED), accumulated(logits.dtype)
        # Before the division, which would round logits of 16 bits.
        tempered = logits if temperature == 1.0 else logits.to(kind) / temperature
        with torch.set_grad_enabled(torch.is_grad_enabled() and not soft):
            log_probabilities = F.log_softmax(tempered, dim=-1, dtype=kind)
            by_position = "none" if keep is not None else reduction
            loss = F.nll_loss(log_probabilities, labels, ignore_index=IGNORED, reduction=by_position)
            plain = loss.detach().sum()
        if temperature != 1.0:
            plain = F.cross_entropy(logits.detach().to(kind), labels, ignore_index=IGNORED, reduction="sum")
        if soft:
            target = Target.of(judged.gold.where(judged.counted, 0), soft)
            settings: dict[str, Any] = {"temperature": temperature, "allowed": self.allowed}
            loss = soft_cross_entropy(logits, log_probabilities, target, judged.counted, **settings)
        if keep is not None:
            loss = keep * loss
        return loss.sum() if reduction == "sum" else loss, plain

    def keep(self, judged: MaskedPredictions, plain: Tensor | None = None) -> Tensor | None:
        """The factor of each position's loss, fp32, shape (N,): its weight, times 1 - hc_weight at false negatives.

        ``plain``, shape (N,), is the uncorrected cross-entropy, for ``loss_truncation``; None to compute it.
        """
        factors = [] if judged.weights is None else [judged.weights]
        if judged.is_false_negative is not None and self.options.hc_weight:
            factors.append(1.0 - self.options.hc_weight * judged.is_false_negative.float())
        if share := self.options.loss_truncation:
            if plain is None:
                gold = judged.gold.where(judged.counted, 0)
                plain = F.cross_entropy(judged.logits.detach().float(), gold, reduction="none")
            factors.append(least_likely(plain, judged.counted, share).logical_not().float())
        return torch.stack(factors).prod(0) if factors else None

    @torch.no_grad()
    def soft_targets(self, judged: MaskedPredictions, passes: EncoderPasses) -> list[SoftTargets]:
        """The shares of the target that go to other words than the gold one, each with its distribution."""
        soft = []
        if share := self.label_smoothing:  # as in fairseq: nothing of it for the gold word
            size = judged.logits.size(-1)
            soft.append(SoftTargets(judged.counted.float() * (share * size / (size - 1))))
        known = judged  # to sources that look at words, which a model's further rows are not
        if self.known is not None:
            known = judged._replace(gold=judged.gold.clamp(max=self.known - 1))
        for (name, start, end), source in self._soft:
            part = start if start == end else start + (end - start) * self._progress
            batch = known if source.whole_words else judged
            soft.append(source.target(batch, passes, part, flat=name.endswith(FLAT)))
        return soft

    def _counts(self, judged: MaskedPredictions, soft: list[SoftTargets], plain: Tensor) -> dict[str, Tensor]:
        correct = judged.prediction.eq(judged.gold) & judged.counted
        counts = {"loss": plain, "sample_size": judged.counted.int().sum(), "correct": correct.sum()}
        if judged.is_false_negative is not None:
            counts["corrected"] = judged.is_false_negative.sum()
            counts["corrected_sentences"] = count_rows(judged.is_false_negative, judged)
            if judged.acceptance is not None:
                counts["acceptance_sum"] = judged.acceptance.sum()
            by_source = judged.by_source or {}
            if len(by_source) > 1:
                counts |= {f"accepted:{name}": accepted.sum() for name, accepted in by_source.items()}
        if others := soft[bool(self.label_smoothing) :]:
            vocabulary, shares = judged.logits.size(-1), torch.stack([each.share for each in others])
            given_away = torch.stack([each.given_away(judged.gold, vocabulary) for each in others])
            counts["smoothed"], counts["smoothed_mass"] = shares.gt(0).any(0).sum(), given_away.sum()
            for row, (share, _) in enumerate(self._soft if len(self._soft) > 1 else ()):
                counts[f"smoothed:{share.name}"] = shares[row].gt(0).sum()
                counts[f"smoothed_mass:{share.name}"] = given_away[row].sum()
        return counts


def _made(kinds: Registry, name: str, flag: str, setting: Setting, ideas: Mapping[str, Any]) -> Any:
    """The source or regularizer of a name: one that is given, or an instance of the registered class."""
    found: nn.Module = ideas[name] if name in ideas else kinds.look_up(name, flag)(setting)
    if next(found.parameters(), None) is not None:
        raise TrueNegError(
            f"{flag} {name}: {type(found).__name__} has parameters, which would be trained; expected buffers, and "
            "another model in a list or a function"
        )
    return found


def _detector(options: TrueNegativeOptions, setting: Setting, made: Mapping[str, Alternatives]) -> Detector:
    sources = {name: made[name.removesuffix(FLAT)] for name in options.detectors}
    fitted = [name for name, source in sources.items() if source.is_fitted and not name.endswith(FLAT)]
    if not fitted and options.hc_acceptance_model is None:
        return Detector(sources, options.hc_threshold, setting.tokens)
    from ..synonyms.wordnet import eligible_words

    path = Path(options.hc_acceptance_model) if options.hc_acceptance_model else None
    together = [name for name in sources if name in fitted or name == TABLE]
    regression = acceptance_model(together, path, among=sources)
    if path is None:
        logger.info(
            "--hc-detector %s: what people accept is judged by the cosines of all-MiniLM-L6-v2; for another model fit "
            "its own with 'truneg synonyms judge --fit', and give --hc-acceptance-model",
            "+".join(sources),
        )
    return Detector(
        sources,
        options.hc_threshold,
        setting.tokens,
        regression,
        eligible=torch.from_numpy(eligible_words(setting.words)),
        blocked=TokenLists(setting.exclusions.pair_keys, setting.exclusions.vocabulary_size),
    )


@torch.no_grad()
def least_likely(loss: Tensor, counted: Tensor, share: float) -> Tensor:
    """The positions with the largest loss, a share of those that count (rounded); bool, shape (N,)."""
    rank = loss.masked_fill(~counted, -torch.inf).argsort(descending=True).argsort()
    return rank < (share * counted.sum()).round()


def scaled_mean(total: Tensor, update: UpdateSize) -> Tensor:
    """A sum over all tokens, rescaled: after the trainer divides by the masked tokens, it is a mean over all tokens."""
    return total * (update.masked / update.tokens.clamp(min=1))


class Rate(NamedTuple):
    """What is logged: scale * numerator / (denominator - subtracted), 0 where the denominator is 0.

    The three are names of counts, which are summed over workers and micro-batches.
    """

    name: str
    numerator: str
    denominator: str
    subtracted: str | None = None
    scale: float = 1.0

    @property
    def counts(self) -> tuple[str, ...]:
        """The names of the counts it needs."""
        return tuple(key for key in (self.numerator, self.denominator, self.subtracted) if key is not None)

    def value(self, sums: Mapping[str, float]) -> float:
        """The rate of these sums of counts, to four decimals."""
        total = sums[self.denominator] - (sums[self.subtracted] if self.subtracted is not None else 0.0)
        return round(self.scale * sums[self.numerator] / total, 4) if total else 0.0


OBJECTIVE = Rate("objective", "objective", "objective_size", scale=BITS)
ACCURACY = Rate("accuracy", "correct", "sample_size", scale=100.0)
CORRECTION_RATES = (
    Rate("hc_pred", "corrected", "sample_size", subtracted="correct", scale=100.0),
    Rate("hc_iter", "corrected_sentences", "nsentences", scale=100.0),
    Rate("hc_acceptance", "acceptance_sum", "corrected", scale=100.0),
    Rate("smoothed", "smoothed", "sample_size", scale=100.0),
    Rate("smoothed_mass", "smoothed_mass", "sample_size", scale=100.0),
    Rate("sr", "sr_sum", "sample_size"),
    Rate("kl", "kl_sum", "kl_size"),
)
SR_COUNTS = {"sr-word": ("sr_sum", "sample_size"), "sr-sent": ("kl_sum", "kl_size")}
"""The counts of the regularizers that have an option of their own."""
_BY_SOURCE = {"smoothed": None, "smoothed_mass": None, "accepted": "correct"}  # and what their denominator leaves out


def rates_in(counts: Collection[str], rates: Iterable[Rate]) -> list[Rate]:
    """The rates whose counts are there, those of a user's regularizers, and those of each source of alternatives where
    there are several.
    """
    named = [name.partition(":")[::2] for name in counts if ":" in name]
    others = [Rate(f"{a}_{b}", f"{a}:{b}", "sample_size", _BY_SOURCE[a], 100.0) for a, b in named if a in _BY_SOURCE]
    others += [Rate(name, f"term:{name}", f"term_size:{name}") for kind, name in named if kind == "term"]
    return [rate for rate in (*rates, *others) if set(rate.counts) <= set(counts)]
