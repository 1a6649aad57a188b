"""What a loop passes to the loss, brought into one form: rows, labels, sentences, weights, targets, a watched model."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import partial
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..errors import TrueNegError
from .passes import unwrap

_LOGITS = "TrueNegativeLoss: found logits of shape {0} and "
_OF_ONE_CALL = {"labels", "input_ids", "inputs_embeds", "output_hidden_states", "output_attentions", "return_dict"}


class Batch(NamedTuple):
    """The rows of a call that count, N of the M that were passed."""

    labels: Tensor  # int64, shape (N,)
    grid: Tensor  # int64, shape (B, T), the labels of the sentences
    tokens: Tensor  # int64, shape (B, T), what the model read; 0 where it is not known
    places: Tensor  # int64, shape (N,), of the rows, in the flattened (B, T)
    shape: torch.Size  # of the M losses, where each is wanted
    sentences: int  # 0 where there are rows alone
    is_known: bool  # whether the sentences are
    counted: Tensor  # bool, shape (N,), the rows with a label
    weights: Tensor | None = None  # fp32, shape (N,), 0 without a label
    targets: tuple[Tensor, ...] | None = None  # the parts of SoftTargets
    chosen: Tensor | None = None  # int64, shape (N,), which of the M rows; None for all

    def at(self, chosen: Tensor) -> Batch:
        """The batch with these rows alone."""
        weights, targets = self.weights, self.targets
        return self._replace(
            labels=self.labels[chosen],
            places=self.places[chosen],
            counted=self.counted[chosen],
            weights=None if weights is None else weights[chosen],
            targets=None if targets is None else tuple(part[chosen] for part in targets),
            chosen=chosen,
        )

    def everywhere(self, values: Tensor) -> Tensor:
        """Values of the N rows as those of all M, 0 where a row was left out; with gradient."""
        if self.chosen is None:
            return values
        return values.new_zeros(prod(self.shape)).index_copy(0, self.chosen, values)


def expect(holds: bool, line: str, *values: Any, of: str = "TrueNegativeLoss: found ") -> None:
    """Refuses a call with a line about these values, which is made only then: to name a shape would fix it in
    torch.compile.
    """
    if not holds:
        named = [tuple(value) if isinstance(value, torch.Size) else value for value in values]
        raise TrueNegError((of + line).format(*named))


def logits_of(output: Any, labels: Any) -> Tensor:
    """Logits with the words last: of a tensor, or of an output that has them."""
    logits: Any = output.get("logits") if isinstance(output, Mapping) else getattr(output, "logits", output)
    for name, value in (("logits", logits), ("labels", labels)):
        expect(isinstance(value, Tensor), "{} as {}; expected a tensor", type(value).__name__, name)
    turned = logits.dim() == 3 and logits.shape[:2] != labels.shape == (logits.size(0), logits.size(2))
    words_last: Tensor = logits.transpose(1, 2) if turned else logits  # as nn.CrossEntropyLoss takes them
    return words_last


EXPECTED_LABELS = (
    "expected the original tokens at masked positions and {0} elsewhere, as DataCollatorForLanguageModeling gives them "
    "(mlm=True)"
)


def check_masked(labels: Tensor, tokens: Tensor | None, padding: int, ignored: int) -> None:
    """Refuses the labels of a causal LM, one at every token; a wait.

    Args:
        labels: shape (B, T).
        tokens: shape (B, T); None where they are not known.
        padding: its id; -1 where it is not known. What is ignored at one end alone of every row is then taken for
            padding, if a row has three labels or more on average.
        ignored: the label of a token that is not predicted.
    """
    labelled = labels.ne(ignored)
    if tokens is not None and padding >= 0:
        everywhere = labelled.eq(tokens.ne(padding)).all()
    else:
        rows, length = labelled.shape
        everywhere = labelled.diff(dim=1).sum(1).le(1).all() & labelled.sum().ge(rows * min(3, length))
    expect(
        not (everywhere & labelled.any()),
        f"found one at every token (a causal LM's?), {EXPECTED_LABELS}",
        ignored,
        of="labels: ",
    )


def check_labels(labels: Tensor, size: int, known: int, ignored: int) -> None:
    """Refuses labels that logits of so many tokens, or a tokenizer with ``known`` ones, do not have: a wait."""
    wrong = labels[(labels.ge(size) | labels.lt(0)) & labels.ne(ignored)]
    expect(
        not len(wrong),
        "the label {3} with logits of {0} tokens; expected labels from 0 to {1}, or {2} where nothing is predicted",
        *(size, size - 1, ignored, *wrong[:1].tolist()),
    )
    added = labels[labels.ge(known) & labels.ne(ignored)]
    expect(
        not len(added),
        "the label {1}, but its tokenizer had {0} tokens; expected a loss that is made after tokens are added",
        *(known, *added[:1].tolist()),
    )


def lay_out(
    shape: torch.Size,
    labels: Tensor,
    input_ids: Tensor | None,
    positions: Tensor | None,
    ignored: int,
    *,
    checks: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """The labels of M rows, shape (M,), of their sentences, shape (B, T), and the places of the rows there, shape (M,).

    Args:
        shape: of the rows, logits or states, (M, V) or (B, T, V).
        labels: integers, of the rows or of the sentences.
        input_ids: shape (B, T); None where they are not known.
        positions: bool, shape (B, T), or indices into the flattened (B, T), shape (M,); None where every place has
            a row.
        ignored: the label of a token that is not predicted.
        checks: look at values, which waits for the device.
    """
    is_integer = not labels.is_floating_point() and labels.dtype != torch.bool
    expect(is_integer, "labels of {}; expected int64 tokens", labels.dtype)
    labels, lead, count = labels.long(), shape[:-1], prod(shape[:-1])
    marks = positions if positions is not None and positions.dtype == torch.bool else None
    if input_ids is None and marks is None and labels.numel() == count:
        positions = None  # of sentences that are not known
    of_sentences = next(each for each in (input_ids, marks, labels) if each is not None).shape
    sentences = torch.Size(of_sentences if len(of_sentences) > 1 else (1, *of_sentences))
    total, fits = prod(sentences), partial(expect, of=_LOGITS)
    if positions is None:
        same = labels.shape == lead or (labels.numel() == count and len(lead) == 1)
        fits(same, "labels of {1}; expected labels of {2}", shape, labels.shape, lead)
        fits(
            total == count,
            "input_ids of {1}; expected an id for each, or positions=, where the logits are",
            *(shape, of_sentences),
        )
        return labels.reshape(-1), labels.reshape(sentences), torch.arange(count, device=labels.device)
    if marks is not None:
        there = marks.numel() == total and not (checks and int(marks.sum()) != count)
        fits(there, "positions of {1}; expected a true one for each", shape, marks.shape)
        # No wait: their number is that of the logits.
        places = marks.reshape(-1).long().argsort(descending=True, stable=True)[:count]
    else:
        places = positions.reshape(-1).long()
        there = len(places) == count
        if checks and count and there:
            there = 0 <= int(places.min()) <= int(places.max()) < total
        fits(
            there,
            "{1} positions; expected one for each, indices into {2} flattened tokens",
            *(shape, len(places), total),
        )
    fits(
        labels.numel() in (count, total),
        "labels of {1}; expected ({2},), or the sentences' {3}",
        *(shape, labels.shape, count, sentences),
    )
    own = labels.reshape(-1) if labels.shape == lead or labels.numel() == count != total else labels.reshape(-1)[places]
    # Rows without a label may repeat a place, where positions are filled up to one number.
    grid = labels.new_full((total + 1,), ignored).index_copy(0, places.where(own.ne(ignored), total), own)[:-1]
    return own, grid.view(sentences), places


def target_of(targets: tuple[Tensor, Tensor], count: int, *, checks: bool) -> tuple[Tensor, ...]:
    """Shares, tokens and probabilities of a batch's own targets for M rows; what they leave of 1 is for the labels."""
    tokens, probabilities = targets
    fits = partial(expect, of="targets: found ")
    fits(
        tokens.shape == probabilities.shape and tokens.numel() == count * tokens.size(-1),
        "tokens {} and probabilities {}; expected ({}, K) each",
        *(tokens.shape, probabilities.shape, count),
    )
    tokens, probabilities = (each.detach().reshape(count, tokens.size(-1)) for each in targets)
    share = probabilities.float().sum(1)
    if checks:
        most = float(share.max()) if count else 0.0
        fits(
            most <= 1 + 1e-4 and not probabilities.lt(0).any(),
            "probabilities with the sum {:.4g}; expected at most 1",
            most,
        )
    return share, tokens.long(), probabilities.float() / share[:, None].clamp(min=1e-30)


def passed_on(encoder: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs of a model that another pass of its encoder takes too, such as masks, segments and positions."""
    taken = inspect.signature(encoder.forward).parameters
    takes_all = any(each.kind is each.VAR_KEYWORD for each in taken.values())
    return {name: each for name, each in inputs.items() if name not in _OF_ONE_CALL and (takes_all or name in taken)}


class Watch:
    """The inputs of a model's last call, by the names of its signature. A copy of the model is not watched."""

    def __init__(self, model: nn.Module) -> None:
        inner: Any = unwrap(model)
        self._names = [*inspect.signature(inner.forward).parameters]
        # A compiled module calls no hook inside it that comes later, and DataParallel calls copies.
        from_outside = any("_orig_mod" in part._modules for part in model.modules())
        self.model: Any = model if from_outside or isinstance(model, nn.DataParallel) else inner
        self._inputs: dict[str, Any] | None = None
        self._handle: Any = self.model.register_forward_pre_hook(self, with_kwargs=True)

    def __call__(self, module: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        if module is self.model:
            self._inputs = {**dict(zip(self._names, arguments, strict=False)), **keywords}

    @property
    def inputs(self) -> dict[str, Any]:
        """The inputs, by name."""
        if self._inputs is None:
            raise TrueNegError("loss_fn.watch(model): the model was not called since; expected a call before the loss")
        return self._inputs

    def remove(self) -> None:
        """Watches no longer, and lets go of the model."""
        if self._handle is not None:
            self._handle.remove()
        self.__dict__.update(self.__getstate__())

    def __getstate__(self) -> dict[str, Any]:
        return dict.fromkeys(("model", "_names", "_inputs", "_handle"))
