"""Replaced-token detection (ELECTRA, Clark et al., 2020): sampling the replacements, and the discriminator's loss."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


@torch.no_grad()
def sample_tokens(logits: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Draws a token from the softmax of each row, by the Gumbel trick in fp32 (half precision would bias it).

    Args:
        logits: shape (N, V), any floating dtype.
        generator: where the noise comes from, on the logits' device; None for torch's own.

    Returns:
        int64, shape (N,).
    """
    # Uniform numbers: on a CPU, torch draws exponential ones, which would save a logarithm, four times slower.
    noise = torch.rand(logits.shape, dtype=torch.float32, device=logits.device, generator=generator)
    negative_gumbel = noise.log_().neg_().log_()
    return torch.sub(logits, negative_gumbel, out=negative_gumbel).argmax(dim=-1)


class Detection(NamedTuple):
    """Sums over the counted tokens.

    Attributes:
        loss: fp32 scalar with gradient, binary cross-entropy in nats.
        correct: int64 scalar, tokens judged right.
        found: int64 scalar, replaced tokens that are judged replaced.
        suspected: int64 scalar, tokens judged replaced.
        replaced: int64 scalar, replaced tokens.
    """

    loss: Tensor
    correct: Tensor
    found: Tensor
    suspected: Tensor
    replaced: Tensor


def detection_sums(logits: Tensor, replaced: Tensor, counted: Tensor) -> Detection:
    """The discriminator's loss and what it got right.

    Args:
        logits: shape (B, T), any floating dtype, positive for "replaced"; the loss is computed in fp32.
        replaced: bool, shape (B, T), the labels.
        counted: bool, shape (B, T), the tokens that count.
    """
    cross_entropy = F.binary_cross_entropy_with_logits(logits.float(), replaced.float(), reduction="none")
    suspected = logits.detach().gt(0) & counted
    replaced = replaced & counted
    return Detection(
        loss=torch.where(counted, cross_entropy, cross_entropy.new_zeros(())).sum(),
        correct=(suspected.eq(replaced) & counted).sum(),
        found=(suspected & replaced).sum(),
        suspected=suspected.sum(),
        replaced=replaced.sum(),
    )
