"""Differences of scores with the intervals that their noise allows.

Runs are paired by seed and, where the scores of single examples are known, by example. Two sources of noise are told
apart: another set of examples, and another seed. An interval over seeds has to know both; one over the examples of a
single pair of runs says nothing of other seeds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

SAMPLES = 10_000
_MOST_DRAWN = 1 << 22  # examples of one block of resamples; 32 MB


class Interval(NamedTuple):
    """A mean difference with its confidence interval.

    Attributes:
        mean: of the differences.
        low, high: ends of the interval.
    """

    mean: float
    low: float
    high: float

    @property
    def holds_zero(self) -> bool:
        """Whether no difference at all is within the noise."""
        return self.low <= 0 <= self.high


def example_interval(
    differences: NDArray[np.float64], *, confidence: float = 0.95, samples: int = SAMPLES, seed: int = 1
) -> Interval:
    """Percentile bootstrap over examples, for one pair of runs.

    Args:
        differences: float64, shape (N,): of paired examples.
        confidence: of the interval, in (0, 1).
        samples: resamples.
        seed: of the resamples.
    """
    means = _means(differences[None, :], np.random.default_rng(seed), samples, resample_rows=False)
    tail = 50 * (1 - confidence)
    low, high = np.percentile(means, [tail, 100 - tail])
    return Interval(float(differences.mean()), float(low), float(high))


def seed_interval(
    differences: NDArray[np.float64], *, confidence: float = 0.95, samples: int = SAMPLES, seed: int = 1
) -> Interval | None:
    """Bootstrap over seeds, and over examples where they are known; with Student's t for the few seeds there are.

    Seeds and examples are resampled independently of each other (every seed saw the same examples), which errs on the
    wide side. Percentiles of so few seeds would be too narrow (of 3 seeds they hold the truth at most 3 times in 4),
    so the interval is the mean -/+ t x the bootstrap's standard error, t with S - 1 degrees of freedom, the standard
    error corrected by sqrt(S / (S - 1)); without examples this tends to the paired t interval.

    Args:
        differences: float64, shape (S,): of the metric, a seed each; or (S, N): of N paired examples.
        confidence: of the interval, in (0, 1).
        samples: resamples.
        seed: of the resamples.

    Returns:
        None for a single seed, which tells nothing of the noise between seeds.
    """
    table = differences[:, None] if differences.ndim == 1 else differences
    count = len(table)
    if count < 2:
        return None
    means = _means(table, np.random.default_rng(seed), samples, resample_rows=True)
    error = float(means.std()) * np.sqrt(count / (count - 1))
    reach = float(stats.t.ppf((1 + confidence) / 2, count - 1) * error)
    mean = float(table.mean())
    return Interval(mean, mean - reach, mean + reach)


def _means(
    table: NDArray[np.float64], rng: np.random.Generator, samples: int, *, resample_rows: bool
) -> NDArray[np.float64]:
    """float64, shape (samples,): the mean of a table (S, N) whose rows and columns are drawn with replacement."""
    rows, columns = table.shape
    means = np.empty(samples)
    step = max(1, _MOST_DRAWN // columns)
    for start in range(0, samples, step):
        size = min(step, samples - start)
        if resample_rows:
            of_columns = rng.multinomial(rows, np.full(rows, 1 / rows), size=size) / rows @ table
        else:
            of_columns = np.broadcast_to(table.mean(axis=0), (size, columns))
        drawn = rng.integers(columns, size=(size, columns))
        means[start : start + size] = np.take_along_axis(of_columns, drawn, axis=1).mean(axis=1)
    return means
