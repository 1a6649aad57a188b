"""Rates in fairseq's log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairseq.logging import metrics

from ..objectives.rates import BITS, Rate

__all__ = ["BITS", "Rate", "log_loss", "log_rates"]


def log_loss(logging_outputs: Sequence[dict[str, Any]]) -> None:
    """Logs ``loss``, in bits a masked token; 0 where no token is masked, as stock's NaN would stay in the meter."""
    loss, size = (sum(log.get(key, 0) for log in logging_outputs) for key in ("loss", "sample_size"))
    metrics.log_scalar("loss", loss * BITS / size if size else 0.0, size, round=3)


def log_rates(logging_outputs: Sequence[dict[str, Any]], rates: Sequence[Rate]) -> None:
    """Logs the rates whose counts are there."""
    available = logging_outputs[0].keys() if logging_outputs else ()
    for key in sorted({key for rate in rates for key in rate.counts if key in available}):
        metrics.log_scalar_sum(f"_{key}", sum(log[key] for log in logging_outputs))
    for rate in rates:
        if all(key in available for key in rate.counts):
            metrics.log_derived(
                rate.name, lambda meters, rate=rate: rate.of({key: float(meters[f"_{key}"].sum) for key in rate.counts})
            )
