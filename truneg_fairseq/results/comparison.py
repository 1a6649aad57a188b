"""Models compared over seeds: what the paper's Tables 3 to 6 have, and how large their noise is.

A quantity of a table is a weighted sum of metrics: a task's metric, the average of the tasks, the drop by an attack. So
one rule serves all: runs with all parts count, and models are paired by seed (and by example where a quantity is of one
task and its scores by example are known).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import TrueNegError
from .intervals import Interval, seed_interval, seeds_to_tell
from .result import BITS, Result

GLUE = {
    **{"CoLA": "matthews", "SST-2": "accuracy", "MRPC": "accuracy", "STS-B": "spearman"},
    **{"QQP": "accuracy", "MNLI": "accuracy", "QNLI": "accuracy", "RTE": "accuracy"},
}
"""The tasks of Table 3 with the metric that it reports."""

SQUAD = {"SQuAD": "SQuAD 1.1", "SQuAD 2.0": "SQuAD 2.0"}
"""The tasks of ``truneg squad``, with the titles of their tables."""
_SQUAD_METRICS = {"exact_match": "EM", "f1": "F1"}

HELD_OUT = "held-out text"
"""The task of a masked LM's own measurements (``truneg inspect``)."""

GENERATED = "held-out text, generated"
"""The name of the task that is the loss of a causal LM or of a translation on held-out text."""

GENERATOR, DISCRIMINATOR = "ELECTRA generator", "ELECTRA discriminator"
"""The tasks of ELECTRA's own measurements (``--criterion electra``)."""

_PRE_TRAINING = {
    HELD_OUT: {"accuracy": "accuracy", "ece": "ECE", "hc_pred": "Pred.", "hc_iter": "Iter.", BITS: "bits"},
    GENERATED: {BITS: "bits"},
    GENERATOR: {"accuracy": "accuracy", BITS: "bits"},
    DISCRIMINATOR: {"accuracy": "accuracy", "precision": "precision", "recall": "recall", BITS: "bits"},
}
"""What is shown of pre-training's own tasks, with the headings."""

TABLE_2 = "False negatives over training (Table 2)"
CURVE = "Held-out loss over training"

_LEXSUB = {
    **{"gap": "GAP", "f10_lenient_accepted": "Fa lenient", "f10_lenient_conceivable": "Fc lenient"},
    **{"precision_at_1": "P@1", "recall_at_10": "R@10"},
}
"""What is shown of lexical substitution (``truneg lexsub``)."""

_CLOZE = {
    **{BITS: "bits", "said": "p(said)", "others": "p(others)", "common": "p(common)", "spearman": "Spearman"},
    **{"best_said": "best said", "best_10_said": "best 10 said"},
}
"""What is shown of cloze answers (``truneg cloze``)."""

SIMILARITY = "STS-B without training"
"""The task of ``truneg similarity``."""

_TRANSLATION = {"bleu": "BLEU", "chrf": "chrF"}
"""What is shown of a test set that was translated, the task ``translation NAME``."""

_PAIRS = "minimal pairs"
"""The task of ``truneg pairs``; those of single paradigms have their name behind it."""

CONFIDENCE = 0.95
_OF_A_SEED = {"seed", "command", "checkpoint", "checkpoint_sha256"}
"""Settings of a result that differ from seed to seed."""
_ROUNDING = 1e-12  # of fractions and bits
_AFTER = re.compile(re.escape(HELD_OUT) + r" after (\d+(?:\.\d+)?) %")


def held_out_after(share: float) -> str:
    """The task of measurements of a masked LM after a share of its updates, in (0, 1)."""
    return f"{HELD_OUT} after {100 * share:.4g} %"


class Part(NamedTuple):
    """A metric of a task with its weight."""

    task: str
    metric: str
    weight: float


@dataclass(frozen=True)
class Quantity:
    """A number that a table has of each model."""

    title: str  # as the heading of a column
    parts: tuple[Part, ...]  # it is their weighted sum

    @property
    def factor(self) -> float:
        """From values to what is shown: percent, or bits."""
        return 1.0 if any(part.metric == BITS for part in self.parts) else 100.0

    @property
    def digits(self) -> int:
        """Decimal places."""
        return 2 if self.factor > 1 else 3

    def shown(self, value: float, sign: str = "", digits: int | None = None) -> str:
        """A value, or a difference of values with the sign "+", as the tables have it."""
        return f"{self.factor * value:{sign}.{self.digits if digits is None else digits}f}"


@dataclass(frozen=True)
class Summary:
    """A quantity of one model over its seeds; fractions, not percent."""

    model: str
    quantity: Quantity
    values: dict[int, float]  # by seed
    difference: float | None = None  # to the baseline; None without a seed in common
    interval: Interval | None = None  # of the difference; None with fewer than two seeds in common
    pairs: int = 0  # number of seeds in common
    # at which such a difference would be told from 0; see :func:`~truneg_fairseq.results.intervals.seeds_to_tell`
    seeds_to_tell: int | None = None

    @property
    def mean(self) -> float:
        return float(np.mean(list(self.values.values())))

    @property
    def median(self) -> float:
        return float(np.median(list(self.values.values())))

    @property
    def deviation(self) -> float | None:
        """The sample standard deviation; None for one seed."""
        return float(np.std(list(self.values.values()), ddof=1)) if len(self.values) > 1 else None


class Comparison:
    """Results by model, in the order in which models first occur; no two of the same model, task and seed.

    The others are compared with ``baseline``, by default the first. ``together`` makes intervals so wide that those of
    all models hold at once, for any quantity (Bonferroni).
    """

    def __init__(self, results: Sequence[Result], baseline: str | None = None, *, together: bool = False) -> None:
        self.together = together
        self._runs: dict[tuple[str, str], dict[int, Result]] = {}
        self._summaries: dict[tuple[str, Quantity], Summary | None] = {}
        for result in results:
            self._runs.setdefault((result.model, result.task), {})[result.seed] = result
        self.models = list(dict.fromkeys(result.model for result in results))
        self.tasks = list(dict.fromkeys(result.task for result in results))
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

    @property
    def other_tasks(self) -> list[str]:
        """Tasks that the paper's tables do not have."""
        known = {part.task for quantities in self.groups.values() for quantity in quantities for part in quantity.parts}
        return [task for task in self.tasks if task not in known]

    @cached_property
    def attacks(self) -> list[str]:
        """The tasks that compare answers to original and to transformed questions."""
        found = {task for (_, task), runs in self._runs.items() for r in runs.values() if "transformed_f1" in r.metrics}
        return [task for task in self.tasks if task in found]

    @cached_property
    def groups(self) -> dict[str, list[Quantity]]:
        """The quantities of each of the paper's tables that there are results for, by its title."""
        found = {"GLUE": self._glue()}
        found |= {title: _metrics(task, _SQUAD_METRICS) for task, title in SQUAD.items() if task in self.tasks}
        found |= {task: _attack(task) for task in self.attacks}
        found[TABLE_2] = self._over_training()
        found[CURVE] = [
            quantity for share, task in self._held_out for quantity in _metrics(task, {BITS: f"bits {share:g} %"})
        ]
        found |= {task: _metrics(task, metrics) for task, metrics in _PRE_TRAINING.items() if task in self.tasks}
        found |= {
            task: _metrics(task, self._measured(task, _LEXSUB)) for task in self.tasks if task.startswith("lexsub ")
        }
        found |= {task: _metrics(task, self._measured(task, _CLOZE)) for task in self.tasks if task == "cloze"}
        found |= {task: _metrics(task, {BITS: "bits"}) for task in self.tasks if task == "cloze corpus word"}
        found |= {task: _metrics(task, _TRANSLATION) for task in self.tasks if task.startswith("translation ")}
        found |= {task: _metrics(task, {"spearman": "Spearman"}) for task in self.tasks if task == SIMILARITY}
        paradigms = [task for task in self.tasks if task == _PAIRS or task.startswith(f"{_PAIRS}, ")]
        found[_PAIRS] = [
            quantity
            for task in paradigms
            for quantity in _metrics(task, {"accuracy": task.removeprefix(f"{_PAIRS}, ")})
        ]
        return {title: quantities for title, quantities in found.items() if quantities}

    def _measured(self, task: str, titles: Mapping[str, str]) -> dict[str, str]:
        """The metrics that some run has. Not each file of words defines all of them."""
        runs = [run for (_, name), seeds in self._runs.items() if name == task for run in seeds.values()]
        return {metric: title for metric, title in titles.items() if any(metric in run.metrics for run in runs)}

    def _glue(self) -> list[Quantity]:
        """GLUE's tasks that there are results of, in Table 3's order, and the average of those that all models have."""
        tasks = [task for task in GLUE if task in self.tasks]
        models = {model for model, task in self._runs if task in tasks}
        common = [task for task in tasks if all((model, task) in self._runs for model in models)]
        columns = [quantity for task in tasks for quantity in _metrics(task, {GLUE[task]: task})]
        if len(common) < 2:
            return columns
        title = "Average" if len(common) == len(GLUE) else f"Average of {len(common)}"
        return [*columns, Quantity(title, tuple(Part(task, GLUE[task], 1 / len(common)) for task in common))]

    @property
    def _held_out(self) -> list[tuple[float, str]]:
        """Percentages of the training with the tasks that measured then, the last one too; [] with the last alone."""
        found = sorted((float(match[1]), task) for task in self.tasks if (match := _AFTER.fullmatch(task)))
        return [*found, (100.0, HELD_OUT)] if found and HELD_OUT in self.tasks else found

    def reached(self, model: str) -> list[float | None]:
        """After which percentage of its training each seed has the loss that the baseline has at the end of the same
        seed; None where it never has. Between two measurements the loss is taken to change evenly.
        """
        shares, quantities = [share for share, _ in self._held_out], self.groups[CURVE]
        curves = [self._values(model, quantity) for quantity in quantities]
        aims = self._values(self.baseline, quantities[-1])
        found: list[float | None] = []
        for seed in sorted(set.intersection(*map(set, curves)) & aims.keys()):
            losses = np.array([curve[seed] for curve in curves])
            below = np.flatnonzero(losses <= aims[seed])
            if not len(below):
                found.append(None)
            elif not below[0]:
                found.append(shares[0])
            else:
                before, after = below[0] - 1, below[0]
                part = (losses[before] - aims[seed]) / (losses[before] - losses[after])
                found.append(float(shares[before] + part * (shares[after] - shares[before])))
        return found

    def _over_training(self) -> list[Quantity]:
        """Table 2: the rates of false negatives after shares of the training, and how much they rise."""
        tasks = [task for _, task in self._held_out if task != HELD_OUT]
        quantities = []
        for metric, title in (("hc_iter", "Iter."), ("hc_pred", "Pred.")) if tasks else ():
            last = Part(HELD_OUT, metric, 1.0)
            for task in tasks:
                quantities += _metrics(task, {metric: f"{title} {task.removeprefix(HELD_OUT + ' after ')}"})
            quantities += [Quantity(f"{title} 100 %", (last,))]
            quantities += [Quantity(f"{title} rise", (last, Part(tasks[0], metric, -1.0)))]
        return quantities

    def records(self) -> Iterator[dict[str, Any]]:
        """Every number of the tables, JSON-able: fractions, values by seed, the difference with its interval."""
        for group, quantities in self.groups.items():
            for quantity in quantities:
                for model in self.models:
                    if (summary := self.summary(model, quantity)) is None:
                        continue
                    yield {
                        **{"table": group, "quantity": quantity.title, "model": model, "values": summary.values},
                        **{"mean": summary.mean, "median": summary.median, "deviation": summary.deviation},
                        **{"baseline": self.baseline, "difference": summary.difference, "pairs": summary.pairs},
                        "interval": None if summary.interval is None else summary.interval._asdict(),
                        "seeds_to_tell": summary.seeds_to_tell,
                    }

    def summary(self, model: str, quantity: Quantity) -> Summary | None:
        """A model's values of a quantity; None where it has none."""
        if (model, quantity) not in self._summaries:
            self._summaries[model, quantity] = self._summary(model, quantity)
        return self._summaries[model, quantity]

    def _summary(self, model: str, quantity: Quantity) -> Summary | None:
        values, base = self._values(model, quantity), self._values(self.baseline, quantity)
        seeds = sorted(values.keys() & base.keys())
        if model == self.baseline or not seeds:
            return Summary(model, quantity, values) if values else None
        single = _exact(np.array([values[seed] - base[seed] for seed in seeds]))
        by_example = self._by_example(model, quantity, seeds)
        others = [each for each in self.models if each != self.baseline and self._values(each, quantity)]
        confidence = 1 - (1 - CONFIDENCE) / (len(others) if self.together else 1)
        interval = seed_interval(single if by_example is None else by_example, confidence=confidence)
        needed = seeds_to_tell(single, confidence=CONFIDENCE)
        return Summary(model, quantity, values, float(np.mean(single)), interval, len(seeds), needed)

    def _values(self, model: str, quantity: Quantity) -> dict[int, float]:
        runs = [self._runs.get((model, part.task), {}) for part in quantity.parts]
        seeds = sorted(set.intersection(*(set(run) for run in runs)))
        if quantity.parts[0].task.startswith(("lexsub ", "cloze")):  # older lines may lack a metric, or newer ones
            seeds = [seed for seed in seeds if quantity.parts[0].metric in runs[0][seed].metrics]
        return {
            seed: sum(
                part.weight * _metric(run[seed], part.metric) for part, run in zip(quantity.parts, runs, strict=True)
            )
            for seed in seeds
        }

    def _by_example(self, model: str, quantity: Quantity, seeds: Sequence[int]) -> NDArray[np.float64] | None:
        """float64, shape (seeds, examples): differences to the baseline; None where they are not known."""
        parts, task = quantity.parts, quantity.parts[0].task
        runs = [self._runs[name, task][seed] for seed in seeds for name in (model, self.baseline)]
        if any(part.task != task or part.metric not in run.examples for part in parts for run in runs):
            return None
        scores = [
            np.sum([part.weight * np.asarray(run.examples[part.metric], np.float64) for part in parts], axis=0)
            for run in runs
        ]
        if len({(len(row), *run.example_ids) for row, run in zip(scores, runs, strict=True)}) > 1:
            raise TrueNegError(
                f"{model} and {self.baseline}, task {task}: scores of other examples; expected the same examples in "
                "the same order, for all seeds"
            )
        table = np.stack(scores)
        return _exact(table[::2] - table[1::2])


def _metrics(task: str, titles: Mapping[str, str]) -> list[Quantity]:
    """Metrics of a task with their titles."""
    return [Quantity(title, (Part(task, metric, 1.0),)) for metric, title in titles.items()]


def _attack(task: str) -> list[Quantity]:
    """Exact match and F1 of Table 5: before, after and the drop of each."""
    quantities = []
    for title, metric in (("EM", "exact_match"), ("F1", "f1")):
        before, after = f"original_{metric}", f"transformed_{metric}"
        quantities += _metrics(task, {before: f"{title} Ori.", after: f"{title} Trans."})
        quantities += [Quantity(f"{title} drop", (Part(task, before, 1.0), Part(task, after, -1.0)))]
    return quantities


def _exact(differences: NDArray[np.float64]) -> NDArray[np.float64]:
    """Without rounding errors alone, which would be told from 0 where all seeds have the same one."""
    return np.where(np.abs(differences) < _ROUNDING, 0.0, differences)


def _metric(run: Result, metric: str) -> float:
    if metric not in run.metrics:
        raise TrueNegError(
            f"{run.model}, task {run.task}, seed {run.seed}: has no metric {metric!r} but {', '.join(run.metrics)}; "
            "expected the paper's"
        )
    return run.metrics[metric]
