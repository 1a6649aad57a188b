"""The objective of ELECTRA: masked LM for the generator, and detection of what it sampled for the discriminator."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from .passes import Passes
from .predictions import MaskedPredictions
from .replaced_tokens import detection_sums
from .true_negatives import Outcome, TrueNegativeObjective, UpdateSize, scaled_mean


class Replaced(NamedTuple):
    """What the discriminator saw and said."""

    tokens: Tensor  # int64, shape (B, T), the sentences with the samples
    sampled: Tensor  # int64, shape (N,), the samples at the judged positions
    logits: Tensor  # shape (B, T), any floating dtype, positive for "replaced"


def add_discriminator(
    objective: TrueNegativeObjective,
    generator: Outcome,
    judged: MaskedPredictions,
    passes: Passes,
    replaced: Replaced,
    *,
    weight: float,
    update: UpdateSize | None = None,
) -> Outcome:
    """The loss of a step: that of the generator, and ``weight`` times the discriminator's mean over all tokens.

    Args:
        objective: of the generator; finds the samples that are false negatives for the discriminator.
        generator: its outcome.
        judged: its predictions.
        passes: as for the objective.
        replaced: the discriminator's answers.
        weight: of its loss, >= 0.
        update: what the means are over, tokens that are ignored included; None for the batch, without them.
    """
    counts = dict(generator.counts)
    trained, size = _discriminate(objective, judged, passes, replaced, counts)
    loss = generator.loss + weight * scaled_mean(trained, update or UpdateSize(generator.sample_size, size))
    counts["gen_loss"] = counts["loss"]
    batch = UpdateSize(counts["sample_size"], counts["disc_size"])
    counts["loss"] = counts["gen_loss"] + weight * scaled_mean(counts["disc_loss"], batch)
    counts["objective"] = loss.detach()
    return Outcome(loss, generator.sample_size, counts)


def _discriminate(
    objective: TrueNegativeObjective,
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
        choice = objective.settings.discriminator_false_negatives
    with torch.set_grad_enabled(choice == "keep" and torch.is_grad_enabled()):
        plain = detection_sums(seen.logits, replaced, counted)
    counts["disc_loss"], counts["disc_size"] = plain.loss.detach(), counted.sum()
    for name in ("correct", "found", "suspected", "replaced"):
        counts[f"disc_{name}"] = getattr(plain, name)
    if found is None or choice == "keep":
        return plain.loss, counts["disc_size"]
    acceptance = None
    if choice == "soft":
        assert found.probability is not None
        acceptance = _spread(found.probability, judged)
    elif choice == "ignore":
        counted = counted & ~_spread(found.accepted, judged)
    else:
        replaced = replaced & ~_spread(found.accepted, judged)
    return detection_sums(seen.logits, replaced, counted, acceptance).loss, counted.sum()


def _spread(values: Tensor, judged: MaskedPredictions) -> Tensor:
    """Values of the judged positions, shape (N,), on the (B, T) grid; 0 or False elsewhere."""
    grid = torch.zeros_like(judged.original, dtype=values.dtype).view(-1)
    return grid.index_put((judged.positions,), values).view_as(judged.original)
