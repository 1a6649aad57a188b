"""Logged rates: quotients of counts that are summed over workers and micro-batches, and derived when shown."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fairseq.logging import metrics

BITS = 1 / math.log(2)
"""Bits a nat: fairseq logs losses in bits."""


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

    @property
    def derive(self) -> Callable[[Any], float]:
        """A function from fairseq's meters to the rate."""

        def value(meters: Any) -> float:
            total = float(meters[f"_{self.denominator}"].sum)
            if self.subtracted is not None:
                total -= float(meters[f"_{self.subtracted}"].sum)
            return round(self.scale * float(meters[f"_{self.numerator}"].sum) / total, 4) if total else 0.0

        return value


def log_rates(logging_outputs: Sequence[dict[str, Any]], rates: Sequence[Rate]) -> None:
    """Logs the rates whose counts are there, and the number of the model's own synonyms if it is."""
    available = logging_outputs[0].keys() if logging_outputs else ()
    for key in sorted({key for rate in rates for key in rate.counts if key in available}):
        metrics.log_scalar_sum(f"_{key}", sum(log[key] for log in logging_outputs))
    for rate in rates:
        if all(key in available for key in rate.counts):
            metrics.log_derived(rate.name, rate.derive)
    if "model_pairs" in available:  # the latest number: every worker and micro-batch says the same
        pairs, size = (sum(log[key] for log in logging_outputs) for key in ("model_pairs", "model_pairs_size"))
        metrics.log_scalar("model_pairs", pairs / size, weight=0, round=0)
