"""Models compared over seeds: what the paper's Tables 2 to 6 have, and how large their noise is.

A quantity of a table is a weighted sum of metrics: a task's metric, the average of tasks, a rise over the training.
Models are paired by seed, and by item where it is of one task whose items' scores are known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np

from ..errors import TrueNegError
from .intervals import CONFIDENCE, Floats, Interval, Ratio, p_value, ratio_of, seed_interval, seeds_needed
from .result import Metric, Result

ENOUGH_SEEDS = 3  # with fewer seeds in common, two that agree by chance would look like proof
_OF_A_SEED = {"seed", "command", "checkpoint", "checkpoint_sha256", "false_negatives", "pairs", "examples"}
"""What differs from seed to seed among a result's settings: the last three are what held-out text has shown."""
_ROUNDING = 1e-12  # of fractions and bits


class Part(NamedTuple):
    """A metric of a task with its weight."""

    task: str
    metric: str
    weight: float = 1.0


@dataclass(frozen=True)
class Quantity:
    """A number that a table has of each model."""

    title: str  # as the heading of a column
    parts: tuple[Part, ...]  # it is their weighted sum
    metric: Metric  # how it is shown

    @property
    def factor(self) -> float:
        """From values to what is shown."""
        return 100.0 if self.metric.unit == "%" else 1.0

    @property
    def unit(self) -> str:
        """Of a difference."""
        return "points" if self.metric.unit == "%" else self.metric.unit

    @property
    def digits(self) -> int:
        """Decimal places."""
        return 2 if self.factor > 1 else 3

    @property
    def heading(self) -> str:
        """The title with the direction of better values."""
        arrow = "" if self.metric.higher_is_better is None else "↓↑"[self.metric.higher_is_better]
        return f"{self.title} {arrow}".strip()

    def format(self, value: float, sign: str = "") -> str:
        """A value, or a difference of values with the sign "+", as the tables have it."""
        return f"{self.factor * value:{sign}.{self.digits}f}"

    def ends(self, interval: Interval, sign: str = "+") -> str:
        """The interval of a difference; with the sign "" of a value."""
        return f"[{self.format(interval.low, sign)}, {self.format(interval.high, sign)}]"


@dataclass
class Summary:
    """A quantity of one model over its seeds; fractions, not percent."""

    model: str
    quantity: Quantity
    values: dict[int, float]  # by seed
    # to the baseline: float64, shape (S,) by seed in common, or (S, N) by seed and item; None for the baseline itself
    differences: Floats | None = None
    confidence: float = CONFIDENCE  # of the interval
    enough_seeds: int = ENOUGH_SEEDS  # in common with the baseline to be evidence; 1 for intervals over items alone
    items: Interval | None = None  # of the value over items, where one seed is enough

    @property
    def mean(self) -> float:
        return float(np.mean(list(self.values.values())))

    @property
    def deviation(self) -> float | None:
        """The sample standard deviation; None for one seed."""
        return float(np.std(list(self.values.values()), ddof=1)) if len(self.values) > 1 else None

    @property
    def paired_seeds(self) -> int:
        """How many seeds it has in common with the baseline."""
        return 0 if self.differences is None else len(self.differences)

    @cached_property
    def by_seed(self) -> Floats:
        """The differences of the seeds in common, shape (S,)."""
        assert self.differences is not None
        return self.differences if self.differences.ndim == 1 else self.differences.mean(axis=1)

    @property
    def difference(self) -> float | None:
        return float(np.mean(self.by_seed)) if self.paired_seeds else None

    @cached_property
    def interval(self) -> Interval | None:
        """Of the difference; None with fewer than two seeds in common."""
        if self.differences is None or self.paired_seeds < min(2, self.enough_seeds):
            return None
        return seed_interval(self.differences, confidence=self.confidence)

    @property
    def p_value(self) -> float | None:
        """Of the difference; None where the seeds are no evidence."""
        return None if self.differences is None or self.paired_seeds < ENOUGH_SEEDS else p_value(self.differences)

    @cached_property
    def seeds_needed(self) -> int | None:
        return seeds_needed(self.by_seed) if self.paired_seeds else None

    @property
    def direction(self) -> int | None:
        """1 for a value that is higher than the baseline's, -1 for a lower one, 0 where the difference is not
        significant, None where the seeds are no evidence.
        """
        if self.interval is None or self.paired_seeds < self.enough_seeds:
            return None
        return 0 if self.interval.contains_zero else 1 if self.interval.mean > 0 else -1

    @property
    def better(self) -> bool | None:
        """Whether a significant difference is for the better; None where that is open, or has no meaning."""
        higher = self.quantity.metric.higher_is_better
        return None if not self.direction or higher is None else (self.direction > 0) == higher


class Comparison:
    """Results by model, in the order in which models first occur; the others are compared with ``baseline``, by default
    the first. ``corrected`` widens the intervals of each quantity for the number of models (Bonferroni). With
    ``over_items`` one seed is enough: intervals are over items alone. ``controls`` are models that needed no training,
    and ``notes`` say what else to know of the metrics.
    """

    def __init__(
        self,
        results: Sequence[Result],
        baseline: str | None = None,
        *,
        corrected: bool = False,
        over_items: bool = False,
        controls: Collection[str] = (),
        notes: Collection[str] = (),
    ) -> None:
        self.corrected, self.over_items, self.controls, self.notes = corrected, over_items, controls, notes
        self._runs: dict[tuple[str, str], dict[int, Result]] = {}
        self.summary = cache(self._summary)  # bound to the object, not to the class
        self.other_items: list[str] = []  # a line for each comparison that is over seeds alone as items differ
        for result in results:
            self._runs.setdefault((result.model, result.task), {})[result.seed] = result
        self.models = list(dict.fromkeys(result.model for result in results))
        self.baseline = self.models[0] if baseline is None else baseline
        if self.baseline not in self.models:
            raise TrueNegError(f"--baseline {baseline}: no results of it; expected one of {', '.join(self.models)}")

    @property
    def mixed(self) -> list[str]:
        """Models whose seeds of a task had different settings, with the names of these."""
        found = []
        for (model, task), runs in self._runs.items():
            names = dict.fromkeys(name for run in runs.values() for name in run.settings if name not in _OF_A_SEED)
            differing = [name for name in names if len({repr(run.settings.get(name)) for run in runs.values()}) > 1]
            if differing:
                found.append(f"{model}, {task}: {', '.join(differing)}")
        return found

    @cached_property
    def groups(self) -> dict[str, list[Quantity]]:
        """The quantities of each table that there are results for, by its title."""
        columns: dict[str, dict[tuple[str, str], Metric]] = {}
        when: dict[str, float] = {}
        for (_, task), runs in self._runs.items():
            for run in runs.values():
                group = columns.setdefault(run.group or task, {})
                shown = run.shown or {name: Metric(name, unit="") for name in run.metrics}
                group |= {(task, name): metric for name, metric in shown.items() if name in run.metrics}
                when |= {} if run.at is None else {task: run.at}
        made: dict[str, list[Quantity]] = {}
        for title, metrics in columns.items():
            at_end = {part: metric for part, metric in metrics.items() if part[0] not in when}
            found = [Quantity(metric.title, (Part(*part),), metric) for part, metric in at_end.items()]
            made[title] = [*found, *self._average(found)]
            if len(at_end) < len(metrics):
                made[f"{title} over training"] = list(_over_training(metrics, when))
        return {title: quantities for title, quantities in made.items() if quantities}

    def _average(self, quantities: Sequence[Quantity]) -> Iterator[Quantity]:
        """The mean over the tasks that all models with some of them have."""
        averaged = [each for each in quantities if each.metric.averaged]
        have = {model: {each for each in averaged if self._values(model, each)} for model in self.models}
        common = [each for each in averaged if all(each in found for found in have.values() if found)]
        if len(common) > 1:
            title = "Average" if len(common) == len(averaged) else f"Average of {len(common)}"
            parts = tuple(part._replace(weight=1 / len(common)) for each in common for part in each.parts)
            yield Quantity(title, parts, common[0].metric)

    def records(self) -> Iterator[dict[str, Any]]:
        """Every number of the tables, JSON-able: fractions, values by seed, the difference with its interval."""
        for group, quantities in self.groups.items():
            for summary in self.summaries(quantities):
                metric = summary.quantity.metric
                yield {
                    **{"table": group, "quantity": summary.quantity.title, "unit": metric.unit},
                    **{"higher_is_better": metric.higher_is_better, "model": summary.model},
                    **{"values": summary.values, "mean": summary.mean, "deviation": summary.deviation},
                    **{"baseline": self.baseline, "difference": summary.difference},
                    **{"paired_seeds": summary.paired_seeds, "p_value": summary.p_value},
                    "interval": None if summary.interval is None else summary.interval._asdict(),
                    "seeds_needed": summary.seeds_needed,
                }

    def summaries(self, quantities: Iterable[Quantity]) -> Iterator[Summary]:
        """The values of all models, quantity by quantity."""
        found = (self.summary(model, each) for each in quantities for model in self.models)
        return (summary for summary in found if summary is not None)

    def _summary(self, model: str, quantity: Quantity) -> Summary | None:
        """A model's values of a quantity; None where it has none."""
        values, base = self._values(model, quantity), self._values(self.baseline, quantity)
        seeds = sorted(values.keys() & base.keys())
        own = self._ratios(quantity, [model], list(values)) if self.over_items and len(values) == 1 else None
        items = own[0].interval() if own else None
        if model == self.baseline or not seeds:
            return Summary(model, quantity, values, items=items) if values else None
        if ratios := self._ratios(quantity, [model, self.baseline], seeds):
            defined = np.any([ratio.denominators > 0 for ratio in ratios], axis=0)
            by_item = np.stack([ratio.of(defined).influence for ratio in ratios])
            differences = by_item[::2] - by_item[1::2]
        else:
            differences = np.array([values[seed] - base[seed] for seed in seeds])
        # Without rounding errors alone, which would be significant where all seeds have the same one.
        exact = np.where(np.abs(differences) < _ROUNDING, 0.0, differences)
        others = sum(bool(self._values(each, quantity)) for each in self.models if each != self.baseline)
        confidence = 1 - (1 - CONFIDENCE) / (others if self.corrected else 1)
        return Summary(model, quantity, values, exact, confidence, 1 if self.over_items else ENOUGH_SEEDS, items)

    def _values(self, model: str, quantity: Quantity) -> dict[int, float]:
        runs = [self._runs.get((model, part.task), {}) for part in quantity.parts]
        found = {}
        for seed in sorted(set.intersection(*(set(run) for run in runs))):
            pairs = [(part, run[seed].metrics) for part, run in zip(quantity.parts, runs, strict=True)]
            if all(part.metric in metrics for part, metrics in pairs):
                found[seed] = sum(part.weight * metrics[part.metric] for part, metrics in pairs)
        return found

    def _ratios(self, quantity: Quantity, models: Sequence[str], seeds: Sequence[int]) -> list[Ratio] | None:
        """Of each seed those of the models, over the same items; None where these are not known of all."""
        if len(quantity.parts) > 1:
            return None
        ((task, metric, _),) = quantity.parts
        runs = [self._runs[name, task][seed] for seed in seeds for name in models]
        if any(metric not in run.examples for run in runs):
            return None
        if len({(len(run.examples[metric]), *run.example_ids) for run in runs}) > 1:
            self.other_items.append(f"{' and '.join(models)}, {task}, {quantity.title}")
            return None
        return [ratio_of(run, metric) for run in runs]


def _over_training(metrics: dict[tuple[str, str], Metric], when: dict[str, float]) -> Iterator[Quantity]:
    """Of each metric its values after shares of the training, the end too, and how much it rises."""
    for name, metric in {part[1]: metric for part, metric in metrics.items()}.items():
        parts = sorted((when.get(task, 100.0), task) for task, other in metrics if other == name)
        for at, task in parts:
            yield Quantity(f"{metric.title} {at:g} %", (Part(task, name),), metric)
        if len(parts) > 1:
            (_, first), (_, last) = parts[0], parts[-1]
            yield Quantity(f"{metric.title} rise", (Part(last, name), Part(first, name, -1.0)), metric)


def select(results: Sequence[Result], tasks: Sequence[str] = (), models: Sequence[str] = ()) -> list[Result]:
    """Some of the results, by patterns such as ``lexsub*``; models are in the order of their patterns."""
    found = [each for each in results if not tasks or any(fnmatchcase(each.task, pattern) for pattern in tasks)]
    for flag, patterns, names in (
        ("--tasks", tasks, dict.fromkeys(each.task for each in results)),
        ("--models", models, dict.fromkeys(each.model for each in results)),
    ):
        for pattern in patterns:
            if not any(fnmatchcase(name, pattern) for name in names):
                raise TrueNegError(f"{flag} {pattern}: no results of it; expected some of {', '.join(names)}")
    order = {name: None for pattern in models for name in names if fnmatchcase(name, pattern)}
    return [each for name in order for each in found if each.model == name] if models else found
