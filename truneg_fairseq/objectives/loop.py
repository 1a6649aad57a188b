"""The loss for any training loop: ``loss_fn(logits, labels)``."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, distributed, nn

from ..errors import TrueNegError, refuse
from ..vocabulary import WordBoundaries
from .build import Setting, setting_of_dictionary, setting_of_symbols, setting_of_tokenizer
from .call import Batch, Watch, check_labels, check_masked, expect, lay_out, logits_of, passed_on, target_of
from .false_negatives import FalseNegatives
from .hidden import Hidden, cross_entropy_of_hidden
from .loss import ACCURACY, CORRECTION_RATES, IGNORED, OBJECTIVE, Objective, Outcome, Rate, UpdateSize, rates_in
from .options import TrueNegativeOptions
from .passes import (
    EncoderPasses,
    MaskedPredictions,
    accumulated,
    dropout_off,
    embeddings_in_use,
    encoder_of,
    full_precision,
    gathered,
    unwrap,
)
from .soft_targets import SoftTargets, Target

logger = logging.getLogger(__name__)


class TrueNegativeLoss(Objective):
    """Cross-entropy that does not punish false negatives, for a loop of one's own.

    ``TrueNegativeLoss(soft_targets={"uniform": 0.1})`` takes the options of :class:`~.options.TrueNegativeOptions` as
    keywords. Options that need a vocabulary: use :meth:`for_tokenizer` or :meth:`for_dictionary`. With every weight 0
    the loss is ``F.cross_entropy(logits, labels)`` to the bit; without a masked token it is 0, not NaN. Shares that
    fall follow :attr:`progress`: set ``loss_fn.progress = update / updates`` before each update.

    Args:
        options: what is minimised; None for the keywords.
        setting: what is known of the words.
        ignore_index: the label of a token that is not predicted.
        reduction: "mean" (over the masked tokens), "sum", or "none" (a loss for each label, 0 where it is ignored).
        keywords: options, where ``options`` is None; and what :class:`~.loss.Objective` takes: ``allowed``, ``ideas``.
    """

    def __init__(
        self,
        options: TrueNegativeOptions | None = None,
        setting: Setting | None = None,
        *,
        ignore_index: int = IGNORED,
        reduction: str = "mean",
        **keywords: Any,
    ) -> None:
        options = options or _options_of(keywords)
        expect(
            isinstance(options, TrueNegativeOptions),
            "{} as options; expected keywords, such as hc_weight=1",
            type(options).__name__,
        )
        super().__init__(options, setting, **keywords)
        if reduction not in ("mean", "sum", "none"):
            raise ValueError(f"reduction: found {reduction!r}, expected mean, sum or none")
        if reduction == "none" and any(term.over == "tokens" for _, _, term in self._terms):
            raise ValueError('reduction "none": a regularizer over tokens has no loss for each label; expected "mean"')
        self.ignore_index, self.reduction = ignore_index, reduction
        self._watch: Watch | None = None
        self._labels_seen = False
        self._sums: dict[bool, dict[str, Tensor]] = {True: {}, False: {}}  # by whether there is a gradient

    @classmethod
    def for_tokenizer(cls, tokenizer: Any, *, vocabulary_size: int | None = None, **keywords: Any) -> TrueNegativeLoss:
        """The loss for a tokenizer of transformers, or the folder of one; the synonym table is built or found.

        It works for models whose ids are the tokenizer's. ``vocabulary_size`` is the number of rows of the model's
        embeddings, for a ``synonym_table`` of a model that has more rows than its tokenizer has tokens. ``keywords``
        are those of the class.
        """
        return cls._made(lambda options: setting_of_tokenizer(tokenizer, options, vocabulary_size), keywords)

    @classmethod
    def for_dictionary(cls, dictionary: str | Path, **keywords: Any) -> TrueNegativeLoss:
        """The loss for fairseq's ``dict.txt``; the synonym table is beside it, built where it is missing."""
        return cls._made(lambda options: setting_of_dictionary(options, Path(dictionary)), keywords)

    @classmethod
    def for_symbols(
        cls, tokens: Sequence[Any], pairs: Iterable[Sequence[Any]] = (), *, padding: int | None = None, **keywords: Any
    ) -> TrueNegativeLoss:
        """The loss for tokens without a tokenizer, by id, each a whole word: letters of proteins, items of a shop.

        Args:
            tokens: a name for each row of the embeddings.
            pairs: which token is an alternative to which: (original, alternative), or with a grade above 0, which is
                what ``soft_targets={"table": ...}`` gives in proportion, such as the positive scores of BLOSUM62.
            padding: the id of padding.
            keywords: those of the class.
        """
        return cls._made(lambda options: setting_of_symbols(tokens, pairs, options, padding), keywords)

    @classmethod
    def _made(cls, setting_of: Callable[[TrueNegativeOptions], Setting], keywords: dict[str, Any]) -> TrueNegativeLoss:
        chosen = _options_of(keywords)
        setting = setting_of(chosen)
        setting.log_expected()
        return cls(chosen, setting, **keywords)

    def forward(
        self,
        logits: Any,
        labels: Tensor,
        num_items_in_batch: Tensor | int | None = None,
        *,
        num_items: Tensor | float | None = None,
        weights: Tensor | None = None,
        positions: Tensor | None = None,
        targets: tuple[Tensor, Tensor] | None = None,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        model: Any = None,
        embeddings: Tensor | None = None,
    ) -> Tensor:
        """The loss of a batch; without gradient (``torch.no_grad()``) the plain one, so that evaluations compare.

        Args:
            logits: shape (N, V), (B, T, V) or (B, V, T), or an output of transformers that has them.
            labels: integers, shape (N,) or (B, T): the original token where it is predicted, ``ignore_index``
                elsewhere.
            num_items_in_batch: as ``num_items``, under transformers' name.
            num_items: divides the sum, for a whole update, in place of this batch's masked tokens.
            weights: of the labels' shape, the factor of each one's loss, such as 1/t of masked diffusion. The mean is
                over the masked tokens all the same; for a weighted mean give ``num_items=weights.sum()``.
            positions: where the logits are, (N, V), if they are of some positions alone: bool, shape (B, T), or
                indices into the flattened (B, T), shape (N,). The labels are those of the sentences or of the logits.
            targets: tokens, int64, and their probabilities, shape (N, K) each (or the labels' shape and K), without
                gradient: a target of this batch's own; what the probabilities leave of 1 is for the label.
            input_ids: int64, shape (B, T), the masked tokens: whole words and corpus targets are judged by the
                neighbours. Without them a word is whole if its token can be a word of its own.
            attention_mask: of the encoder passes; by default what is not padding.
            model: a masked LM of transformers, for sentence-level regularization and the detector "context".
            embeddings: shape (V, E), the input embeddings, where no model is given.

        Raises:
            TrueNegError: an option needs ``input_ids``, ``model`` or ``embeddings``; shapes that do not fit; on a CPU
                also a label that the logits have no column for. On a GPU such a label is a device-side assertion of
                CUDA's, because to look at labels would wait for the device.
        """
        head = logits if isinstance(logits, Hidden) else None
        rows = logits_of(logits, labels) if head is None else head.states
        size = rows.size(-1) if head is None else len(head.weight)
        given: dict[str, Any] = {"weights": weights, "positions": positions, "targets": targets, "input_ids": input_ids}
        batch = self._batch(torch.Size((*rows.shape[:-1], size)), labels, **given)
        if num_items_in_batch is not None and not self._labels_seen and not torch.compiler.is_compiling():
            self._labels_seen = True  # a wait, at the first batch alone
            if labels.dim() > 1 and labels.size(1) > 1:
                check_masked(batch.grid, batch.tokens if batch.is_known else None, self.padding, self.ignore_index)
        items = num_items if num_items is not None else num_items_in_batch
        if items is not None and (num_items is not None or torch.is_grad_enabled()):
            # Elsewhere Trainer evaluates: it leaves out the batch whose loss is NaN, as that of cross-entropy is.
            items = at_least_one(items)
        rows = rows.reshape(-1, rows.size(-1))
        rows = rows if batch.chosen is None else rows.index_select(0, batch.chosen)
        if head is None and targets is None and self._is_plain():
            return self._reduced(*self._plain(rows, batch), batch, items)
        logits = rows if head is None else no_logits(rows, head.weight)
        predicted = self.predict(logits, batch.grid, batch.tokens, batch.places, self.ignore_index)
        predicted = self._completed(predicted, batch, attention_mask)
        passes, update = self._passes_of(predicted, attention_mask, model, embeddings), self._update(predicted, items)
        if head is None:
            _, outcome = self.step(predicted, passes, update, self._by_position)
            loss = outcome.loss if torch.is_grad_enabled() else self._plain(rows, batch)[0]
        else:
            outcome, plain = self.step_of_hidden(head._replace(states=rows), predicted, passes, update)
            plain = plain if batch.weights is None else plain * batch.weights
            loss = outcome.loss if torch.is_grad_enabled() else plain.sum()
        return self._reduced(loss, outcome.counts, batch, items)

    def of_hidden(
        self, hidden: Tensor, weight: Tensor, labels: Tensor, *, bias: Tensor | None = None, **others: Any
    ) -> Tensor:
        """The loss of ``logits = hidden @ weight.T + bias``, which are made in blocks of positions, never all at once.

        Args:
            hidden: shape (N, H) or (B, T, H), what the head's last layer gets.
            weight: shape (V, H), of that layer: ``head.weight``.
            labels: as of :meth:`forward`.
            bias: shape (V,), or None.
            others: the keywords of :meth:`forward`.

        A detector that looks at the sentences, and ``loss_truncation``, need all predictions first: another product.
        The gradients are made with the loss, and a backward pass can follow once.
        """
        refuse(
            (self.reduction == "none", 'of_hidden: gives no loss for each token (reduction "none"); expected weights='),
            (
                self.needs_logits,
                "of_hidden: --sr-word-form expected, and ideas of your own, may read the logits; expected "
                "loss_fn(logits, labels)",
            ),
        )
        loss: Tensor = self(Hidden(hidden, weight, bias), labels, **others)
        return loss

    @property
    def needs_logits(self) -> bool:
        """Whether states do not do: what a user adds or overrides may look at the logits."""
        parts = (*self.sources, *(term for _, _, term in self._terms))
        own = any(not type(part).__module__.startswith("truneg_fairseq.") for part in parts)
        expected = self.options.sr_word_form == "expected" and any(name == "sr-word" for name, _, _ in self._terms)
        return own or expected or self._overrides("loss", "cross_entropy")

    def step_of_hidden(
        self,
        hidden: Hidden,
        predicted: MaskedPredictions,
        passes: EncoderPasses,
        update: UpdateSize | None = None,
    ) -> tuple[Outcome, Tensor]:
        """:meth:`step` of states, shape (N, H), under the caller's autocast; ``predicted`` are of :func:`no_logits`.

        Beside the outcome the plain loss of each position, shape (N,).
        """
        with full_precision(predicted.gold.device):
            soft = self.all_soft_targets(predicted, passes)
        target, counted = Target.of(predicted.gold.where(predicted.counted, 0), soft), predicted.counted.float()
        settings: dict[str, Any] = {"temperature": self.options.softmax_temperature, "allowed": self.allowed}
        found: list[FalseNegatives] = []

        def keep(rows: slice, prediction: Tensor) -> Tensor | None:
            part = predicted.part(rows)._replace(prediction=prediction)
            if (false_negatives := self.find(part, prediction, passes.of(part))) is not None:
                found.append(false_negatives)
                part = part._replace(**false_negatives._asdict())
            return self.keep(part)

        judged, factors, in_blocks = predicted, None, False
        if self._judges_at_once:
            with torch.no_grad():
                _, plain, prediction = cross_entropy_of_hidden(*hidden, target, counted, **settings)
            judged = predicted._replace(prediction=prediction)
            passes = passes.of(judged)
            judged = self.judge(judged, passes)
            factors = self.keep(judged, plain)
        elif self.detector is None:
            factors = self.keep(predicted)
        else:
            in_blocks = True
        counted = counted if factors is None else counted * factors
        settings["keep"] = keep if in_blocks else None
        total, plain, prediction = cross_entropy_of_hidden(*hidden, target, counted, **settings)
        judged = judged._replace(prediction=prediction, **(FalseNegatives.joined(found)._asdict() if found else {}))
        passes = passes if self._judges_at_once else passes.of(judged)
        plain = torch.where(predicted.counted, plain, 0.0)
        return self.regularized(judged, passes, soft, (total, plain.sum()), update), plain

    @property
    def _judges_at_once(self) -> bool:
        """Whether all predictions have to be known before one is judged."""
        if self.options.loss_truncation or self._overrides("find", "judge"):
            return True
        looks = self.detector is not None and any(source.reads for source in self.detector.sources)
        return looks or (self.detector is not None and torch.compiler.is_compiling())

    def _overrides(self, *methods: str) -> bool:
        return any(getattr(type(self), name) is not getattr(Objective, name) for name in methods)

    @property
    def _by_position(self) -> str:
        return "none" if self.reduction == "none" else "sum"

    def _batch(
        self,
        shape: torch.Size,
        labels: Tensor,
        *,
        weights: Tensor | None,
        positions: Tensor | None,
        targets: tuple[Tensor, Tensor] | None,
        input_ids: Tensor | None,
    ) -> Batch:
        """The labels, sentences, weights and targets of logits of this shape.

        On a CPU the rows without a label are left out; elsewhere to find them would wait for the device.
        """
        self.follow(labels.device)
        checks, size = labels.device.type == "cpu" and not torch.compiler.is_compiling(), shape[-1]
        needs_sentences = "sentence" in self.reads
        reads_sentences = needs_sentences or self.known is not None or positions is not None
        if input_ids is None and self._watch is not None and reads_sentences:
            input_ids = self._watch.inputs.get("input_ids")
        if input_ids is None and needs_sentences:
            raise self._lack("input_ids")
        known = size if self.known is None else self.known
        expect(size >= known, "logits of {} tokens, expected {}, the tokenizer's", size, known)
        words = size if self.allowed is None else len(self.allowed)
        expect(size == words, "{} words with logits of {}; expected as many", words, size, of="allowed: found ")
        own, grid, places = lay_out(shape, labels, input_ids, positions, self.ignore_index, checks=checks)
        if checks:
            check_labels(own, size, known, self.ignore_index)
        if weights is not None:
            expect(
                weights.numel() in (len(own), grid.numel()),
                "weights of shape {}; expected the labels' shape, {}",
                *(weights.shape, labels.shape),
            )
            weights = weights.detach().reshape(-1).to(labels.device, torch.float32)
            # A weight may be infinite where nothing is predicted.
            weights = (weights if len(weights) == len(own) else weights[places]).where(own.ne(self.ignore_index), 0.0)
        batch = Batch(
            labels=own,
            grid=grid,
            tokens=torch.zeros_like(grid) if input_ids is None else input_ids.reshape(grid.shape),
            places=places,
            shape=labels.shape if labels.numel() == len(own) else own.shape,
            sentences=0 if labels.dim() == 1 and input_ids is None else len(grid),
            is_known=input_ids is not None,
            counted=own.ne(self.ignore_index),
            weights=weights,
            targets=None if targets is None else target_of(targets, len(own), checks=checks),
        )
        if checks and len(chosen := batch.counted.nonzero().squeeze(1)) < len(own):
            batch = batch.at(chosen)
        return batch

    def _completed(
        self, predicted: MaskedPredictions, batch: Batch, attention_mask: Tensor | None
    ) -> MaskedPredictions:
        """With the weights and targets of a batch; words are judged alone where the sentences are not known.

        Where no id is known to be padding, the attention mask says what is.
        """
        if self.padding < 0:
            seen = {} if self._watch is None or not batch.is_known else self._watch.inputs
            mask = seen.get("attention_mask") if attention_mask is None else attention_mask
            if mask is not None and mask.shape == predicted.original.shape:
                predicted = predicted._replace(real=mask.ne(0))
        if not batch.is_known and self.known is not None:
            alone = WordBoundaries(self.continues, self.unfinished).whole_alone(predicted.gold.clamp(max=self.known))
            predicted = predicted._replace(whole_word=alone & predicted.gold.lt(self.known))
        if predicted.whole_word is not None:  # of two rows of one place the one with a label counts
            predicted = predicted._replace(whole_word=predicted.whole_word & batch.counted)
        return predicted._replace(
            counted=batch.counted,
            weights=batch.weights,
            given=() if batch.targets is None else (SoftTargets(*batch.targets),),
        )

    def _update(self, judged: MaskedPredictions, items: Any) -> UpdateSize | None:
        """The denominators of an update with so many items: its other tokens in this batch's proportion."""
        if items is None:
            return None
        masked, real = judged.counted.sum(), self.real(judged).sum()
        return UpdateSize(items, real * items / masked.clamp(min=1))

    def _passes_of(
        self, predicted: MaskedPredictions, attention_mask: Tensor | None, model: Any, embeddings: Tensor | None
    ) -> EncoderPasses:
        """:meth:`passes` of the model given or watched, with the inputs that it had."""
        inputs: dict[str, Any] = {}
        if self._watch is not None and (model is None or unwrap(model) is unwrap(self._watch.model)):
            model, inputs = self._watch.model, {**self._watch.inputs}  # a packed batch has no mask
        elif attention_mask is None and self.padding >= 0:
            attention_mask = predicted.original.ne(self.padding).long()
        inputs.pop("input_ids", None)
        if attention_mask is not None:
            inputs["attention_mask"] = attention_mask
        return self.passes(predicted, model, inputs, embeddings=embeddings)

    def _reduced(self, loss: Tensor, counts: dict[str, Tensor], batch: Batch, items: Any) -> Tensor:
        """Counts a batch; its loss, a sum or shape (N,), as ``reduction`` says, divided by the items."""
        sentences = counts["sample_size"].new_full((), batch.sentences)
        add_counts(self._sums[torch.is_grad_enabled()], {**counts, "nsentences": sentences})
        if self.reduction == "none":
            return batch.everywhere(loss).view(batch.shape)
        if self.reduction == "sum":
            return loss
        return loss / (counts["sample_size"].clamp(min=1) if items is None else items)

    def watch(self, model: Any) -> Watch:
        """Keeps the inputs of each call of a model, for loops that pass logits and labels alone.

        ``remove()`` of what it gives lets go of the model; so does watching another one.
        """
        if self._watch is not None:
            self._watch.remove()
        self._watch = Watch(model)
        return self._watch

    def __getstate__(self) -> dict[str, Any]:
        """A copy, or a file, watches nothing."""
        return {**self.__dict__, "_watch": None}

    def metrics(self) -> dict[str, float]:
        """The rates since the last call, over all processes: ``mlm_loss``, ``objective`` (nats), ``accuracy`` (%), ...

        Those of batches without gradient are apart: ``eval_mlm_loss`` and so on. docs/reference/files.md explains the
        names. A host-device sync; call it on every rank.
        """
        rates = Rate("mlm_loss", "loss", "sample_size"), OBJECTIVE._replace(scale=1.0), ACCURACY, *CORRECTION_RATES
        trained, evaluated = (rates_of(of_all_processes(self._sums[each]), rates) for each in (True, False))
        self._sums = {True: {}, False: {}}
        return {**trained, **{f"eval_{name}": value for name, value in evaluated.items()}}

    def _is_plain(self) -> bool:
        changed = self.options.loss_truncation or self.options.softmax_temperature != 1.0 or self.detector is not None
        own = self._overrides("soft_targets", "find", "judge", "step", "loss", "cross_entropy")
        return not (changed or own or len(self._soft) or len(self._terms))

    def _plain(self, rows: Tensor, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Cross-entropy, a sum or shape (N,), and its counts; fp32 also of logits of 16 bits, whose own is rounded."""
        log_probabilities = F.log_softmax(rows, -1, dtype=accumulated(rows.dtype))
        at_once = self._by_position if batch.weights is None else "none"
        if batch.chosen is None or at_once == "none":
            loss = F.nll_loss(log_probabilities, batch.labels, ignore_index=self.ignore_index, reduction=at_once)
        else:  # one after the other, with the rows that were left out: the bits of a sum over all
            gold = batch.everywhere(log_probabilities.gather(1, batch.labels[:, None]).squeeze(1))
            label = torch.full_like(gold, IGNORED, dtype=torch.long).index_fill(0, batch.chosen, 0)
            loss = F.nll_loss(gold[:, None], label, reduction="sum")
        total = loss.detach().sum()
        if batch.weights is not None:
            loss = loss * batch.weights
            loss = loss if self._by_position == "none" else loss.sum()
        counts = {"loss": total, "sample_size": batch.counted.sum(), "objective": loss.detach().sum()}
        counts["objective_size"] = counts["sample_size"]
        counts["correct"] = (self.most_likely(rows).eq(batch.labels) & batch.counted).sum()
        return loss, counts

    def passes(
        self,
        predicted: MaskedPredictions,
        model: Any,
        inputs: Mapping[str, Any],
        *,
        embeddings: Tensor | None = None,
        encoder: Any = None,
        filled: tuple[Tensor, Sequence[Tensor]] | None = None,
    ) -> EncoderPasses:
        """What the objective asks of a model of transformers, in its wrappers or not, with the autocast that is on.

        ``inputs`` are its others, such as the attention mask. ``embeddings``, shape (V, E), and ``encoder`` are the
        model's own where they are None; ``filled`` as for :class:`~.passes.EncoderPasses`.
        """

        model, trains = unwrap(model) if model is not None else None, torch.is_grad_enabled()

        def weight() -> Tensor:
            if embeddings is None and model is None:
                raise self._lack("embeddings")
            return embeddings_in_use(model, keep=trains) if embeddings is None else embeddings

        def encode(tokens: Tensor, gradient: bool, dropout: bool) -> tuple[Tensor, ...]:
            if model is None:
                raise self._lack("model")
            reader = encoder or encoder_of(model)
            given = {**_positions_of(reader, predicted.original), **passed_on(reader, inputs), "input_ids": tokens}
            with (
                gathered(model, reader, keep=trains),
                torch.set_grad_enabled(gradient and torch.is_grad_enabled()),
                dropout_off(reader, not dropout),
            ):
                return encode_layers(reader, given, "states" in self.reads)

        with_layers = "states" in self.reads
        return EncoderPasses(
            predicted, self.options, embeddings=weight, encode=encode, with_layers=with_layers, filled=filled
        )

    def _lack(self, argument: str) -> TrueNegError:
        """What is wrong where a loss needs more than logits and labels."""
        return TrueNegError(
            f"TrueNegativeLoss with {self.options.described()}: needs {argument}; expected loss_fn(logits, labels, "
            f"{argument}=...), or loss_fn.watch(model)"
        )


def no_logits(states: Tensor, weight: Tensor) -> Tensor:
    """The shape of logits that are not there: what asks for more than it fails."""
    return torch.empty(len(states), len(weight), device="meta")


def at_least_one(items: Tensor | float) -> Any:
    """A number that divides; 1 in place of 0: an update may have no masked token, and 0 / 0 is NaN in every weight."""
    return torch.where(items == 0, 1, items) if isinstance(items, Tensor) else items or 1


def _options_of(keywords: dict[str, Any]) -> TrueNegativeOptions:
    """The options among keywords, which are taken out of them."""
    names, others = {each.name for each in fields(TrueNegativeOptions)}, {"ideas", "allowed"}
    for name in keywords.keys() - names - others - {"ignore_index", "reduction"}:
        near = get_close_matches(name, names, n=1)
        raise TrueNegError(
            f"TrueNegativeLoss: found the keyword {name}; expected {near[0] if near else 'an option of its class'}"
        )
    return TrueNegativeOptions(**{name: keywords.pop(name) for name in keywords.keys() & names})


def encode_layers(encoder: nn.Module, inputs: dict[str, Any], with_layers: bool) -> tuple[Tensor, ...]:
    """The hidden states of every layer of transformers' encoder, or of the last alone, shape (B, T, H) each."""
    output = encoder(**inputs, output_hidden_states=with_layers)
    return tuple(output.hidden_states[1:]) if with_layers else (output[0],)  # the first are the embeddings


def _positions_of(encoder: Any, original: Tensor) -> dict[str, Tensor]:
    """The positions of the original tokens, where a model (RoBERTa and its kin) numbers what is not padding.

    A padding token that was predicted is a wrong word like others, and no padding.
    """
    embeddings = getattr(getattr(encoder, "embeddings", None), "position_embeddings", None)
    padding = getattr(embeddings, "padding_idx", None)
    if padding is None:
        return {}
    real = original.ne(padding).long()
    return {"position_ids": real.cumsum(1) * real + padding}


def of_all_processes(sums: Mapping[str, Tensor]) -> dict[str, float]:
    """Sums of :func:`add_counts`, over all processes, those too that counted nothing; a host-device sync."""
    values = torch.stack([*sums.values()]).tolist() if sums else []
    each = [dict(zip(sums, values, strict=True))]
    if distributed.is_available() and distributed.is_initialized():
        own, each = each[0], [{}] * distributed.get_world_size()
        distributed.all_gather_object(each, own)
    return {name: sum(counts.get(name, 0.0) for counts in each) for name in sorted({*itertools.chain(*each)})}


def rates_of(sums: Mapping[str, float], rates: Iterable[Rate]) -> dict[str, float]:
    """The rates whose counts are there, by name."""
    return {rate.name: rate.value(sums) for rate in rates_in(sums, rates)}


def add_counts(sums: dict[str, Tensor], counts: Mapping[str, Tensor]) -> None:
    """Adds scalars to sums by name, without waiting for the device."""
    for name, value in counts.items():
        exact = torch.float32 if value.device.type == "mps" else torch.float64  # which Apple's GPUs do not have
        added = value.detach().to(exact)
        sums[name] = sums[name] + added if name in sums else added
