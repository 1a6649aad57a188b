"""Differences of scores with the intervals that their noise allows.

Runs are paired by seed, and by example where the scores of single examples are known. There are two sources of noise:
another set of examples, and another seed. An interval over seeds has both. An interval over the examples of one pair of
runs says nothing of other seeds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

SAMPLES = 10_000
POWER = 0.8
MOST_SEEDS = 10_000
_MOST_DRAWN = 1 << 22  # values of one block of resamples; 32 MB


class Interval(NamedTuple):
    """A mean difference with its confidence interval, from ``low`` to ``high``."""

    mean: float  # of the differences
    low: float
    high: float

    @property
    def holds_zero(self) -> bool:
        """Whether no difference at all is within the noise."""
        return self.low <= 0 <= self.high


def bootstrap_means(values: NDArray[np.float64], *, samples: int = SAMPLES, seed: int = 1) -> NDArray[np.float64]:
    """The means of resamples, float64 of shape (samples,), drawn with replacement from values of shape (N,), N >= 1."""
    rng = np.random.default_rng(seed)
    means = np.empty(samples)
    step = max(1, _MOST_DRAWN // len(values))
    for start in range(0, samples, step):
        drawn = rng.integers(len(values), size=(min(step, samples - start), len(values)))
        means[start : start + step] = values[drawn].mean(axis=1)
    return means


def example_interval(
    differences: NDArray[np.float64], *, confidence: float = 0.95, samples: int = SAMPLES, seed: int = 1
) -> Interval:
    """Percentile bootstrap over paired examples, for one pair of runs; ``differences`` has shape (N,)."""
    tail = 50 * (1 - confidence)
    low, high = np.percentile(bootstrap_means(differences, samples=samples, seed=seed), [tail, 100 - tail])
    return Interval(float(differences.mean()), float(low), float(high))


def ratio_interval(
    numerators: NDArray[np.float64],
    denominators: NDArray[np.float64],
    *,
    confidence: float = 0.95,
    samples: int = 2_000,
    seed: int = 1,
) -> Interval | None:
    """Percentile bootstrap of a ratio of sums, whose parts are resampled together: a rate over sequences.

    Both have shape (N,), a value for each sequence, say its corrections and its mistakes. Resamples whose denominator
    is 0 are left out. None where the denominators sum to 0 or there are fewer than two sequences.
    """
    if len(numerators) < 2 or denominators.sum() == 0:
        return None
    # The same seed and number of sequences draw the same sequences for both.
    above, below = (bootstrap_means(part, samples=samples, seed=seed) for part in (numerators, denominators))
    ratios = above[below > 0] / below[below > 0]
    tail = 50 * (1 - confidence)
    low, high = np.percentile(ratios, [tail, 100 - tail])
    return Interval(float(numerators.sum() / denominators.sum()), float(low), float(high))


def seed_interval(
    differences: NDArray[np.float64], *, confidence: float = 0.95, samples: int = SAMPLES, seed: int = 1
) -> Interval | None:
    """Bootstrap over seeds, and over examples where they are known, with Student's t for the few seeds there are.

    Percentiles of few seeds would be too narrow (of 3 seeds they hold the truth at most 3 times in 4). So the interval
    is the mean -/+ sqrt(t_S^2 V_S + t_N^2 V_N): V_S is the bootstrap's variance over seeds, times S / (S - 1) as the
    bootstrap's is too small by that, V_N the one over examples, and each t has the degrees of freedom of its own part.
    Such an interval holds the truth at least as often as announced (Banerjee, Sankhya 22, 1960); one t with the degrees
    of freedom of Welch and Satterthwaite does not, as two seeds that happen to agree make it trust the examples alone.
    Without examples this tends to the paired t interval; with them, what is peculiar to a seed and an example counts
    twice, which errs on the wide side.

    The differences have shape (S,), of the metric by seed, or (S, N), of N paired examples; the confidence is in
    (0, 1). None for a single seed, which tells nothing of the noise between seeds.
    """
    table = differences[:, None] if differences.ndim == 1 else differences
    seeds, examples = table.shape
    if seeds < 2:
        return None
    mean = float(table.mean())
    of_seeds = bootstrap_means(table.mean(axis=1), samples=samples, seed=seed).var() * seeds / (seeds - 1)
    of_examples = bootstrap_means(table.mean(axis=0), samples=samples, seed=seed).var() if examples > 1 else 0.0
    tail = (1 + confidence) / 2
    squared = stats.t.ppf(tail, seeds - 1) ** 2 * of_seeds
    if of_examples:
        squared += stats.t.ppf(tail, examples - 1) ** 2 * of_examples
    reach = float(np.sqrt(squared))
    return Interval(mean, mean - reach, mean + reach)


def seeds_to_tell(differences: NDArray[np.float64], *, confidence: float = 0.95, power: float = POWER) -> int | None:
    """How many seeds tell a difference from 0, if the mean and the standard deviation found are the true ones.

    The smallest number at which a two-sided paired t test finds it with the wanted power (noncentral t distribution).
    The examples are taken as they are: another set of them is another source of noise. ``differences`` has shape (S,),
    a seed each; ``confidence`` is 1 - the test's level. The result is 2 to :data:`MOST_SEEDS`; None where more would
    be needed, or a single seed leaves it open.
    """
    mean = abs(float(np.mean(differences)))
    if len(differences) < 2 or mean == 0:
        return None
    spread = float(np.std(differences, ddof=1)) / mean
    tail = (1 + confidence) / 2
    # A t test needs at least as many as a test with the normal distribution.
    least = (spread * (stats.norm.ppf(tail) + stats.norm.ppf(power))) ** 2
    if least > MOST_SEEDS:
        return None
    if spread < 1e-3:  # two tell it for certain; for a spread of rounding errors scipy's noncentral t is NaN
        return 2
    for seeds in range(max(2, int(least)), MOST_SEEDS + 1):
        threshold, noncentrality = stats.t.ppf(tail, seeds - 1), seeds**0.5 / spread
        if stats.nct.sf(threshold, seeds - 1, noncentrality) >= power:
            return seeds
    return None
