"""Result files: one JSON object a line, one line for one model, task and seed. A line describes its metrics.

Also the names of models in results, and the examples of false negatives that lines of held-out text have.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from filelock import FileLock
from msgspec import Meta

from ..errors import TrueNegError
from ..files import convert, parse_json, read_bytes, require_once, split_name, writing

BITS = "bits"
HELD_OUT = "held-out text"  # the task of a masked LM's own measurements
GENERATED = "held-out text, generated"
"""The task that is the loss of a causal LM or of a translation model on held-out text."""

_BEGINNING = b'{"model": '
_EXPECTED = 'an object with "model", "task", "seed" and "metrics"'
_LARGEST_FILE = 256 << 20  # bytes; a run on SQuAD has 0.3 MB
_TOLERANCE = 1e-6  # of fractions: sums of fp32 probabilities end a little above 1


@dataclass(frozen=True)
class Metric:
    """How a metric is shown."""

    title: str  # the heading of its column
    higher_is_better: bool | None = None  # None where neither is
    unit: str = "%"  # "%": the value is a fraction, shown as percent; any other: the value as it is, such as "bits"
    averaged: bool = False  # its group has a column with the mean over the tasks that all models have

    @property
    def record(self) -> dict[str, Any]:
        """As a result line has it."""
        declared = {each.name: each.default for each in dataclasses.fields(self)}
        return {name: value for name, value in vars(self).items() if value != declared[name]}


@dataclass(frozen=True, kw_only=True)
class Result:
    """One line."""

    model: Annotated[str, Meta(min_length=1)]  # as the tables name it: "baseline", "hc"
    task: Annotated[str, Meta(min_length=1)]  # what was measured: "CoLA", "cloze", "held-out text"
    seed: int  # of what is compared: of the pre-training in an experiment, else of the fine-tuning
    metrics: dict[str, float]  # values by name; fractions, unless the description says another unit
    # what the tables show of the metrics, in this order; {} for all, as they are
    shown: dict[str, Metric] = field(default_factory=dict)
    group: str = ""  # the title of the table that the task belongs to; "" for the task's own
    at: float | None = None  # percent of the training after which it was measured; None for its end
    # numerators of the single items for metrics that are a ratio of sums, in the order of the data
    examples: dict[str, list[float]] = field(default_factory=dict)
    denominators: dict[str, list[float]] = field(default_factory=dict)  # of the items, where not all are 1
    example_ids: list[str] = field(default_factory=list)  # names of the items, where they have some
    wall_seconds: float | None = None  # of the run
    peak_memory_mb: float | None = None  # of the run, in MB (1e6 bytes)
    settings: dict[str, Any] = field(default_factory=dict)  # anything else that says how the run was made, JSON-able

    @property
    def key(self) -> tuple[str, str, int]:
        """Identifies a run: model, task and seed."""
        return self.model, self.task, self.seed

    @property
    def line(self) -> str:
        """Of a result file."""
        content = {name: value for name, value in vars(self).items() if value not in (None, {}, [], "")}
        content |= {"shown": {name: metric.record for name, metric in self.shown.items()}} if self.shown else {}
        return json.dumps(content, allow_nan=False) + "\n"

    def validate(self, where: str) -> Result:
        """The result itself, if its numbers are finite, its fractions fractions, and its items as many as they say."""
        for name, value in self.metrics.items():
            percent = name in self.shown and self.shown[name].unit == "%"
            if not math.isfinite(value) or (percent and abs(value) > 1 + _TOLERANCE):
                expected = "a fraction (0.758 for 75.8 %)" if percent else "a finite number"
                raise TrueNegError(f"{where}: metric {name} is {value!r}; expected {expected}")
        for name, parts in self.denominators.items():
            if len(parts) != len(self.examples.get(name, ())) or min(parts, default=0) < 0:
                raise TrueNegError(f"{where}: denominators of {name}: expected a number >= 0 for each of its examples")
        return self


def append_result(path: Path, result: Result) -> bool:
    """Adds a result to a file; False if it has one with the same scores already.

    Several processes may add to one file. A line is on the disk before this returns; what a killed process left of one
    is taken away by the next. A file of something else is left as it is.
    """
    line = result.validate(f"{path}: the new result").line.encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    with writing(path), FileLock(path.with_name(f".{path.name}.lock")), path.open("ab+") as file:
        known = next((each for each in read_results([path]) if each.key == result.key), None)
        if known is not None and (known.metrics, known.examples) == (result.metrics, result.examples):
            return False
        if known is not None:
            raise TrueNegError(
                f"{path}: has another result of model {result.model!r}, task {result.task!r}, seed {result.seed}; "
                "remove it, or name another model, seed or file"
            )
        file.seek(0)
        content = file.read()
        start = content.rfind(b"\n") + 1
        if _is_torn(content[start:]):
            file.truncate(start)
        else:  # a whole line without an end, as editors leave it
            file.write(b"\n")
        file.write(line)
        file.flush()
        os.fsync(file.fileno())
        return True


def read_results(files: Iterable[Path | str]) -> list[Result]:
    """The results of some files, in order; half a result at the end, which a killed process left, is passed over.

    A file may be a text ``NAME=FILE``: its only model gets that name, several get it before theirs, as ``NAME/hc``.
    """
    named = [(None, file) if isinstance(file, Path) else split_name(file) for file in files]
    require_once("RESULTS.jsonl", [path for _, path in named])
    results, places = list[Result](), dict[tuple[str, str, int], str]()
    for name, path in named:
        read = list(_read(path))
        several = len({result.model for _, result in read}) > 1
        for where, line in read:
            model = line.model if name is None else f"{name}/{line.model}" if several else name
            result = dataclasses.replace(line, model=model)
            if result.key in places:
                raise TrueNegError(
                    f"{where}: model {result.model!r}, task {result.task!r}, seed {result.seed} is in "
                    f"{places[result.key]} already; remove one, or name the file's models: NAME={path}"
                )
            places[result.key] = where
            results.append(result)
    return results


def _read(path: Path) -> Iterable[tuple[str, Result]]:
    *lines, last = read_bytes(path, expected="a result file (JSON lines)", limit=_LARGEST_FILE).split(b"\n")
    for number, line in enumerate(lines if _is_torn(last) else [*lines, last], start=1):
        where = f"{path}: line {number}"
        if line.strip():
            content = parse_json(line, where, dict[str, Any], expected=_EXPECTED)
            yield where, convert(content, where, Result, expected=_EXPECTED).validate(where)


def _is_torn(line: bytes) -> bool:
    """Whether a last line, which has no end, is half of one that :func:`append_result` was writing."""
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return line.startswith(_BEGINNING) or _BEGINNING.startswith(line)
    return False


_GENERIC = re.compile(r"checkpoint.*|model.*|train|runs|seed-\d+")  # names that no person chose


class NamedModel(NamedTuple):
    """A model of a command line."""

    name: str  # in tables and results
    path: Path
    seed: int = 1  # of its training
    counts: Path | None = None  # of a text, mixed into its predictions


def named_models(arguments: Sequence[str], seed: int | None = None) -> list[NamedModel]:
    """The models of a command line, each ``[NAME=]PATH``; the seed is the path's own (``seed-2``) unless one is given.

    A model without a name has that of its file or folder, or of the first folder above it that is named by a person
    (``arm`` of ``runs/arm/seed-1/train/model.pt``, ``run`` of ``run/checkpoint_best.pt``). Two of the same name and
    seed get the last part of their paths too.
    """
    found = []
    for argument in arguments:
        name, path = split_name(argument)
        whole = path.absolute()
        parts = [whole.stem if whole.suffix == ".pt" else whole.name, *(parent.name for parent in whole.parents)]
        default = next((part for part in parts if part and not _GENERIC.fullmatch(part)), parts[0])
        seeds = [int(match[1]) for part in whole.parts if (match := re.fullmatch(r"seed-(\d{1,9})", part))]
        found.append(NamedModel(name or default, path, [1, *seeds][-1] if seed is None else seed))
    keys = [(model.name, model.seed) for model in found]
    found = [
        model._replace(name=f"{model.name}/{model.path.stem}") if keys.count((model.name, model.seed)) > 1 else model
        for model in found
    ]
    if len({(model.name, model.seed) for model in found}) < len(found):
        raise TrueNegError(f"{found[0].path}: two models have the same name; expected different ones, as NAME=PATH")
    return found


@dataclass(frozen=True)
class Example:
    """A false negative in its sentence."""

    before: str  # the text on this side
    gold: str  # the original word
    prediction: str  # the word that the model puts there
    after: str
    gold_probability: float  # by the model, in [0, 1]
    prediction_probability: float
    acceptance: float = 0.0  # the probability that people accept the prediction


def examples_in(result: Result) -> list[Example]:
    """The false negatives in their sentences that a line of held-out text has."""
    expected = "a result line of truneg evaluate --task held-out"
    return [convert(each, expected, Example, expected=expected) for each in result.settings.get("examples", ())]
