"""Differences of scores with the intervals that their noise allows, of which there are two sources: another set of
items, and another seed. An interval over seeds has both; one over the items of a pair of runs says nothing of other
seeds.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

from .result import Result

Floats = NDArray[np.float64]

CONFIDENCE = 0.95
POWER = 0.8
MOST_SEEDS = 10_000


class Interval(NamedTuple):
    """A value with its confidence interval, from ``low`` to ``high``."""

    mean: float  # the value
    low: float
    high: float

    @property
    def contains_zero(self) -> bool:
        """Whether a difference is not significant."""
        return self.low <= 0 <= self.high


@dataclass(frozen=True)
class Ratio:
    """A metric: the sum of its numerators over the sum of its denominators."""

    numerators: Floats  # float64, shape (N,), of each item
    denominators: Floats  # float64, shape (N,); 0 where the metric is not defined on an item

    @property
    def value(self) -> float:
        """0 where the metric is defined on no item."""
        total = float(self.denominators.sum())
        return float(self.numerators.sum()) / total if total else 0.0

    @property
    def items(self) -> int:
        """How many items the metric is defined on."""
        return int((self.denominators > 0).sum())

    @property
    def influence(self) -> Floats:
        """float64, shape (N,): values whose mean is the ratio, and whose variance over N is that of the ratio over
        items (the delta method).
        """
        return self.value + (self.numerators - self.value * self.denominators) / (self.denominators.mean() or 1.0)

    def of(self, chosen: NDArray[np.bool_]) -> Ratio:
        """The same metric of some items alone; ``chosen`` has the shape (N,)."""
        return Ratio(self.numerators[chosen], self.denominators[chosen])

    def interval(self) -> Interval | None:
        """Student's t interval over items; None for fewer than two that the metric is defined on.

        That of a share, with numerators from 0 to their denominators, stays between 0 and 1, and is no point where all
        items are right: Clopper and Pearson's for the binomial number of items that would have this variance, smaller
        by (z / t)^2 (Korn and Graubard, Survey Methodology 24, 1998).
        """
        defined = self.of(self.denominators > 0)
        items, share, level = defined.items, self.value, (1 - CONFIDENCE) / 2
        if items < 2:
            return None
        if (self.numerators < 0).any() or (self.numerators > self.denominators).any():
            return seed_interval(defined.influence[None])
        variance = float(defined.influence.var(ddof=1)) / items
        if variance == 0 and 0 < share < 1:
            return Interval(share, share, share)
        size = share * (1 - share) / variance if variance else items
        size *= float(stats.norm.isf(level) / stats.t.isf(level, items - 1)) ** 2
        low = stats.beta.ppf(level, share * size, (1 - share) * size + 1) if share > 0 else 0.0
        high = stats.beta.isf(level, share * size + 1, (1 - share) * size) if share < 1 else 1.0
        return Interval(share, float(low), float(high))


def ratios_as_fields(ratios: Mapping[str, Ratio]) -> dict[str, Any]:
    """The fields ``metrics``, ``examples`` and ``denominators`` of a :class:`~.result.Result`: all that an interval
    needs. Metrics that are defined on no item are left out.
    """
    known = {name: ratio for name, ratio in ratios.items() if ratio.items}
    parts = {name: ratio.denominators for name, ratio in known.items() if not (ratio.denominators == 1).all()}
    return {
        "metrics": {name: ratio.value for name, ratio in known.items()},
        "examples": {name: ratio.numerators.tolist() for name, ratio in known.items()},
        "denominators": {name: denominators.tolist() for name, denominators in parts.items()},
    }


def ratio_of(result: Result, metric: str) -> Ratio:
    """A metric over the items of a result, as :func:`ratios_as_fields` has written it."""
    numerators = np.array(result.examples[metric], np.float64)
    return Ratio(numerators, np.array(result.denominators.get(metric, np.ones(len(numerators))), np.float64))


_Noise = list[tuple[int, float]]  # the variances of a mean difference, each with its degrees of freedom


def _noise(differences: Floats) -> _Noise:
    table = differences[:, None] if differences.ndim == 1 else differences
    seeds, items = table.shape
    parts = [(seeds - 1, float(table.mean(axis=1).var(ddof=1)) / seeds)] if seeds > 1 else []
    if items > 1 and (of_items := float(table.mean(axis=0).var(ddof=1)) / items):
        parts.append((items - 1, of_items))
    return parts


def _reach(noise: _Noise, level: float) -> float:
    """From the mean to each end of the interval of confidence 1 - level."""
    return float(np.sqrt(sum(stats.t.ppf(1 - level / 2, degrees) ** 2 * variance for degrees, variance in noise)))


def seed_interval(differences: Floats, *, confidence: float = CONFIDENCE) -> Interval | None:
    """Student's t interval over seeds, and over items where they are known.

    The mean -/+ sqrt(t_S^2 V_S + t_N^2 V_N), with the variances of the mean over S seeds and over N items, each t with
    its own degrees of freedom: it holds the truth at least as often as stated (Banerjee, Sankhya 22, 1960). One t as of
    Welch and Satterthwaite does not: two seeds that happen to agree make it trust the items alone. The
    seed-by-item interaction counts twice: conservative. The differences have the shape (S,) or (S, N); those of a
    single seed have an interval over the items alone, or None.
    """
    if len(differences) < 2 and differences.size < 2:
        return None
    mean, reach = float(differences.mean()), _reach(_noise(differences), 1 - confidence)
    return Interval(mean, mean - reach, mean + reach)


def p_value(differences: Floats) -> float:
    """The level at which :func:`seed_interval` begins to contain 0, in [0, 1]; at least two seeds."""
    mean, noise, least = abs(float(differences.mean())), _noise(differences), 1e-15
    if mean == 0:
        return 1.0
    if _reach(noise, least) <= mean:
        return 0.0
    return float(optimize.brentq(lambda level: _reach(noise, level) - mean, least, 1.0))


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """p-values corrected for their number, by name (Holm, Scandinavian Journal of Statistics 6, 1979)."""
    corrected, largest = dict[str, float](), 0.0
    for rank, name in enumerate(sorted(p_values, key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[name]))
        corrected[name] = largest
    return corrected


def seeds_needed(differences: Floats) -> int | None:
    """How many seeds a two-sided paired t test needs to find a difference with the wanted power, if the mean and the
    standard deviation of the differences, shape (S,), are the true ones: 2 to :data:`MOST_SEEDS`, else None. The items
    are taken as they are.
    """
    mean = abs(float(np.mean(differences)))
    if len(differences) < 2 or mean == 0:
        return None
    spread = max(float(np.std(differences, ddof=1)) / mean, 1e-3)  # of rounding errors scipy's noncentral t is NaN
    seeds = range(2, MOST_SEEDS + 1)

    def power(number: int) -> float:
        return float(stats.nct.sf(stats.t.ppf((1 + CONFIDENCE) / 2, number - 1), number - 1, number**0.5 / spread))

    place = bisect_left(seeds, POWER, key=power)
    return seeds[place] if place < len(seeds) else None
