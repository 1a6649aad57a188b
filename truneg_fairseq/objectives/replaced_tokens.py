"""ELECTRA (Clark et al., 2020): masked LM for the generator, and detection of its samples for the discriminator."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from .build import BITS
from .loss import CORRECTION_RATES, OBJECTIVE, Objective, Outcome, Rate, UpdateSize, scaled_mean
from .options import ElectraOptions
from .passes import EncoderPasses, MaskedPredictions, gather_rows

_BLOCK = 256

ELECTRA_RATES = (
    OBJECTIVE,
    Rate("gen_loss", "gen_loss", "sample_size", scale=BITS),
    Rate("gen_accuracy", "correct", "sample_size", scale=100.0),
    Rate("disc_loss", "disc_loss", "disc_size", scale=BITS),
    Rate("disc_accuracy", "disc_correct", "disc_size", scale=100.0),
    Rate("disc_precision", "disc_found", "disc_suspected", scale=100.0),
    Rate("disc_recall", "disc_found", "disc_replaced", scale=100.0),
    Rate("replaced", "replaced", "sample_size", scale=100.0),
    Rate("disc_fn", "disc_synonyms", "replaced", scale=100.0),
    *CORRECTION_RATES,
)
"""What ELECTRA pre-training logs beside its loss."""


def add_discriminator(
    objective: Objective,
    generator: Outcome,
    judged: MaskedPredictions,
    passes: EncoderPasses,
    *,
    tokens: Tensor,
    logits: Tensor,
    update: UpdateSize | None = None,
) -> Outcome:
    """The loss of a step: the generator's, and ``discriminator_weight`` times the discriminator's mean over all tokens.

    Args:
        objective: of the generator; finds the samples that are false negatives for the discriminator.
        generator: its outcome.
        judged: its predictions.
        passes: as for the objective.
        tokens: int64, shape (B, T), what the discriminator read, the sentences with the samples.
        logits: shape (B, T), any floating dtype, what it said, positive for "replaced".
        update: denominators of the whole update (they include ignored tokens). None: this batch's own, without them.
    """
    options = objective.options
    assert isinstance(options, ElectraOptions)
    labels, counted = tokens.ne(judged.original), judged.original.ne(objective.padding)
    loss, found = detection_sums(logits, labels, counted)
    # What is logged is against plain labels, so that runs compare.
    counts = {**generator.counts, **found, "replaced": labels.sum(), "gen_loss": generator.counts["loss"]}
    samples = objective.find(judged, gather_rows(tokens, judged.positions), passes)
    if samples is not None:
        counts["disc_synonyms"] = samples.is_false_negative.sum()
        if options.discriminator_false_negatives != "keep":
            accepted = torch.zeros_like(counted).view(-1)
            accepted = accepted.index_put((judged.positions,), samples.is_false_negative).view_as(counted)
            if options.discriminator_false_negatives == "ignore":
                counted = counted & ~accepted
            else:
                labels = labels & ~accepted
            loss, _ = detection_sums(logits, labels, counted)
    weight, size = options.discriminator_weight, counted.sum()
    loss = generator.loss + weight * scaled_mean(loss, update or UpdateSize(generator.sample_size, size))
    batch = UpdateSize(counts["sample_size"], counts["disc_size"])
    counts["loss"] = counts["gen_loss"] + weight * scaled_mean(counts["disc_loss"], batch)
    counts["objective"] = loss.detach()
    return Outcome(loss, generator.sample_size, counts)


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


def detection_sums(logits: Tensor, replaced: Tensor, counted: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """The discriminator's loss, fp32 scalar with gradient, summed over the counted tokens, and what is logged of it.

    ``logits``, of any floating type, are positive for "replaced", ``replaced``, bool, the labels, and ``counted``,
    bool, the tokens that count; shape (B, T) each.
    """
    cross_entropy = F.binary_cross_entropy_with_logits(logits.float(), replaced.float(), reduction="none")
    loss = torch.where(counted, cross_entropy, cross_entropy.new_zeros(())).sum()
    suspected, replaced = logits.detach().gt(0) & counted, replaced & counted
    counts = {
        "disc_loss": loss.detach(),
        "disc_size": counted.sum(),
        "disc_correct": (suspected.eq(replaced) & counted).sum(),
        "disc_found": (suspected & replaced).sum(),
        "disc_suspected": suspected.sum(),
        "disc_replaced": replaced.sum(),
    }
    return loss, counts
