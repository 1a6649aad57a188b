"""What a yardstick is, which there are, and the one runner: models, one after the other, on all that is asked for.

A new yardstick is a file with a subclass of :class:`Yardstick` and its line in :data:`YARDSTICKS`.
"""

from __future__ import annotations

import gc
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

from ..errors import TrueNegError
from ..results.comparison import Quantity
from ..results.intervals import Interval, Ratio, ratios_as_fields
from ..results.result import Metric, NamedModel, Result
from ..results.tables import Table
from ..synonyms.table import SynonymTable
from .models import OpenedModel, OpeningOptions, load_table
from .scorer import Scorer, Tokens

YARDSTICKS = {
    "held-out": "held_out.HeldOut",
    "lexsub": "lexsub.Lexsub",
    "cloze": "cloze.Cloze",
    "blimp": "minimal_pairs.Blimp",
    "zorro": "minimal_pairs.Zorro",
    "sts": "similarity.Similarity",
    "reading": "reading.Reading",
}
"""By the names of ``--task``: module and class."""

_BOUNDS = ("ceiling", "people", "half of the people")  # controls that a model is not meant to reach
_MOST_NAMED = 2  # metrics in the verdict


@dataclass(frozen=True)
class Task:
    """A yardstick and its files."""

    name: str  # of :data:`YARDSTICKS`
    files: tuple[str, ...]  # or folders; of held-out text the name of a split
    synonym_table: Path | None = None  # what is a false negative, or what is reported apart
    mask_seed: int | None = None  # of held-out text; None for that of the training, or 1
    batch_size: int = 32  # of held-out text, sequences
    limit: int | None = None  # minimal pairs of each paradigm

    @property
    def paths(self) -> list[Path]:
        return [Path(file) for file in self.files]


class Scores(NamedTuple):
    """What a model scores on one task of result files."""

    ratios: dict[str, Ratio]  # by metric
    items: Sequence[str] = ()  # the names of what numerators and denominators are of
    facts: Mapping[str, Any] = MappingProxyType({})  # what else to keep of it, JSON-able


class Yardstick(ABC):
    """Items that models are scored on; ``last`` is the last of the models, not yet built."""

    metrics: ClassVar[Mapping[str, Metric]]  # by name, in the order in which they are shown
    notes: ClassVar[str] = ""  # what to know of them, for the end of the table
    across_tokens: ClassVar[bool] = False  # whether models with different vocabularies compare
    reads_causal: ClassVar[bool] = False  # whether a causal LM can be measured
    group: ClassVar[str] = ""
    """The task whose table has all of its tasks ``GROUP, NAME`` as columns; "" for tables of their own."""
    sha256: str = ""  # of the files, hexadecimal
    described: str = ""  # how much of the files is measured

    def __init__(self, task: Task, tokens: Tokens, last: OpenedModel) -> None:
        if tokens.mask is None and not self.reads_causal:
            raise TrueNegError(f"{last.path}: its tokenizer has no mask; expected a masked LM for --task {task.name}")
        self._task, self._tokens, self._last = task, tokens, last

    def _require(self, items: Sequence[Any], expected: str) -> None:
        if not items:
            raise TrueNegError(f"{', '.join(self._task.files)}: nothing to measure the model on; expected {expected}")

    def _load_table(self) -> SynonymTable | None:
        """That of the task."""
        path, dictionary = self._task.synonym_table, self._tokens.folder or self._last.path
        return None if path is None else load_table(path, self._tokens, dictionary)

    @abstractmethod
    def score(self, scorer: Scorer) -> dict[str, Scores]:
        """By the tasks of result files."""

    def is_shown(self, task: str) -> bool:
        """Whether a person sees the task; result files have all."""
        return True

    def shown(self, task: str) -> Mapping[str, Metric]:
        """How the metrics of a task are shown."""
        return self.metrics

    def controls(self, scorer: Scorer) -> dict[str, dict[str, Scores]]:
        """By name, what needs no training of the model, on the tasks that are shown."""
        return {}


class Measured(NamedTuple):
    """One model on one yardstick."""

    model: NamedModel
    yardstick: Yardstick
    scores: dict[str, Scores]
    controls: Mapping[str, dict[str, Scores]] = MappingProxyType({})

    def results(self) -> list[Result]:
        """Lines of a result file."""
        return [
            Result(
                model=self.model.name,
                task=task,
                seed=self.model.seed,
                shown={name: self._shown(task, name) for name, ratio in scores.ratios.items() if ratio.items},
                group=self.yardstick.group,
                example_ids=list(scores.items),
                settings={"sha256": self.yardstick.sha256, "checkpoint": str(self.model.path), **scores.facts},
                **ratios_as_fields(scores.ratios),
            )
            for task, scores in self.scores.items()
        ]

    def _shown(self, task: str, name: str) -> Metric:
        metric, column = self.yardstick.shown(task)[name], task.removeprefix(f"{self.yardstick.group}, ")
        return metric if column == task else replace(metric, title=column)


def parse_tasks(arguments: Sequence[str], **settings: Any) -> list[Task]:
    """The tasks of a command line, each ``NAME=FILE``; a name that is given twice has both files."""
    files: dict[str, list[str]] = {}
    for argument in arguments:
        name, _, file = argument.partition("=")
        if name not in YARDSTICKS or not file:
            raise TrueNegError(f"--task {argument}: expected NAME=FILE, with a name of {', '.join(YARDSTICKS)}")
        files.setdefault(name, []).append(file)
    return [Task(name, tuple(found), **settings) for name, found in files.items()]


def evaluate(
    models: Sequence[NamedModel],
    tasks: Sequence[Task],
    options: OpeningOptions,
    *,
    with_controls: bool = False,
    say: Callable[[str], None] = lambda text: None,
) -> Iterator[Measured]:
    """Measures every model on every task; each checkpoint is read once, and one model at a time is in memory.

    Their :meth:`Measured.results` are lines of a result file. Controls are computed beside the first model alone.
    """
    opened = [OpenedModel(model.path, options) for model in models]
    yardsticks: dict[str, list[Yardstick]] = {}
    for number, (model, each) in enumerate(zip(models, opened, strict=True)):
        tokens = each.tokens()
        vocabulary = tokens.vocabulary.fingerprint
        if vocabulary not in yardsticks:
            paths = [YARDSTICKS[task.name].partition(".") for task in tasks]
            kinds = [getattr(import_module(f".{module}", __package__), name) for module, _, name in paths]
            if yardsticks and not all(kind.across_tokens for kind in kinds):
                raise TrueNegError(
                    f"{model.path}: has other tokens than {models[0].path}; measure it in a command of its own, and "
                    "compare the --results"
                )
            yardsticks[vocabulary] = [kind(task, tokens, opened[-1]) for kind, task in zip(kinds, tasks, strict=True)]
            for yardstick in yardsticks[vocabulary]:
                say(yardstick.described)
        scorer = each.scorer(tokens, counts=model.counts)
        for yardstick in yardsticks[vocabulary]:
            scores = yardstick.score(scorer)
            yield Measured(model, yardstick, scores, yardstick.controls(scorer) if with_controls and not number else {})
        del scorer
        gc.collect()  # before the next one is built: on a GPU two may not fit


class Cell(NamedTuple):
    """A metric of a model, or of a control, on one task."""

    task: str
    shown: Quantity
    owner: str  # the model, or the control
    is_control: bool
    ratio: Ratio
    difference: Interval | None  # to the first model on the same items

    @property
    def name(self) -> str:
        """In a sentence."""
        return f"{self.shown.title} ({self.task})"


def cells_of(found: Sequence[Measured]) -> list[Cell]:
    """What a person sees, by yardstick, task and metric, then models, the first one first, before controls."""
    made, seeds = [], {each.model.seed for each in found}
    for first in (each for each in found if each.model == found[0].model):
        alike = [each for each in found if type(each.yardstick) is type(first.yardstick)]
        names = [f"{each.model.name} {each.model.seed}" if len(seeds) > 1 else each.model.name for each in alike]
        owners = [(name, each.scores, False) for name, each in zip(names, alike, strict=True)]
        owners += [(name, scores, True) for name, scores in first.controls.items()]
        for task in filter(first.yardstick.is_shown, first.scores):
            for metric, shown in first.yardstick.shown(task).items():
                base = first.scores[task].ratios.get(metric)
                for number, (owner, scores, is_control) in enumerate(owners):
                    ratio = scores[task].ratios.get(metric) if task in scores else None
                    if ratio is None or not ratio.items or not math.isfinite(ratio.value):
                        continue
                    paired = number and not is_control and base and len(base.numerators) == len(ratio.numerators)
                    difference = ratio.interval(base) if paired else None
                    quantity = Quantity(shown.title, (), shown)
                    made.append(Cell(task, quantity, owner, is_control, ratio, difference))
    return made


def table(cells: Sequence[Cell]) -> Table:
    """Values and differences to the first model, with their intervals; controls have values alone."""
    rows, last = [], ""
    compares = len({cell.owner for cell in cells if not cell.is_control}) > 1
    for cell in cells:
        title, shown, difference = f"{cell.task}: {cell.shown.heading}".rstrip(), cell.shown, cell.difference
        of_value = None if cell.is_control else cell.ratio.interval()
        row = [shown.format(cell.ratio.value), "" if of_value is None else shown.ends(of_value, "")]
        if compares and difference is None:
            row += ["", "", ""]
        elif compares and difference is not None:
            row += [shown.format(difference.mean, "+"), shown.ends(difference), "~" * difference.contains_zero]
        rows.append((title if title != last else "", cell.owner, *row))
        last = title
    differences = [f"Δ {cells[0].owner}", "95 % interval", ""] if compares else []
    return Table("Evaluation", ("", "", "value", "95 % interval", *differences), tuple(rows))


def verdict(cells: Sequence[Cell]) -> str:
    """What the table says, in one sentence."""
    first, parts = cells[0].owner, []
    for other in dict.fromkeys(cell.owner for cell in cells if not cell.is_control and cell.owner != first):
        names: dict[str, list[str]] = {"better": [], "worse": [], "": []}
        for cell in cells:
            higher = cell.shown.metric.higher_is_better
            if cell.owner == other and cell.difference is not None and higher is not None:
                word = "better" if (cell.difference.mean > 0) == higher else "worse"
                names["" if cell.difference.contains_zero else word].append(cell.name)
        open_ = len(names.pop(""))
        said = [f"{word} in {_some(each)}" for word, each in names.items() if each]
        said += [f"not significantly different in {open_} metric{'s' * (open_ > 1)}"] if open_ else []
        parts.append(f"{other} against {first}: {'; '.join(said) or 'nothing to compare'}")
    if parts:
        return " | ".join(parts) + "."
    values = {cell.name: cell.ratio.value for cell in cells if cell.owner == first}
    beaten = dict[str, list[str]]()
    for cell in cells:
        higher, mine, value = cell.shown.metric.higher_is_better, values.get(cell.name), cell.ratio.value
        if not cell.is_control or cell.owner in _BOUNDS or mine in (None, value) or higher is None:
            continue
        if (value > mine) == higher:
            beaten.setdefault(cell.name, []).append(cell.owner)
    if not beaten:
        return f"{first}: no control is better."
    named = [f"{name} by {' and '.join(owners)}" for name, owners in beaten.items()]
    return f"{first}: better without training in {_some(named)}."


def _some(names: Sequence[str]) -> str:
    """How many, and the two most important ones."""
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"{len(names)} metric{'s' * (len(names) > 1)}: {', '.join(names[:_MOST_NAMED])}{more}"
