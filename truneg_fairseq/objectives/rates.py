"""Logged rates: quotients of counts that are summed over workers and micro-batches, and derived when shown."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

BITS = 1 / math.log(2)
"""Bits a nat: losses are logged in bits."""


class Rate(NamedTuple):
    """scale * numerator / (denominator - subtracted), 0 where the denominator is; the three are names of counts."""

    name: str
    numerator: str
    denominator: str
    subtracted: str | None = None
    scale: float = 1.0

    @property
    def counts(self) -> tuple[str, ...]:
        """The names of the counts it needs."""
        return tuple(key for key in (self.numerator, self.denominator, self.subtracted) if key is not None)

    def value(self, sums: Mapping[str, float]) -> float:
        """The rate of these sums of counts, to four decimals."""
        total = sums[self.denominator] - (sums[self.subtracted] if self.subtracted is not None else 0.0)
        return round(self.scale * sums[self.numerator] / total, 4) if total else 0.0


CORRECTION_RATES = (
    Rate("hc_pred", "corrected", "sample_size", subtracted="correct", scale=100.0),
    Rate("hc_iter", "corrected_sentences", "nsentences", scale=100.0),
    Rate("hc_acceptance", "acceptance_sum", "corrected", scale=100.0),
    Rate("smoothed", "smoothed", "sample_size", scale=100.0),
    Rate("smoothed_mass", "smoothed_mass", "sample_size", scale=100.0),
    Rate("sr", "sr_sum", "sample_size"),
    Rate("kl", "kl_sum", "kl_size"),
)
"""What the true-negative objectives log."""

GENERATION_RATES = tuple(
    rate._replace(denominator="positions") if rate.denominator == "sample_size" else rate for rate in CORRECTION_RATES
)
"""What a model that generates logs beside what fairseq's label_smoothed_cross_entropy does."""

MASKED_LM_RATES = (
    Rate("objective", "objective", "objective_size", scale=BITS),
    Rate("accuracy", "correct", "sample_size", scale=100.0),
    *CORRECTION_RATES,
)
"""What a masked LM logs beside loss and perplexity."""

ELECTRA_RATES = (
    Rate("objective", "objective", "objective_size", scale=BITS),
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

TRAINER_RATES = (
    Rate("mlm_loss", "loss", "sample_size"),
    Rate("accuracy", "correct", "sample_size", scale=100.0),
    *CORRECTION_RATES,
)
"""What a training loop in nats logs."""
