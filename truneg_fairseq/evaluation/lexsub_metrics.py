"""The metrics of lexical substitution, as ratios of sums over targets.

GAP: Kishida's generalized average precision (2005), used for lexical substitution by Thater et al. (2010). F^10 with
its lenient and strict reading, for accepted and for conceivable substitutes: Lee et al., "Swords" (NAACL 2021).
P@1, P@3 and R@10: as Arefyev et al. (COLING 2020).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

CUT = 10
"""Words that a model may give: the 10 of F^10 and R@10."""


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


def recall_parts(
    output: Sequence[int], gold: Collection[int], counted: Collection[int] | None = None
) -> tuple[float, float]:
    """What one target adds to numerator and denominator of R@10: nothing where no word is right.

    With ``counted`` only hits among these count, as a share of all right words.
    """
    hits = (word in gold and (counted is None or word in counted) for word in output[:CUT])
    return (sum(hits) / len(gold), 1.0) if gold else (0.0, 0.0)
