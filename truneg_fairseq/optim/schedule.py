"""ELECTRA's learning-rate schedule."""

from __future__ import annotations


def electra_linear(finished: int, total: int, warmup: float) -> float:
    """Linear decay times linear warm-up (ELECTRA's released code), as a share of the peak learning rate.

    Both factors act at once: the largest value is 1 - warmup / total, at ``finished`` = warmup, and not 1. The first
    update (0 finished) of a run with warm-up has the rate 0, the last one (total - 1 finished) 1 / total. All three are
    numbers of updates: those that are done, those of the run (> 0; the rate is 0 from there on), and those of the
    warm-up, not necessarily whole (0 for none).
    """
    decay = max(0.0, 1 - finished / total)
    return decay * min(1.0, finished / warmup) if warmup else decay
