"""Runs to report of: what lies in a folder, or one log."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from pathlib import Path

from ..errors import TrueNegError
from ..inspection.measurements import Measurement, read_measurements
from ..training_folder.manifest import MANIFEST_NAME, read_manifest
from .events import EVENT_FILES, read_events
from .logs import Log, read_log

_LOGS = ("*.log", "*.out")
_TIME = re.compile(r"\[?(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)")
"""At the start of a line of fairseq-train, and of hydra with its bracket."""
_LINES_TO_TIME = 1000
_NOT_SHOWN = {"host"}  # a page is for sharing
_DIGITS = 16
_SPECIFIC = {"save_dir", "seconds", "time"}
"""Facts that tell two runs apart, and are none of what they were told to do."""
_UNSET = {"None", "none", "0.0"}


@dataclass
class Run:
    """One training."""

    name: str  # in legends
    path: Path  # its folder or log
    log: Log = field(default_factory=Log)  # what was logged
    measurements: list[Measurement] = field(default_factory=list)  # of its checkpoints, by their updates
    facts: dict[str, str] = field(default_factory=dict)  # what was run, by name, in the order to show them
    missing: list[str] = field(default_factory=list)  # what was not found, each a sentence
    files: list[Path] = field(default_factory=list)  # what was read

    @property
    def most_updates(self) -> int:
        """How many it will have; what it has where it does not say."""
        told = self.log.facts.get("max_update", "0")
        return int(told) if int(told) > 0 else self.log.updates


def find_runs(arguments: Iterable[str]) -> list[Run]:
    """The runs that are named on a command line.

    Args:
        arguments: each a folder or a log of fairseq-train, or ``NAME=`` and one.
    """
    runs = [_find(argument) for argument in arguments]
    names: dict[str, Path] = {}
    for run in runs:
        if run.name in names:
            raise TrueNegError(
                f"{run.path}: is called {run.name!r} as {names[run.name]} is; expected different names; write "
                f"NAME={run.path}"
            )
        names[run.name] = run.path
    if not any(run.log.series or run.measurements for run in runs):
        raise TrueNegError(
            f"{', '.join(str(run.path) for run in runs)}: no statistics of a training; expected what fairseq-train "
            "prints (--log-format json or simple, --log-file), a log of fairseq-hydra-train, or TensorBoard's files"
        )
    return runs


def _find(argument: str) -> Run:
    name, separator, rest = argument.partition("=")
    if not argument or (separator and not (name and rest)):  # as "hc=$UNSET" is
        raise TrueNegError(f"{argument!r}: has an empty part; expected a training's folder or log, or NAME= and one")
    if Path(argument).exists():  # hydra gives folders names such as lr=0.1
        name, separator, rest = "", "", argument
    path = Path(rest if separator else argument)
    if not path.exists():
        raise TrueNegError(f"{path}: no such file; expected a training's folder or log")
    run = Run(name if separator else path.resolve().stem if path.is_file() else path.resolve().name, path)
    if path.is_file():
        logs, events = ([], [path]) if path.match(EVENT_FILES) else ([path], [])
    else:
        logs = sorted({log for pattern in _LOGS for log in path.rglob(pattern)}, key=_begun)
        events = list(path.rglob(EVENT_FILES))
        _read_measured(run)
        _read_manifest(run)
    run.files += [*logs, *events]
    _read_logs(run, logs)
    if events:
        read_events(events, run.log)
    run.facts |= {name: value for name, value in run.log.facts.items() if name not in run.facts}
    _tell_missing(run, logs)
    return run


def _begun(path: Path) -> tuple[float, str]:
    """When a log begins; one without the time, when it was last written, which a copy may change."""
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in islice(lines, _LINES_TO_TIME):
            if found := _TIME.match(line):
                with contextlib.suppress(ValueError, OverflowError):
                    return datetime.fromisoformat(found[1]).timestamp(), str(path)
    return path.stat().st_mtime, str(path)


def _read_logs(run: Run, logs: list[Path]) -> None:
    folders: dict[Path, Path] = {}
    for path in logs:
        started = read_log(path).facts.get("save_dir")
        if started is not None:  # "checkpoints" by default, and for every run of hydra
            folders.setdefault(path.parent / started, path)
        read_log(path, run.log)
    if len(folders) > 1:
        raise TrueNegError(
            f"{run.path}: holds the logs of {len(folders)} trainings ({', '.join(map(str, folders.values()))}); "
            "expected one; name the folder or the log of each"
        )


def _read_measured(run: Run) -> None:
    for path in sorted(run.path.rglob("*.jsonl")):
        with path.open(encoding="utf-8", errors="replace") as stream:
            if stream.readline().startswith('{"checkpoint"'):
                run.measurements += read_measurements(path)
                run.files.append(path)
    run.measurements.sort(key=lambda each: each.updates)


def _read_manifest(run: Run) -> None:
    folder = run.path
    if not (folder / MANIFEST_NAME).exists():
        found = list(folder.rglob(MANIFEST_NAME))
        folder = found[0].parent if len(found) == 1 else folder  # fairseq's own --save-dir lies below
    starts = read_manifest(folder)
    if not starts:
        run.missing.append(f"No {MANIFEST_NAME}: versions and fingerprints of its inputs are not known.")
        return
    run.files.append(folder / MANIFEST_NAME)
    last = {name: value for name, value in starts[-1].items() if name not in _NOT_SHOWN and value is not None}
    for name, value in last.items():
        if name == "inputs":
            run.facts |= {f"SHA-256 of {path}": digest[:_DIGITS] for path, digest in value.items()}
        elif name == "batches":
            run.facts |= {size: str(number) for size, number in value.items()}
        elif isinstance(value, dict):
            run.facts |= {f"version of {package}": found or "not installed" for package, found in value.items()}
        else:
            run.facts[name] = str(value)
    run.facts["starts"] = str(len(starts))


def _tell_missing(run: Run, logs: list[Path]) -> None:
    log, missing = run.log, run.missing
    if not log.series:
        where = f" in {', '.join(map(str, logs))}" if logs else ""
        missing.append(f"No statistics{where}: the training has logged none, or its log is elsewhere.")
    elif not log.validations:
        missing.append("No validation is logged yet.")
    if log.series and not log.finished:
        missing.append(
            f"The log does not end: update {log.updates:,} of {run.most_updates:,}; in progress, or stopped."
        )
    if log.unread:
        missing.append(f"{log.unread} line(s) of the log are cut and left out.")
    if log.not_finite:
        missing.append(f"{log.not_finite} logged value(s) are NaN or infinite and left out of the charts.")
    if not run.measurements:
        missing.append("No measured checkpoints: 'truneg inspect --json' into its folder adds intervals and examples.")


def differing_facts(runs: list[Run], names: Iterable[str]) -> dict[str, list[str]]:
    """Which of these facts are not the same in all runs that tell them, with their values."""
    found = {name: list(dict.fromkeys(run.facts[name] for run in runs if name in run.facts)) for name in names}
    return {name: values for name, values in found.items() if len(values) > 1}


def fact_names(runs: list[Run]) -> list[str]:
    """The names of all facts that some run has set, in the order in which runs first have them."""
    names = dict.fromkeys(name for run in runs for name in run.facts if name not in _SPECIFIC)
    return [name for name in names if any(run.facts.get(name, "None") not in _UNSET for run in runs)]
