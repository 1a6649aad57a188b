"""The masked-LM cross-entropy with the loss of corrected positions taken out (Eq. 1 and 2)."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class MaskedCrossEntropy(NamedTuple):
    """Sums over positions, in nats."""

    objective: Tensor  # fp32 scalar with gradient, what is minimised
    plain: Tensor  # fp32 scalar without gradient, Eq. 1 as stock masked_lm has it: nothing corrected, temperature 1.


def masked_cross_entropy(
    logits: Tensor,
    gold: Tensor,
    corrected: Tensor | None = None,
    *,
    correction_weight: float = 1.0,
    temperature: float = 1.0,
    ignore_index: int,
) -> MaskedCrossEntropy:
    """Eq. 2: cross-entropy summed over the masked positions, corrected ones left out; computed in fp32.

    Args:
        logits: shape (N, V), any floating dtype.
        gold: int64, shape (N,); positions equal to ``ignore_index`` do not count.
        corrected: bool, shape (N,), or None for Eq. 1. The gradient at corrected positions is exactly 0 for weight 1.
        correction_weight: the share of a corrected position's loss that is dropped, in [0, 1].
        temperature: the softmax temperature of footnote 11; logits are divided by it.
        ignore_index: the id of padding.

    Returns:
        The sum to minimise and the plain sum, both 0 (never NaN) where no position is left.
    """
    tempered = F.log_softmax(logits if temperature == 1.0 else logits / temperature, dim=-1, dtype=torch.float32)
    log_probabilities = tempered
    if temperature != 1.0:
        with torch.no_grad():
            log_probabilities = F.log_softmax(logits, dim=-1, dtype=torch.float32)
    if corrected is None or correction_weight == 0.0:
        objective = _sum(tempered, gold, ignore_index)
        plain = objective.detach() if tempered is log_probabilities else _sum(log_probabilities, gold, ignore_index)
        return MaskedCrossEntropy(objective, plain)

    kept_gold = gold.masked_fill(corrected, ignore_index)
    corrected_gold = gold.masked_fill(~corrected, ignore_index)
    objective = _sum(tempered, kept_gold, ignore_index)
    if correction_weight < 1.0:
        objective = objective + (1.0 - correction_weight) * _sum(tempered, corrected_gold, ignore_index)
    with torch.no_grad():
        plain = _sum(log_probabilities, kept_gold, ignore_index) + _sum(log_probabilities, corrected_gold, ignore_index)
    return MaskedCrossEntropy(objective, plain)


@torch.no_grad()
def least_likely(logits: Tensor, gold: Tensor, counted: Tensor, share: float) -> Tensor:
    """The positions whose gold word is least likely, a share of those that count (rounded); bool, shape (N,).

    Args:
        logits: shape (N, V), any floating dtype.
        gold: int64, shape (N,).
        counted: bool, shape (N,), the positions that count.
        share: in [0, 1].
    """
    loss = F.cross_entropy(logits.float(), gold, reduction="none").masked_fill(~counted, -torch.inf)
    rank = loss.argsort(descending=True).argsort()
    return rank < (share * counted.sum()).round()


def _sum(log_probabilities: Tensor, gold: Tensor, ignore_index: int) -> Tensor:
    return F.nll_loss(log_probabilities, gold, ignore_index=ignore_index, reduction="sum")
