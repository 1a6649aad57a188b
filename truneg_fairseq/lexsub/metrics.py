"""The metrics of lexical substitution, as ratios of sums over targets.

GAP: Kishida's generalized average precision (2005), used for lexical substitution by Thater et al. (2010). F^10 with
its lenient and strict reading, for accepted and for conceivable substitutes: Lee et al., "Swords" (NAACL 2021).
P@1, P@3 and R@10: as Arefyev et al. (COLING 2020).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ..comparison.statistics import Interval

CUT = 10
"""Words that a model may give: the 10 of F^10 and R@10."""

SAMPLES = 10_000
_BLOCK = 500  # of them at once; all together they would take 80 kB a target, twice


@dataclass(frozen=True)
class Ratio:
    """A metric: the sum of its numerators over the sum of its denominators."""

    numerators: NDArray[np.float64]  # float64, shape (T,), of each target
    denominators: NDArray[np.float64]  # float64, shape (T,); 0 where the metric is not defined on a target

    @property
    def value(self) -> float:
        """In [0, 1]; 0 where no target has a say."""
        total = float(self.denominators.sum())
        return float(self.numerators.sum()) / total if total else 0.0

    @property
    def is_mean(self) -> bool:
        """Whether it is the mean of a score of every target."""
        return bool((self.denominators == 1).all())

    def interval(self, baseline: Ratio | None = None) -> Interval:
        """The value, or its difference to another of the same targets; 95 % bootstrap interval over targets."""
        counts = _resamples(len(self.numerators))
        values = self._resampled(counts)
        mean = self.value
        if baseline is not None:
            values = values - baseline._resampled(counts)
            mean -= baseline.value
        low, high = np.percentile(values, [2.5, 97.5])
        return Interval(mean, float(low), float(high))

    def _resampled(self, counts: NDArray[np.uint16]) -> NDArray[np.float64]:
        both = np.stack([self.numerators, self.denominators], axis=1)
        blocks = [counts[start : start + _BLOCK] @ both for start in range(0, SAMPLES, _BLOCK)]
        sums, totals = np.concatenate(blocks).T
        return np.divide(sums, totals, out=np.zeros_like(totals), where=totals > 0)


@lru_cache(maxsize=2)
def _resamples(targets: int) -> NDArray[np.uint16]:
    """How often each target is drawn, uint16, shape (SAMPLES, targets)."""
    random = np.random.default_rng(1)
    share = np.full(targets, 1 / targets)
    blocks = [random.multinomial(targets, share, size=_BLOCK).astype(np.uint16) for _ in range(0, SAMPLES, _BLOCK)]
    return np.concatenate(blocks)


def generalized_average_precision(gains: NDArray[np.float64]) -> float:
    """GAP of one target.

    Args:
        gains: float64, shape (C,), the votes (or shares) of the candidates in the model's order.

    Returns:
        sum_i I(x_i > 0) mean(x_1 .. x_i) over the same sum of the best order, in [0, 1]; NaN where no gain is positive.
    """
    best = _sum_of_means(np.sort(gains)[::-1])
    return _sum_of_means(gains) / best if best else float("nan")


def _sum_of_means(gains: NDArray[np.float64]) -> float:
    means = gains.cumsum() / np.arange(1, len(gains) + 1)
    return float(means[gains > 0].sum())


def f_parts(output: Sequence[int], gold: Collection[int]) -> tuple[float, float]:
    """What one target adds to numerator and denominator of F^10.

    Precision is the hits over the outputs and recall the hits over min(gold, 10), both of sums over the targets; so
    their harmonic mean is 2 hits / (outputs + min(gold, 10)).

    Args:
        output: the model's words, at most :data:`CUT`.
        gold: the right ones.
    """
    hits = sum(word in gold for word in output)
    return 2.0 * hits, float(len(output) + min(len(gold), CUT))


def precision_at(output: Sequence[int], gold: Collection[int], cut: int) -> float:
    """The share of the first words that are right; a model that gives fewer has the rest wrong."""
    return sum(word in gold for word in output[:cut]) / cut


def recall_parts(output: Sequence[int], gold: Collection[int]) -> tuple[float, float]:
    """What one target adds to numerator and denominator of R@10: nothing where no word is right."""
    return (sum(word in gold for word in output[:CUT]) / len(gold), 1.0) if gold else (0.0, 0.0)
