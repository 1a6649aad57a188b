"""Runs to report: what a training has left in its folder."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from ..errors import TrueNegError
from ..fairseq_runs.folder import (
    METRICS_NAME,
    TRAINING,
    Series,
    describe_changes,
    is_held,
    read_manifest,
    read_metrics,
    read_series,
)
from ..files import files_below, split_name
from .intervals import ratio_of
from .result import BITS, HELD_OUT, Result, read_results

QUANTITIES = (BITS, "accuracy", "hc_pred", "hc_iter")
"""What a report shows; the last two are those of Table 2."""
_NOT_SHOWN = {"host", "changes"}  # a page is for sharing; changes are its warnings
_DIGITS = 16
_UNSET = {"None", "none", "0.0", "False"}
_OBJECTIVE = (*("hc_weight", "sr_word_weight", "sr_sent_weight", "loss_truncation", "soft_targets", "synonym_source"),)


def measured(result: Result, quantity: str) -> tuple[float, ...]:
    """A checkpoint's value of one of :data:`QUANTITIES`, in its unit, and where it is known the interval of 95 % over
    sequences; () where it was not measured.
    """
    if quantity not in result.metrics:
        return ()
    interval = ratio_of(result, quantity).interval() if quantity in result.examples else None
    return tuple((1 if quantity == BITS else 100) * value for value in interval or (result.metrics[quantity],))


def updates_of(result: Result) -> int:
    """The updates of the training after which a checkpoint was measured; 0 where its line does not say."""
    return int(result.settings.get("updates", 0))


@dataclass
class Run:
    """One training."""

    name: str  # in legends
    path: Path  # its folder
    series: Series = field(default_factory=dict)  # what was measured while it trained
    results: list[Result] = field(default_factory=list)  # of its checkpoints on held-out text, by their updates
    facts: dict[str, str] = field(default_factory=dict)  # what was run, by name, in the order to show them
    warnings: list[str] = field(default_factory=list)  # what to know before believing it, each a sentence

    @cached_property
    def updates(self) -> int:
        """The last one that there is a line of, which may be the mean of the last epoch alone; 0 without."""
        lines = (line["num_updates"] for line in read_metrics(self.path))
        return max((*lines, *(max(values) for values in self.series.values())), default=0)

    @property
    def most_updates(self) -> int:
        """How many it will have; what it has where --max-update does not say."""
        return int(self.facts.get("max_update", 0)) or self.updates

    @property
    def state(self) -> str:
        if "max_update" not in self.facts or self.facts["max_update"] == "0":
            return "-"  # epochs may have any number of updates
        if self.updates >= self.most_updates:
            return "finished"
        return "in progress" if is_held(self.path) else "stopped"

    @property
    def objective(self) -> str:
        """The options that make the objective another one than the criterion's plain loss, and the table's source."""
        chosen = {name: self.facts.get(name, "None") for name in _OBJECTIVE}
        named = (f"{name.replace('_', ' ')} {value}" for name, value in chosen.items() if value not in _UNSET)
        return ", ".join(named) or "-"

    @property
    def validations(self) -> list[str]:
        """Names of the validation sets, in their order."""
        return [name for name in dict.fromkeys(stage for stage, _ in self.series) if name != TRAINING]


def find_runs(arguments: Iterable[str]) -> list[Run]:
    """The runs of a command line: each is the --save-dir of a training, or ``NAME=`` and one."""
    runs = [_find(argument) for argument in arguments]
    names = [run.name for run in runs]
    if twice := [run for run in runs if names.count(run.name) > 1]:
        raise TrueNegError(f"{twice[1].path}: another run is called {twice[1].name!r} too; write NAME={twice[1].path}")
    if runs and not any(run.series or run.results or run.facts for run in runs):  # a short one may have logged nothing
        raise TrueNegError(
            f"{', '.join(str(run.path) for run in runs)}: found no {METRICS_NAME}; expected the --save-dir of a "
            "training with this package, or the output folder of transformers' Trainer with a checkpoint"
        )
    return runs


def _find(argument: str) -> Run:
    name, path = split_name(argument)
    if (path / "runs").is_dir() and (path / "results.jsonl").exists():
        page = path / "report.html"
        expected = "expected its results.jsonl, or a training, such as runs/ARM/seed-1/train in it"
        raise TrueNegError(f"{path}: is an experiment, whose page is {page}; {expected}")
    run = Run(name or path.resolve().name, path, read_series(path))
    starts = read_manifest(path)
    for before, now in itertools.pairwise(starts):
        if found := describe_changes(before, now):
            run.warnings.append(f"{run.name} was continued at {now['time']} with other options: {'; '.join(found)}.")
    if starts:
        last = {name: value for name, value in starts[-1].items() if name not in _NOT_SHOWN and value is not None}
        settings, versions, inputs = (last.pop(name, {}) for name in ("settings", "versions", "inputs"))
        run.facts = {name: str(value) for name, value in {**last, **settings}.items()}
        run.facts |= {f"version of {package}": found or "not installed" for package, found in versions.items()}
        run.facts |= {f"SHA-256 of {file}": digest[:_DIGITS] for file, digest in inputs.items()}
        run.facts["starts"] = str(len(starts))
    for file in files_below(path, "*.jsonl"):
        with file.open(encoding="utf-8", errors="replace") as stream:
            measured = stream.readline().startswith('{"model": ')
        named = [f"{name}={file}" if name else file] if measured else []
        run.results += [each for each in read_results(named) if each.task.startswith(HELD_OUT)]
    run.results.sort(key=updates_of)
    return run


def differing_facts(runs: list[Run], names: Iterable[str]) -> dict[str, list[str]]:
    """Which of these facts are not the same in all runs that tell them, with their values."""
    found = {name: list(dict.fromkeys(run.facts[name] for run in runs if name in run.facts)) for name in names}
    return {name: values for name, values in found.items() if len(values) > 1}


def fact_names(runs: list[Run]) -> list[str]:
    """The names of all facts that some run has set, in the order in which runs first have them."""
    names = dict.fromkeys(name for run in runs for name in run.facts if name != "time")
    return [name for name in names if any(run.facts.get(name, "None") not in _UNSET for run in runs)]
