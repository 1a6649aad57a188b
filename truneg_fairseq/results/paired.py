"""Models measured on the same items: metrics as ratios of sums over items, with paired bootstrap intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .intervals import Interval
from .tables import WITHIN_NOISE, Table

SAMPLES = 10_000
_BLOCK = 500  # of them at once; all together they would take 80 kB an item, twice


@dataclass(frozen=True)
class Ratio:
    """A metric: the sum of its numerators over the sum of its denominators."""

    numerators: NDArray[np.float64]  # float64, shape (T,), of each item
    denominators: NDArray[np.float64]  # float64, shape (T,); 0 where the metric is not defined on an item

    @property
    def value(self) -> float:
        """0 where no item has a say."""
        total = float(self.denominators.sum())
        return float(self.numerators.sum()) / total if total else 0.0

    @property
    def is_mean(self) -> bool:
        """Whether it is the mean of a score of every item."""
        return bool((self.denominators == 1).all())

    @property
    def items(self) -> int:
        """How many items the metric is defined on."""
        return int((self.denominators > 0).sum())

    def of(self, chosen: NDArray[np.bool_]) -> Ratio:
        """The same metric of some items alone; ``chosen`` has the shape (T,)."""
        return Ratio(self.numerators[chosen], self.denominators[chosen])

    def interval(self, baseline: Ratio | None = None) -> Interval:
        """The value, or its difference to another of the same items; 95 % bootstrap interval over items."""
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


@lru_cache(maxsize=4)
def _resamples(items: int) -> NDArray[np.uint16]:
    """How often each item is drawn, uint16, shape (SAMPLES, items)."""
    random = np.random.default_rng(1)
    share = np.full(items, 1 / max(1, items))
    blocks = [random.multinomial(items, share, size=_BLOCK).astype(np.uint16) for _ in range(0, SAMPLES, _BLOCK)]
    return np.concatenate(blocks)


class Column(NamedTuple):
    """How a metric is shown."""

    name: str  # of the metric
    title: str
    factor: float = 100.0  # from the value to what is shown
    digits: int = 2


def value_table(
    title: str, scores: Mapping[str, Mapping[str, Ratio]], columns: Sequence[Column], *, items: str
) -> Table:
    """The metrics of models by name, and in the last row how many ``items`` are behind each metric."""
    rows = [(name, *(_shown(found.get(each.name), each) for each in columns)) for name, found in scores.items()]
    first = next(iter(scores.values()))
    counted = [str(first[each.name].items) if each.name in first else "-" for each in columns]
    return Table(title, ("", *(each.title for each in columns)), (*rows, (f"({items})", *counted)))


def difference_table(title: str, scores: Mapping[str, Mapping[str, Ratio]], columns: Sequence[Column]) -> Table:
    """The differences of models to the first one, a row for each metric that they have."""
    (_, baseline), *others = scores.items()
    rows = [
        (
            each.title,
            *(
                shown_interval(found[each.name].interval(baseline[each.name]), each) if each.name in found else "-"
                for _, found in others
            ),
        )
        for each in columns
    ]
    return Table(title, ("", *(name for name, _ in others)), tuple(rows))


def interval_table(title: str, scores: Mapping[str, Mapping[str, Ratio]], columns: Sequence[Column]) -> Table:
    """The metrics of models with their intervals, a row for each metric that the first has."""
    first = next(iter(scores.values()))
    rows = [
        (each.title, *(_with_interval(found[each.name].interval(), each) for found in scores.values()))
        for each in columns
        if each.name in first and first[each.name].items
    ]
    return Table(title, ("", *scores), tuple(rows))


def _with_interval(interval: Interval, column: Column) -> str:
    mean, low, high = (f"{column.factor * value:.{column.digits}f}" for value in interval)
    return f"{mean} [{low}, {high}]"


def _shown(ratio: Ratio | None, column: Column) -> str:
    return (
        "-"
        if ratio is None or not ratio.items or not np.isfinite(ratio.value)
        else f"{column.factor * ratio.value:.{column.digits}f}"
    )


def shown_interval(interval: Interval, column: Column) -> str:
    """A difference with its interval, and a mark where the interval holds 0."""
    mark = f" {WITHIN_NOISE}" if interval.holds_zero else ""
    mean, low, high = (f"{column.factor * value:+.{column.digits}f}" for value in interval)
    return f"{mean} [{low}, {high}]{mark}"
