"""ELECTRA (Clark et al., 2020): masked LM for the generator, and detection of its samples for the discriminator."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .loss import Objective, Outcome, UpdateSize, scaled_mean
from .options import ElectraOptions
from .passes import MaskedPredictions, Passes

_BLOCK = 256


class Replaced(NamedTuple):
    """What the discriminator saw and said."""

    tokens: Tensor  # int64, shape (B, T), the sentences with the samples
    sampled: Tensor  # int64, shape (N,), the samples at the judged positions
    logits: Tensor  # shape (B, T), any floating dtype, positive for "replaced"


def add_discriminator(
    objective: Objective,
    generator: Outcome,
    judged: MaskedPredictions,
    passes: Passes,
    replaced: Replaced,
    *,
    update: UpdateSize | None = None,
) -> Outcome:
    """The loss of a step: the generator's, and ``discriminator_weight`` times the discriminator's mean over all tokens.

    Args:
        objective: of the generator; finds the samples that are false negatives for the discriminator.
        generator: its outcome.
        judged: its predictions.
        passes: as for the objective.
        replaced: the discriminator's answers.
        update: denominators of the whole update (they include ignored tokens). None: this batch's own, without them.
    """
    options = objective.options
    assert isinstance(options, ElectraOptions)
    weight, counts = options.discriminator_weight, dict(generator.counts)
    trained, size = _discriminate(objective, judged, passes, replaced, counts)
    loss = generator.loss + weight * scaled_mean(trained, update or UpdateSize(generator.sample_size, size))
    counts["gen_loss"] = counts["loss"]
    batch = UpdateSize(counts["sample_size"], counts["disc_size"])
    counts["loss"] = counts["gen_loss"] + weight * scaled_mean(counts["disc_loss"], batch)
    counts["objective"] = loss.detach()
    return Outcome(loss, generator.sample_size, counts)


def _discriminate(
    objective: Objective,
    judged: MaskedPredictions,
    passes: Passes,
    seen: Replaced,
    counts: dict[str, Tensor],
) -> tuple[Tensor, Tensor]:
    """The loss that is minimised, a sum, and its denominator; adds the counts, which are against plain labels."""
    replaced = seen.tokens.ne(judged.original)
    counted = judged.original.ne(objective.padding)
    counts["replaced"] = replaced.sum()
    found = objective.accept(judged, seen.sampled, passes)
    choice = "keep"
    if found is not None:
        counts["disc_synonyms"] = found.accepted.sum()
        choice = getattr(objective.options, "discriminator_false_negatives", "keep")
    with torch.set_grad_enabled(choice == "keep" and torch.is_grad_enabled()):
        plain = detection_sums(seen.logits, replaced, counted)
    counts["disc_loss"], counts["disc_size"] = plain.loss.detach(), counted.sum()
    for name in ("correct", "found", "suspected", "replaced"):
        counts[f"disc_{name}"] = getattr(plain, name)
    if found is None or choice == "keep":
        return plain.loss, counts["disc_size"]
    if choice == "ignore":
        counted = counted & ~_spread(found.accepted, judged)
    else:
        replaced = replaced & ~_spread(found.accepted, judged)
    return detection_sums(seen.logits, replaced, counted).loss, counted.sum()


def _spread(values: Tensor, judged: MaskedPredictions) -> Tensor:
    """Values of the judged positions, shape (N,), on the (B, T) grid; False elsewhere."""
    grid = torch.zeros_like(judged.original, dtype=values.dtype).view(-1)
    return grid.index_put((judged.positions,), values).view_as(judged.original)


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
