"""Cross-entropy of hidden states without their logits: in blocks of positions, whose gradients are made at once.

A position's target is a list of words with masses, and a mass for all words alike; so the gradient by its logits is
``softmax - target``, and every factor of its loss multiplies a state of H numbers in place of V logits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..errors import TrueNegError
from .passes import accumulated, full_precision, most_likely
from .soft_targets import Target, first_derivative_alone

_FEWEST, _ENTRIES = 128, 1 << 23
"""A block has at least so many positions, and about so many logits."""


class Hidden(NamedTuple):
    """What a loss is given in place of logits: states and the linear layer that would make logits of them."""

    states: Tensor  # shape (N, H) or (B, T, H)
    weight: Tensor  # shape (V, H)
    bias: Tensor | None = None  # shape (V,)


def cross_entropy_of_hidden(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    target: Target,
    coefficient: Tensor,
    *,
    keep: Callable[[slice, Tensor], Tensor | None] | None = None,
    temperature: float = 1.0,
    allowed: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The cross-entropy of ``hidden @ weight.T + bias``, of which there are never more than a block of rows.

    Products have the type of the inputs, or of the autocast that is on; the rest is in fp32 (float64 of float64), as
    are the gradients until they are given away. A backward pass can follow once.

    Args:
        hidden: shape (N, H), what the last linear layer gets.
        weight: shape (V, H).
        bias: shape (V,), or None.
        target: what each position is to predict.
        coefficient: fp32, shape (N,), a factor of each position's loss; 0 where it does not count.
        keep: another factor, which may depend on the predictions: of a block's rows and their predictions, shape (n,).
        temperature: of the softmax.
        allowed: bool, shape (V,), the words that may be predicted, and that a uniform target is divided among.

    Returns:
        The sum of coefficient * keep * loss, with gradient; and of each position, shape (N,), without gradient, the
        loss of the gold word at temperature 1, and the prediction, int64.
    """
    if type(weight).__name__ == "DTensor":
        raise TrueNegError("of_hidden: the weight is a shard (DTensor); expected a call inside the model's forward")
    device, kind = hidden.device.type, torch.promote_types(hidden.dtype, weight.dtype)
    if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
        kind = torch.get_autocast_dtype(device)
    rows = max(1, min(max(_FEWEST, _ENTRIES // len(weight)), len(hidden)))
    settings = target, coefficient, keep, temperature, allowed, rows, kind, torch.is_grad_enabled()
    with full_precision(hidden.device):
        made: tuple[Tensor, Tensor, Tensor] = _CrossEntropy.apply(hidden, weight, bias, *settings)
        return made


class _CrossEntropy(torch.autograd.Function):
    """The blocks, with the gradients by the inputs that need one."""

    @staticmethod
    def forward(  # noqa: PLR0917  (torch passes by position)
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        target: Target,
        coefficient: Tensor,
        keep: Callable[[slice, Tensor], Tensor | None] | None,
        temperature: float,
        allowed: Tensor | None,
        rows: int,
        kind: torch.dtype,
        trains: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        inputs, wide = (hidden, weight, bias), accumulated(kind)
        states, matrix, shift = (None if each is None else each.to(kind) for each in inputs)
        assert states is not None and matrix is not None
        needs = zip(inputs, ctx.needs_input_grad[:3], strict=True)
        made = [torch.zeros_like(x, dtype=wide) if trains and need and x is not None else None for x, need in needs]
        plain, prediction = hidden.new_zeros(len(hidden), dtype=wide), torch.zeros_like(target.tokens[:, 0])
        total = plain.new_zeros(())
        logits = hidden.new_empty(rows, len(weight), dtype=kind)
        softmax = logits if kind == wide else logits.to(wide)
        for start in range(0, len(hidden), rows):
            at = slice(start, min(start + rows, len(hidden)))
            block, wanted = states[at], target.part(at)
            gold = wanted.tokens[:, :1]
            z, p = logits[: len(block)], softmax[: len(block)]
            torch.mm(block, matrix.T, out=z) if shift is None else torch.addmm(shift, block, matrix.T, out=z)
            best = prediction[at] = most_likely(z if allowed is None else z.masked_fill(~allowed, -torch.inf))
            if temperature != 1.0:
                plain[at] = torch.logsumexp(z.to(wide), 1) - z.gather(1, gold).squeeze(1)
                z.div_(temperature)
            of_gold, likeliest, mean = (
                z.gather(1, gold).to(wide),
                z.amax(1, keepdim=True).to(wide),
                wanted.mean(z, allowed),
            )
            torch.softmax(z, 1, dtype=wide, out=p)  # into the logits themselves, where they have its type
            partition = likeliest - p.amax(1, keepdim=True).log()
            if temperature == 1.0:
                plain[at] = (partition - of_gold).squeeze(1)
            scale = coefficient[at].to(wide)
            if keep is not None and (kept := keep(at, best)) is not None:
                scale = scale * kept
            # 0 where a position does not count, also where its loss is infinite.
            total += torch.where(scale != 0, scale * (partition.squeeze(1) - mean), 0.0).sum()
            if any(each is not None for each in made):
                wanted.subtract_from(p, allowed)
                narrow = p if kind == wide else z.copy_(p)
                _add_gradients(made, at, (p, narrow), (block, matrix), scale / temperature)
        ctx.made, ctx.kinds = made, [None if each is None else each.dtype for each in inputs]
        ctx.mark_non_differentiable(plain, prediction)
        return total, plain, prediction

    @staticmethod
    @first_derivative_alone
    def backward(ctx: Any, gradient: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        if ctx.made is None:  # scaled in place, and given away
            raise TrueNegError("of_hidden: a second backward pass through one loss; expected a new loss")
        made, ctx.made = ctx.made, None
        kinds = zip(made, ctx.kinds, strict=True)
        return *(None if each is None else each.mul_(gradient).to(kind) for each, kind in kinds), *[None] * 8


def _add_gradients(
    made: Sequence[Tensor | None],
    at: slice,
    by_logits: tuple[Tensor, Tensor],
    factors: tuple[Tensor, Tensor],
    scale: Tensor,
) -> None:
    """Adds a block's gradients by states, matrix and bias, of that by the logits in both types, before its scale."""
    (by_hidden, by_weight, by_bias), (wide, narrow), (block, matrix) = made, by_logits, factors
    if by_hidden is not None:
        by_hidden[at] = scale[:, None] * (narrow @ matrix)
    if by_weight is not None:
        scaled = scale[:, None] * block.to(wide.dtype)
        if narrow is wide:
            by_weight.addmm_(wide.T, scaled)
        else:
            by_weight += narrow.T @ scaled.to(narrow.dtype)
    if by_bias is not None:
        by_bias += scale @ wide
