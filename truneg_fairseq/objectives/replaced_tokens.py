"""Replaced-token detection (ELECTRA, Clark et al., 2020): sampling the replacements, and the discriminator's loss."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

_BLOCK = 256


@torch.no_grad()
def sample_tokens(logits: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Draws a token from the softmax of each row, in fp32 whatever the logits (half precision would bias it).

    By inversion, in two steps: a block of tokens by the blocks' sums, then a token of the block. That takes one random
    number a row, where the Gumbel trick takes V of them and two logarithms each.

    Args:
        logits: shape (N, V), any floating dtype.
        generator: where the random numbers come from, on the logits' device; None for torch's own.

    Returns:
        int64, shape (N,).
    """
    rows, size = logits.shape
    blocks = -(-size // _BLOCK)
    weights = torch.empty(rows, blocks * _BLOCK, dtype=torch.float32, device=logits.device)
    weights[:, size:] = -math.inf  # e^-inf is 0; a GPU is faster on contiguous rows
    weights[:, :size].copy_(logits)  # first: a difference of half precision would be rounded to it
    weights.sub_(weights.amax(dim=1, keepdim=True)).exp_()
    weights = weights.view(rows, blocks, _BLOCK)
    sums = weights.sum(dim=2).cumsum(dim=1)
    chance = torch.rand(rows, 1, dtype=torch.float32, device=logits.device, generator=generator)
    target = chance * sums[:, -1:]
    block = _first_above(sums, target)
    before = torch.where(block.gt(0), sums.gather(1, (block - 1).clamp(min=0)), 0.0)
    within = weights.gather(1, block[..., None].expand(-1, -1, _BLOCK)).squeeze(1).cumsum(dim=1)
    token = block * _BLOCK + _first_above(within, target - before)
    return token.squeeze(1)


def _first_above(sums: Tensor, target: Tensor) -> Tensor:
    """The first of the ascending sums, shape (N, K), that exceeds the target, shape (N, 1); int64, shape (N, 1).

    A target that rounding has put at the last sum or beyond it is taken as one just below: so the answer is always a
    place whose sum is larger than the one before it, something with a probability above 0.
    """
    below = sums[:, -1:] * (1 - torch.finfo(sums.dtype).eps)
    found: Tensor = sums.le(torch.minimum(target, below)).sum(dim=1, keepdim=True)
    return found.clamp_(max=sums.size(1) - 1)


class Detection(NamedTuple):
    """Sums over the counted tokens."""

    loss: Tensor  # fp32 scalar with gradient, binary cross-entropy in nats
    correct: Tensor  # int64 scalar, tokens judged right
    found: Tensor  # int64 scalar, replaced tokens that are judged replaced
    suspected: Tensor  # int64 scalar, tokens judged replaced
    replaced: Tensor  # int64 scalar, replaced tokens


def detection_sums(logits: Tensor, replaced: Tensor, counted: Tensor, acceptance: Tensor | None = None) -> Detection:
    """The discriminator's loss and what it got right.

    Args:
        logits: shape (B, T), any floating dtype, positive for "replaced"; the loss is computed in fp32.
        replaced: bool, shape (B, T), the labels.
        counted: bool, shape (B, T), the tokens that count.
        acceptance: fp32, shape (B, T), in [0, 1], the probability that a replacement is acceptable: the loss's label is
            1 less that much. None for 0 everywhere.
    """
    labels = replaced.float() if acceptance is None else replaced * (1 - acceptance)
    cross_entropy = F.binary_cross_entropy_with_logits(logits.float(), labels, reduction="none")
    suspected = logits.detach().gt(0) & counted
    replaced = replaced & counted
    return Detection(
        loss=torch.where(counted, cross_entropy, cross_entropy.new_zeros(())).sum(),
        correct=(suspected.eq(replaced) & counted).sum(),
        found=(suspected & replaced).sum(),
        suspected=suspected.sum(),
        replaced=replaced.sum(),
    )
