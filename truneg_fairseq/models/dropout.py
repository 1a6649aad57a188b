"""Dropout, and attention with it, made cheap on CPUs. Imports torch only.

On a CPU torch draws one random number an element, which costs as much as a 256 x 256 linear layer, and knows attention
with dropout only as a chain of plain operations around that. Here one draw of 64 bits serves four elements; on other
devices these functions are torch's own.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

_LANES = 4
_LEVELS = 1 << 16


def dropout(x: Tensor, probability: float) -> Tensor:
    """Sets elements to 0 with a probability and scales the others so that the mean stays.

    On a CPU the probability is rounded to a multiple of 1/65,536, which the scale takes into account.
    """
    if probability == 0.0:
        return x
    if x.device.type != "cpu" or probability == 1.0:
        return F.dropout(x, probability)
    dropped: Tensor = _Dropout.apply(x, probability)
    return dropped


def attend(query: Tensor, key: Tensor, value: Tensor, attended: Tensor | None, probability: float) -> Tensor:
    """Scaled dot-product attention, shape (B, A, T, D), its weights dropped with a probability.

    Query, key and value have the same shape, for A heads of width D. ``attended``, bool, shape (B, 1, 1, T), are the
    keys to attend to; None for all.
    """
    if query.device.type != "cpu" or probability in (0.0, 1.0):
        return F.scaled_dot_product_attention(query, key, value, attn_mask=attended, dropout_p=probability)
    context: Tensor = _Attention.apply(query, key, value, attended, probability)
    return context


def _keep(shape: torch.Size, probability: float) -> tuple[Tensor, float]:
    """The kept elements as uint8 (faster to multiply than bool), and the scale."""
    count = shape.numel()
    dropped = round(probability * _LEVELS)
    # All 64 bits; random_() alone would leave the highest 0.
    bits = torch.empty(-(-count // _LANES), dtype=torch.int64).random_(-(2**63), None)
    # In place, the comparison of 16-bit numbers is ten times faster than one that makes booleans.
    kept = bits.view(torch.int16)[:count].ge_(dropped - _LEVELS // 2).to(torch.uint8)
    return kept.view(shape), _LEVELS / (_LEVELS - dropped)


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, probability: float) -> Tensor:
        kept, ctx.scale = _keep(x.shape, probability)
        ctx.save_for_backward(kept)
        return (x * kept).mul_(ctx.scale)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (kept,) = ctx.saved_tensors
        return (gradient * kept).mul_(ctx.scale), None


class _Attention(torch.autograd.Function):
    """Keeps the weights and what was kept of them, nothing else of shape (B, A, T, T)."""

    @staticmethod
    def forward(  # noqa: PLR0917  (autograd gives them by position)
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, attended: Tensor | None, probability: float
    ) -> Tensor:
        ctx.shape = query.shape
        query, key, value = (part.reshape(-1, *part.shape[2:]) for part in (query, key, value))
        ctx.root = 1 / math.sqrt(query.size(-1))
        scores = _scaled_product(query, key.transpose(1, 2), ctx.root)
        if attended is not None:
            # Not -inf: a sequence of nothing but padding would have no weights.
            grid = scores.view(*ctx.shape[:3], -1)
            grid.masked_fill_(~attended, torch.finfo(scores.dtype).min)
        weights = scores.softmax(dim=-1)
        kept, ctx.scale = _keep(weights.shape, probability)
        ctx.save_for_backward(query, key, value, weights, kept)
        return _scaled_product(weights * kept, value, ctx.scale).view(ctx.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, weights, kept = ctx.saved_tensors
        gradient = gradient.reshape(value.shape)
        of_value = _scaled_product((weights * kept).transpose(1, 2), gradient, ctx.scale)
        of_weights = _scaled_product(gradient, value.transpose(1, 2), ctx.scale).mul_(kept)
        of_scores = torch._softmax_backward_data(of_weights, weights, -1, weights.dtype)
        of_query = _scaled_product(of_scores, key, ctx.root)
        of_key = _scaled_product(of_scores.transpose(1, 2), query, ctx.root)
        return *(part.view(ctx.shape) for part in (of_query, of_key, of_value)), None, None


def _scaled_product(left: Tensor, right: Tensor, scale: float) -> Tensor:
    """The batched product times a number, in one operation."""
    unread = left.new_empty(())
    return torch.baddbmm(unread, left, right, beta=0, alpha=scale)
