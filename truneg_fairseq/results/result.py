"""Result files: one JSON object a line, one line a fine-tuning run on one task with one seed."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from filelock import FileLock
from msgspec import Meta

from ..errors import TrueNegError
from ..files import convert, parse_json, read_bytes, require_once

BITS = "bits"
"""The metric that is not a fraction: the cross-entropy of a masked LM, in bits per masked token."""
_CORRELATIONS = ("matthews", "spearman", "pearson")
_BEGINNING = b'{"model": '
_EXPECTED = 'an object with "model", "task", "seed" and "metrics"'
_LARGEST_FILE = 256 << 20  # bytes; a run on SQuAD has 0.3 MB


@dataclass(frozen=True, kw_only=True)
class Result:
    """One run."""

    model: Annotated[str, Meta(min_length=1)]  # what was fine-tuned, as the tables name it: "baseline", "hc"
    # "CoLA", "SST-2", "MRPC", "STS-B", "QQP", "MNLI", "QNLI", "RTE", "SQuAD", "AddSentenceDiverse", "SwapSynWordNet",
    # or another that the tables do not have
    task: Annotated[str, Meta(min_length=1)]
    seed: int  # of the fine-tuning
    # values as fractions, in [0, 1]: "accuracy", "f1", "exact_match", of attacks "original_exact_match",
    # "transformed_exact_match", "original_f1", "transformed_f1"; "matthews", "spearman" and "pearson" are in [-1, 1];
    # "bits", a cross-entropy in bits a token, is 0 or more
    metrics: dict[str, float]
    # scores of the single examples for metrics that are their mean, in the order of the data
    examples: dict[str, list[float]] = field(default_factory=dict)
    example_ids: list[str] = field(default_factory=list)  # names of the examples, where they have some
    wall_seconds: float | None = None  # of the run
    peak_memory_mb: float | None = None  # of the run, in MB (1e6 bytes)
    settings: dict[str, Any] = field(default_factory=dict)  # anything else that tells how the run was made, JSON-able

    @property
    def key(self) -> tuple[str, str, int]:
        """Identifies a run: model, task and seed."""
        return self.model, self.task, self.seed

    @property
    def line(self) -> str:
        """Of a result file."""
        content = {name: value for name, value in dataclasses.asdict(self).items() if value not in (None, {}, [])}
        return json.dumps(content) + "\n"

    def validate(self, where: str) -> Result:
        """The result itself, if its scores are fractions."""
        for name, value in self.metrics.items():
            least, most = (0, math.inf) if name == BITS else (-1 if name in _CORRELATIONS else 0, 1)
            if not least <= value <= most or value == math.inf:
                expected = "bits, 0 or more" if name == BITS else f"a fraction from {least} to 1 (0.758 for 75.8 %)"
                raise TrueNegError(f"{where}: metric {name} is {value!r}; expected {expected}")
        return self


def append_result(path: Path, result: Result) -> bool:
    """Adds a result to a file, which begins with it where it is missing.

    Several processes may add to one file. A line is written and on the disk before this returns; what a killed process
    left of one is taken away by the next. A file of something else is left as it is. Returned is whether the result was
    added: one with the same scores may be there already.
    """
    result.validate(f"{path}: the new result")
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_name(f".{path.name}.lock")), path.open("ab+") as file:
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
        file.write(result.line.encode())
        file.flush()
        os.fsync(file.fileno())
        return True


def read_results(paths: Iterable[Path]) -> list[Result]:
    """The results of some files, in order; half a result at the end, which a killed process left, is passed over."""
    require_once("RESULTS.jsonl", paths := list(paths))
    results: dict[tuple[str, str, int], Result] = {}
    places: dict[tuple[str, str, int], str] = {}
    for path in paths:
        *lines, last = read_bytes(path, expected="a result file (JSON lines)", limit=_LARGEST_FILE).split(b"\n")
        for number, line in enumerate(lines if _is_torn(last) else [*lines, last], start=1):
            where = f"{path}: line {number}"
            if not line.strip():
                continue
            content = parse_json(line, where, dict[str, Any], expected=_EXPECTED)
            result = convert(content, where, Result, expected=_EXPECTED).validate(where)
            if result.key in results:
                raise TrueNegError(
                    f"{where}: model {result.model!r}, task {result.task!r}, seed {result.seed} stands in "
                    f"{places[result.key]} already; remove one, or name another model"
                )
            results[result.key], places[result.key] = result, f"{path} line {number}"
    return list(results.values())


def _is_torn(line: bytes) -> bool:
    """Whether a last line, which has no end, is half of one that :func:`append_result` was writing."""
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return line.startswith(_BEGINNING) or _BEGINNING.startswith(line)
    return False
