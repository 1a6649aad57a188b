"""The loss for any training loop: ``loss_fn(logits, labels)``."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, distributed, nn

from ..errors import TrueNegError
from ..vocabulary import PAD, read_symbols
from .build import build_parts, expected_losses, parts_for_tokenizer
from .loss import ACCURACY, CORRECTION_RATES, IGNORED, Objective, Rate, UpdateSize
from .options import TrueNegativeOptions
from .passes import EncoderPasses, MaskedPredictions, dropout_off, full_precision, most_likely

logger = logging.getLogger(__name__)


class TrueNegativeLoss(Objective):
    """Cross-entropy that does not punish false negatives, for a loop of one's own.

    ``TrueNegativeLoss(uniform_targets=0.1)`` takes the options of :class:`~.options.TrueNegativeOptions` as keywords.
    What looks at words is made by :meth:`for_tokenizer` or :meth:`for_dictionary`. With every weight 0 the loss is
    ``F.cross_entropy(logits, labels)`` to the bit; without a masked token it is 0, not NaN.

    Args:
        options: what is minimised; None for the keywords.
        ignore_index: the label of a token that is not predicted.
        reduction: "mean" (over the masked tokens), "sum", or "none" (a loss for each label, 0 where it is ignored).
        keywords: options, where ``options`` is None; and the parts of :class:`~.loss.Objective`.
    """

    def __init__(
        self,
        options: TrueNegativeOptions | None = None,
        *,
        ignore_index: int = IGNORED,
        reduction: str = "mean",
        **keywords: Any,
    ) -> None:
        if options is None:
            names = keywords.keys() & {each.name for each in fields(TrueNegativeOptions)}
            options = TrueNegativeOptions(**{name: keywords.pop(name) for name in names})
        super().__init__(options, **keywords)
        if reduction not in ("mean", "sum", "none"):
            raise ValueError(f"reduction: found {reduction!r}, expected mean, sum or none")
        if reduction == "none" and (options.sr_word_weight or options.sr_sent_weight):
            raise ValueError('reduction "none": soft regularization has no loss for each token; expected "mean"')
        needed = {
            "hc_weight": self.detector,
            "synonym_targets": self.synonyms,
            "corpus_targets": self.corpus,
            "teacher_targets": self.teacher,
        }
        for name, part in needed.items():
            if getattr(options, name) and part is None:
                raise TrueNegError(
                    f"TrueNegativeLoss({name}={getattr(options, name)}): looks at a tokenizer's words; expected "
                    "TrueNegativeLoss.for_tokenizer(tokenizer, ...) or TrueNegativeLoss.for_dictionary(file, ...)"
                )
        self.ignore_index, self.reduction = ignore_index, reduction
        self._watched: tuple[Any, dict[str, Any]] | None = None  # the model that was called last, and its inputs
        self._sums: dict[str, Tensor] = {}

    @classmethod
    def for_tokenizer(
        cls,
        tokenizer: Any,
        *,
        vocabulary_size: int | None = None,
        ignore_index: int = IGNORED,
        reduction: str = "mean",
        **options: Any,
    ) -> TrueNegativeLoss:
        """The loss for a tokenizer of transformers, or the folder of one; the synonym table is built or found.

        It works for models whose ids are the tokenizer's. ``vocabulary_size`` is the number of rows of the model's
        embeddings, for a ``synonym_table`` of a model that has more rows than its tokenizer has tokens.
        """
        chosen = TrueNegativeOptions(**options)
        parts = parts_for_tokenizer(tokenizer, chosen, vocabulary_size)
        return cls(chosen, ignore_index=ignore_index, reduction=reduction, **parts)

    @classmethod
    def for_dictionary(
        cls, dictionary: str | Path, *, ignore_index: int = IGNORED, reduction: str = "mean", **options: Any
    ) -> TrueNegativeLoss:
        """The loss for fairseq's ``dict.txt``; the synonym table is beside it, built where it is missing."""
        chosen, path = TrueNegativeOptions(**options), Path(dictionary)
        symbols = read_symbols(path)
        parts = build_parts(chosen, symbols=symbols, folder=path.parent, padding=PAD)
        logger.info("%s", expected_losses(len(symbols), parts["corpus"]))
        return cls(chosen, ignore_index=ignore_index, reduction=reduction, **parts)

    def forward(
        self,
        logits: Any,
        labels: Tensor,
        num_items_in_batch: Tensor | int | None = None,
        *,
        num_items: Tensor | int | None = None,
        input_ids: Tensor | None = None,
        model: Any = None,
        embeddings: Tensor | None = None,
    ) -> Tensor:
        """The loss of a batch.

        Args:
            logits: shape (N, V) or (B, T, V), or an output of transformers that has them.
            labels: int64, shape (N,) or (B, T): the original token where it is predicted, ``ignore_index`` elsewhere.
            num_items_in_batch: as ``num_items``, under transformers' name.
            num_items: divides the sum, for a whole update, in place of this batch's masked tokens.
            input_ids: int64, shape (B, T), the masked tokens: whole words and corpus targets are judged by the
                neighbours. Without them a word is whole if its token can be a word of its own.
            model: a masked LM of transformers, for sentence-level regularization and the detector "context".
            embeddings: shape (V, E), the input embeddings, where no model is given.

        Raises:
            TrueNegError: an option needs ``input_ids``, ``model`` or ``embeddings``; shapes that do not fit; on a CPU
                also a label that the logits have no column for. On a GPU such a label is a device-side assertion of
                CUDA's, because to look at labels would wait for the device.
        """
        logits, items = getattr(logits, "logits", logits), num_items if num_items is not None else num_items_in_batch
        if items is not None:  # an update may have no masked token, and 0 / 0 would make every weight NaN
            items = torch.as_tensor(items).clamp(min=1)
        if logits.shape[:-1] != labels.shape:
            raise TrueNegError(
                f"TrueNegativeLoss: found logits of shape {tuple(logits.shape)} and labels of shape "
                f"{tuple(labels.shape)}; expected labels of shape {tuple(logits.shape[:-1])}"
            )
        rows, flat = logits.reshape(-1, logits.size(-1)), labels.reshape(-1)
        if flat.device.type == "cpu" and not torch.compiler.is_compiling():
            self._check_labels(flat, rows.size(-1))
        if self._is_plain():
            return self._plain(rows, flat, labels.shape, items)
        watched, inputs = self._watched or (None, {})
        model = model if model is not None else watched
        if input_ids is None and (seen := inputs.get("input_ids")) is not None and seen.shape == labels.shape:
            input_ids = seen
        predicted = self._predictions(rows, labels, input_ids)
        others = {name: value for name, value in inputs.items() if name in ("attention_mask", "token_type_ids")}
        if not others and self.padding >= 0:
            others = {"attention_mask": predicted.original.ne(self.padding).long()}
        passes = self.passes(predicted, model, others, embeddings=embeddings)
        judged = self.judge(predicted, passes)
        if self.reduction == "none":
            with full_precision(rows.device):
                return self.cross_entropy(judged, self.soft_targets(judged, passes), "none")[0].view(labels.shape)
        update = None
        if items is not None:  # its other tokens in this batch's proportion
            masked, real = judged.counted.sum().clamp(min=1), judged.original.ne(self.padding).sum()
            wanted = torch.as_tensor(items, device=rows.device)
            update = UpdateSize(wanted, real * wanted / masked)
        outcome = self.loss(judged, passes, update)
        sentences = labels.new_tensor(labels.size(0) if labels.dim() > 1 else 0)
        add_counts(self._sums, {**outcome.counts, "nsentences": sentences})
        if self.reduction == "sum":
            return outcome.loss
        return outcome.loss / (outcome.sample_size.clamp(min=1) if items is None else items)

    def watch(self, model: Any) -> Any:
        """Keeps the inputs of each call of a model, for loops that pass logits and labels alone; gives the hook."""

        def keep(module: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
            inputs = {name: value for name, value in keywords.items() if name != "labels"}
            if arguments and "input_ids" not in inputs:
                inputs["input_ids"] = arguments[0]
            self._watched = module, inputs

        return model.register_forward_pre_hook(keep, with_kwargs=True)

    def metrics(self) -> dict[str, float]:
        """The rates since this was asked last, over all processes: ``mlm_loss`` (nats), ``accuracy`` (%), ...

        A host-device sync; docs/reference/files.md explains the names. Every process has to ask.
        """
        sums, self._sums = of_all_processes(self._sums), {}
        return rates_of(sums, (Rate("mlm_loss", "loss", "sample_size"), ACCURACY, *CORRECTION_RATES))

    def _check_labels(self, labels: Tensor, size: int) -> None:
        wrong = labels[(labels.ge(size) | labels.lt(0)) & labels.ne(self.ignore_index)]
        if len(wrong):
            raise TrueNegError(
                f"TrueNegativeLoss: found the label {int(wrong[0])} with logits of {size} tokens; expected labels from "
                f"0 to {size - 1}, or {self.ignore_index} where nothing is predicted"
            )

    def _is_plain(self) -> bool:
        options = self.options
        weights = options.sr_word_weight, options.sr_sent_weight, options.loss_truncation, self.label_smoothing
        changed = any(weights) or options.softmax_temperature != 1.0 or bool(options.soft_target_shares)
        return not changed and self.detector is None

    def _plain(self, rows: Tensor, labels: Tensor, shape: torch.Size, items: Any) -> Tensor:
        counted = labels.ne(self.ignore_index)
        size = counted.sum()
        if self.reduction == "none":
            loss = F.cross_entropy(rows, labels, ignore_index=self.ignore_index, reduction="none")
            total, loss = loss.detach().sum(), loss.view(shape)
        elif self.reduction == "sum" or items is not None:
            loss = F.cross_entropy(rows, labels, ignore_index=self.ignore_index, reduction="sum")
            total, loss = loss.detach(), loss if self.reduction == "sum" else loss / items
        else:
            # A mean over no token is NaN, and so is its gradient: one token is taken in its place, 0 times.
            some = counted.any()
            loss = F.cross_entropy(rows, torch.where(some, labels, 0), ignore_index=self.ignore_index) * some
            total = loss.detach() * size
        correct = (most_likely(rows).eq(labels) & counted).sum()
        add_counts(self._sums, {"loss": total, "sample_size": size, "correct": correct})
        return loss

    def _predictions(self, rows: Tensor, labels: Tensor, input_ids: Tensor | None) -> MaskedPredictions:
        """The predictions at every label; without ``input_ids`` the original sentences are not known."""
        options = self.options
        if input_ids is None and (options.corpus_targets or options.sr_sent_weight or options.uses_context):
            raise self._lack("input_ids")
        grid = labels if labels.dim() > 1 else labels[None]
        tokens = torch.zeros_like(grid) if input_ids is None else input_ids.view_as(grid)
        if self.continues is not None and rows.size(-1) < len(self.continues):
            raise TrueNegError(
                f"TrueNegativeLoss: found logits of {rows.size(-1)} tokens, expected {len(self.continues)}, the "
                "tokenizer's"
            )
        positions = torch.arange(grid.numel(), device=grid.device)
        predicted = self.predict(rows, grid, tokens, positions, self.ignore_index)
        if input_ids is None and self.boundaries is not None:
            alone = self.boundaries.whole_alone(predicted.gold) & predicted.counted
            return predicted._replace(whole_word=alone)
        return predicted

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
        """What the objective asks of a model of transformers, not wrapped, with the autocast that is on.

        ``inputs`` are its others, such as the attention mask. ``embeddings``, shape (V, E), and ``encoder`` are the
        model's own where they are None; ``filled`` as for :class:`~.passes.EncoderPasses`.
        """

        def weight() -> Tensor:
            if embeddings is None and model is None:
                raise self._lack("embeddings")
            return embeddings_in_use(model) if embeddings is None else embeddings

        def encode(tokens: Tensor, gradient: bool, dropout: bool) -> tuple[Tensor, ...]:
            if model is None:
                raise self._lack("model")
            reader = encoder or getattr(model, "base_model", model)
            given = {**_positions_of(reader, predicted.original), **inputs, "input_ids": tokens}
            with torch.set_grad_enabled(gradient and torch.is_grad_enabled()), dropout_off(reader, not dropout):
                return encode_layers(reader, given, self.options.uses_context)

        return EncoderPasses(predicted, self.options, embeddings=weight, encode=encode, filled=filled)

    def _lack(self, argument: str) -> TrueNegError:
        """What is wrong where a loss needs more than logits and labels."""
        return TrueNegError(
            f"TrueNegativeLoss with {self.options.described()}: needs {argument}; expected loss_fn(logits, labels, "
            f"{argument}=...), or loss_fn.watch(model)"
        )


def encode_layers(encoder: nn.Module, inputs: dict[str, Any], with_layers: bool) -> tuple[Tensor, ...]:
    """The hidden states of every layer of transformers' encoder, or of the last alone, shape (B, T, H) each."""
    output = encoder(**inputs, output_hidden_states=with_layers)
    return tuple(output.hidden_states[1:]) if with_layers else (output[0],)  # the first are the embeddings


def embeddings_in_use(model: Any) -> Tensor:
    """The input embeddings of a model of transformers, shape (V, E), with what an adapter adds to them."""
    part = model.get_input_embeddings()
    if isinstance(part, nn.Embedding):
        return part.weight
    embeddings: Tensor = part(torch.arange(len(part.weight), device=part.weight.device))
    return embeddings


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
    """Sums of :func:`add_counts`, over all processes; a host-device sync."""
    names = sorted(sums)
    if not names:
        return {}
    total = torch.stack([sums[name] for name in names])
    if distributed.is_available() and distributed.is_initialized():
        distributed.all_reduce(total)
    return dict(zip(names, total.tolist(), strict=True))


def rates_of(sums: Mapping[str, float], rates: Iterable[Rate]) -> dict[str, float]:
    """The rates whose counts are there, by name."""
    return {rate.name: rate.value(sums) for rate in rates if set(rate.counts) <= sums.keys()}


def add_counts(sums: dict[str, Tensor], counts: Mapping[str, Tensor]) -> None:
    """Adds scalars to sums by name, without waiting for the device."""
    for name, value in counts.items():
        exact = torch.float32 if value.device.type == "mps" else torch.float64  # which Apple's GPUs do not have
        added = value.detach().to(exact)
        sums[name] = sums[name] + added if name in sums else added
