"""What a yardstick is, and the one runner: models, one after the other, on all that is asked for.

A new yardstick is a subclass of :class:`Yardstick` under :func:`truneg_fairseq.register_yardstick`.
"""

from __future__ import annotations

import gc
import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import numpy as np
from torch import Tensor

from ..corpus_counts import DEFAULT_SHARE, FIT, CountsShare
from ..errors import TrueNegError
from ..files import LARGEST_JSON, read_bytes
from ..registry import YARDSTICKS
from ..results.comparison import Comparison
from ..results.intervals import Ratio, ratios_as_fields
from ..results.result import Metric, NamedModel, Result
from ..synonyms.table import SynonymTable
from .models import OpenedModel, OpeningOptions, load_table, require_mask
from .scorer import Scorer, Tokens


@dataclass(frozen=True)
class Task:
    """A yardstick and its files."""

    name: str  # of a yardstick
    files: tuple[str, ...]  # or folders; of held-out text the name of a split
    synonym_table: Path | None = None  # what is a false negative, or what is reported apart
    mask_seed: int | None = None  # of held-out text; None for that of the training, or 1
    batch_size: int = 32  # of held-out text, sequences
    limit: int | None = None  # minimal pairs of each paradigm
    fits: bool = False  # every fourth sample of held-out text chooses the share of counts, and is not judged

    @property
    def paths(self) -> list[Path]:
        return [Path(file) for file in self.files]


class Scores(NamedTuple):
    """What a model scores on one task of result files."""

    ratios: dict[str, Ratio]  # by metric
    items: Sequence[str] = ()  # the names of what numerators and denominators are of
    facts: Mapping[str, Any] = MappingProxyType({})  # what else to keep of it, JSON-able


def ratios_of(items: Sequence[Mapping[str, tuple[float, float]]], metrics: Iterable[str]) -> dict[str, Ratio]:
    """The metrics of what each item adds to their numerators and denominators, nothing where it lacks one."""
    parts = {name: np.array([each.get(name, (0, 0)) for each in items], dtype=np.float64).T for name in metrics}
    return {name: Ratio(*part.copy()) for name, part in parts.items()}


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
        if not self.reads_causal:
            require_mask(tokens, last.path, f"--task {task.name}")
        self._task, self._tokens, self._last = task, tokens, last

    def _require(self, items: Sequence[Any], expected: str) -> None:
        if not items:
            raise TrueNegError(f"{', '.join(self._task.files)}: nothing to measure the model on; expected {expected}")

    @property
    def _file(self) -> Path:
        """The task's only file."""
        if len(self._task.files) > 1:
            raise TrueNegError(f"--task {self._task.name}: found {len(self._task.files)} files, expected one")
        return self._task.paths[0]

    def _read(self, paths: Sequence[Path], expected: str, limit: int = LARGEST_JSON) -> list[bytes]:
        """The content of files, plain or packed, whose checksum :attr:`sha256` becomes."""
        contents = [read_bytes(path, expected=expected, limit=limit) for path in paths]
        self.sha256 = hashlib.sha256(b"".join(contents)).hexdigest()
        return contents

    def _load_table(self) -> SynonymTable | None:
        path, dictionary = self._task.synonym_table, self._tokens.folder or self._last.path
        return None if path is None else load_table(path, self._tokens, dictionary)

    def samples_to_fit(self, scorer: Scorer) -> Iterable[tuple[Tensor, Tensor, Tensor]]:
        """Masked samples that are not judged, as :meth:`.scorer.Scorer.fit_share` takes them."""
        return ()

    @abstractmethod
    def score(self, scorer: Scorer) -> dict[str, Scores]:
        """By the tasks of result files."""

    @property
    def record(self) -> dict[str, str]:
        """What result lines keep of it."""
        return {"sha256": self.sha256, **YARDSTICKS.digests([self._task.name])}

    def is_shown(self, task: str) -> bool:
        """Whether a person sees the task; result files have all."""
        return True

    def controls(self, scorer: Scorer) -> dict[str, dict[str, Scores]]:
        """By name, what needs no training of the model, on the tasks that are shown."""
        return {}


class Measured(NamedTuple):
    """One model, or control, on one yardstick."""

    model: NamedModel
    yardstick: Yardstick
    scores: dict[str, Scores]
    is_control: bool = False  # what needs no training of the model

    def results(self) -> list[Result]:
        """Lines of a result file."""
        found = []
        for task, scores in self.scores.items():
            shown, column = self.yardstick.metrics, task.removeprefix(f"{self.yardstick.group}, ")
            defined = {name: ratio for name, ratio in scores.ratios.items() if name in shown and ratio.items}
            known = {name: ratio for name, ratio in defined.items() if math.isfinite(ratio.value)}
            result = Result(
                model=self.model.name,
                task=task,
                seed=self.model.seed,
                shown={name: shown[name] if column == task else replace(shown[name], title=column) for name in known},
                group=self.yardstick.group,
                example_ids=list(scores.items),
                settings={**self.yardstick.record, "checkpoint": str(self.model.path), **scores.facts},
                **ratios_as_fields(known),
            )
            found.append(result)
        return found


def parse_tasks(arguments: Sequence[str], **settings: Any) -> list[Task]:
    """The tasks of a command line, each ``NAME=FILE``; a name that is given twice has both files."""
    files: dict[str, list[str]] = {}
    for argument in arguments:
        name, _, file = argument.partition("=")
        YARDSTICKS.look_up(name, "--task")
        if not file:
            raise TrueNegError(f"--task {argument}: expected {name}=FILE")
        files.setdefault(name, []).append(file)
    return [Task(name, tuple(found), **settings) for name, found in files.items()]


def evaluate(
    models: Sequence[NamedModel],
    tasks: Sequence[Task],
    options: OpeningOptions,
    *,
    with_controls: bool = False,
    counts_share: str = str(DEFAULT_SHARE),
    say: Callable[[str], None] = lambda text: None,
) -> Iterator[Measured]:
    """Measures every model on every task; each checkpoint is read once, and one model at a time is in memory.

    Their :meth:`Measured.results` are lines of a result file. Controls are computed beside the first model alone.
    ``counts_share`` is of the models with counts: a :class:`CountsShare` as text, or to be fitted for each.
    """
    opened = [OpenedModel(model.path, options) for model in models]
    yardsticks: dict[str, list[Yardstick]] = {}
    for number, (model, each) in enumerate(zip(models, opened, strict=True)):
        tokens = each.tokens()
        vocabulary = tokens.vocabulary.fingerprint
        if vocabulary not in yardsticks:
            kinds = [YARDSTICKS.look_up(task.name, "--task") for task in tasks]
            if yardsticks and not all(kind.across_tokens for kind in kinds):
                raise TrueNegError(
                    f"{model.path}: has other tokens than {models[0].path}; measure it in a command of its own, and "
                    "compare the --results"
                )
            yardsticks[vocabulary] = [kind(task, tokens, opened[-1]) for kind, task in zip(kinds, tasks, strict=True)]
            for yardstick in yardsticks[vocabulary]:
                say(yardstick.described)
        scorer = each.scorer(tokens, counts=model.counts)
        if model.counts is not None and counts_share == FIT:
            scorer.fit_share(chain.from_iterable(one.samples_to_fit(scorer) for one in yardsticks[vocabulary]))
            say(f"{model.name}: the fitted --counts-share is {scorer.share}")
        elif model.counts is not None:
            scorer.share = CountsShare.parse(counts_share, "--counts-share")
        for yardstick in yardsticks[vocabulary]:
            yield Measured(model, yardstick, yardstick.score(scorer))
            for name, control in yardstick.controls(scorer).items() if with_controls and not number else ():
                owner = f"{name} (control)" if name in {each.name for each in models} else name
                yield Measured(NamedModel(owner, model.path), yardstick, control, is_control=True)
        del scorer
        gc.collect()  # before the next one is built: on a GPU two may not fit


def compared(found: Sequence[Measured]) -> Comparison:
    """What a person sees: the models, each with its one seed, then the controls."""
    several, lines = len({each.model.seed for each in found}) > 1, list[Result]()
    for each in sorted(found, key=lambda each: each.is_control):
        name = f"{each.model.name} {each.model.seed}" if several and not each.is_control else each.model.name
        shown = (result for result in each.results() if each.yardstick.is_shown(result.task))
        lines += [replace(result, model=name, seed=1) for result in shown]
    controls = {each.model.name for each in found if each.is_control}
    notes = dict.fromkeys(each.yardstick.notes for each in found if each.yardstick.notes)
    return Comparison(lines, over_items=True, controls=controls, notes=notes)
