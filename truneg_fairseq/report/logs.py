"""What fairseq's logs say of a training: its statistics over updates and the facts of its start.

A line is known by what it says, not by what stands before it: fairseq-train puts the time and the logger's name there,
hydra does so in another form, and ``--log-file`` has neither. Statistics are JSON (``--log-format json``) or text
(``simple``); a tqdm log has them at the ends of epochs only.
"""

from __future__ import annotations

import ast
import contextlib
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import TrueNegError
from ..schema import parse_json

TRAINING, EPOCH = "train_inner", "train"
"""The names that fairseq gives the statistics of the last updates and of an epoch; all others are validation sets."""

_JSON = re.compile(r'\{"epoch": .*')
_INNER = re.compile(r"epoch (\d+):\s+\d+ / \d+ (\S.*)")
_OUTER = re.compile(r"epoch (\d+) \|(?: valid on '([^']*)' subset \|)? (\S.*)")
_CONFIGURATION = re.compile(r"\{'_name': None, 'common': \{.*")
_CRITERION = re.compile(r"'criterion': (\{(?:[^{}']|'(?:[^'\\]|\\.)*')*\})")  # braces stand in quotes: '${common.tpu}'
_MOST_UPDATES = 2**53  # of a chart's numbers
_NOT_MEASURED = {"epoch", "update", "num_updates"}
_FACTS = {
    "model": re.compile(r"\bmodel: (\w+)\s*$"),
    "criterion": re.compile(r"\bcriterion: (\w+)\s*$"),
    "task": re.compile(r"\btask: (\w+)\s*$"),
    "parameters": re.compile(r"num\. shared model params: ([\d,]+)"),
    "devices": re.compile(r"training on (\d+) devices"),
}
_FINISHED = re.compile(r"done training in ([\d.]+) seconds")


@dataclass
class Log:
    """What is known of one training."""

    # value by update, by the name of the statistics ("train_inner", "train", "valid", ...) and the quantity
    series: dict[tuple[str, str], dict[int, float]] = field(default_factory=dict)
    # of its start, as texts: "model", "criterion", "seed", "data", ..
    facts: dict[str, str] = field(default_factory=dict)
    finished: bool = False  # whether it says that the training is done
    unread: int = 0  # number of lines of statistics that are cut
    not_finite: int = 0  # number of values that are NaN or infinite, which the series leave out
    _begun_again: bool = False

    def begin_again(self) -> None:
        """What follows is another start: what was logged beyond its first update belongs to one that was given up."""
        self.finished, self._begun_again = False, True

    def add(self, stage: str, update: int, values: dict[str, float]) -> None:
        """Adds the values of one update; a training that was continued repeats some, whose later ones count.

        Raises:
            ValueError: the number of the update is none.
        """
        if not 0 <= update < _MOST_UPDATES:
            raise ValueError(update)
        if self._begun_again:
            self._begun_again = False
            for series in self.series.values():
                for later in [known for known in series if known > update]:
                    del series[later]
        for name, value in values.items():
            if name in _NOT_MEASURED:
                continue
            if math.isfinite(value):
                self.series.setdefault((stage, name), {})[update] = value
            else:
                self.not_finite += 1

    @property
    def updates(self) -> int:
        """The last one that there is a value of; 0 without."""
        return max((max(values) for values in self.series.values()), default=0)

    @property
    def validations(self) -> list[str]:
        """Names of the validation sets, in the order of the log."""
        return [name for name in dict.fromkeys(stage for stage, _ in self.series) if name not in (TRAINING, EPOCH)]


def read_log(path: Path, log: Log | None = None) -> Log:
    """Reads a log of fairseq-train or fairseq-hydra-train; the last line may be cut.

    Args:
        path: of the log.
        log: to add to, None for a new one.
    """
    log = Log() if log is None else log
    try:
        with path.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                _read_line(line.rstrip("\n"), log)
        log._begun_again = False  # other files are of other starts
    except OSError as error:
        raise TrueNegError(
            f"{path}: cannot be read ({error.strerror}); expected a log of fairseq-train, or a folder with one"
        ) from None
    return log


def _read_line(line: str, log: Log) -> None:
    if found := _JSON.search(line):
        try:
            _add_json(parse_json(found[0], "the log", dict[str, Any], expected="numbers"), log)
        except (TrueNegError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
            log.unread += 1
    elif found := _INNER.search(line):
        _add_text(TRAINING, found[2], ", ", "=", log)
    elif found := _OUTER.search(line):
        _add_text(found[2] or EPOCH, found[3], " | ", " ", log)
    elif found := _CONFIGURATION.search(line):
        log.facts |= configuration_facts(found[0])
        log.begin_again()
    elif found := _FINISHED.search(line):
        log.finished, log.facts["seconds"] = True, found[1]
    else:
        for name, pattern in _FACTS.items():
            if found := pattern.search(line):
                log.facts.setdefault(name, found[1])


def _add_json(content: dict[str, Any], log: Log) -> None:
    update_key = next(name for name in (*content, "num_updates") if name.endswith("num_updates"))
    stage = update_key.removesuffix("num_updates").rstrip("_") or TRAINING
    prefix = "" if stage == TRAINING else f"{stage}_"
    values = {name.removeprefix(prefix): value for name, value in _numbers(content.items()) if name.startswith(prefix)}
    log.add(stage, int(float(content[update_key])), values)  # fairseq writes the millionth update as 1e+06


def _add_text(stage: str, text: str, between: str, equals: str, log: Log) -> None:
    pairs = (part.strip().split(equals, 1) for part in text.split(between.strip()))
    values = dict(_numbers((pair[0], pair[1]) for pair in pairs if len(pair) == 2))
    try:
        log.add(stage, int(values["num_updates"]), values)
    except (KeyError, ValueError, OverflowError):
        log.unread += 1


def _numbers(pairs: Any) -> Iterator[tuple[str, float]]:
    for name, value in pairs:
        try:
            yield str(name), float(value)
        except (TypeError, ValueError, OverflowError):
            continue


def configuration_facts(text: str) -> dict[str, str]:
    """What a run was told to do, from the configuration that fairseq prints at its start.

    Args:
        text: a Python dict's text, in which objects may stand (``Namespace(...)``).
    """
    places = {
        **{"seed": r"'seed': (-?\d+)", "data": r"'data': ('(?:[^'\\]|\\.)*')", "arch": r"'arch': ('[^']*')"},
        **{"save_dir": r"'save_dir': ('(?:[^'\\]|\\.)*')", "max_update": r"'max_update': (\d{1,15})\b"},
        **{"lr": r"'lr': (\[[^\]]*\])", "batch_size": r"'batch_size': (\d+|None)"},
        **{name: rf"'{name}': (\d+|None)" for name in ("max_tokens", "tokens_per_sample", "warmup_updates")},
        **{name: rf"'{name}': (True|False)" for name in ("fp16", "bf16")},
        **{"mask_prob": r"'mask_prob': ([\d.e-]+)", "optimizer": r"'optimizer': \{'_name': ('[^']*')"},
        "finetune_from_model": r"'finetune_from_model': ('(?:[^'\\]|\\.)*'|None)",
        **{"criterion_name": r"'criterion': \{'_name': ('[^']*')", "update_freq": r"'update_freq': (\[[^\]]*\])"},
    }
    facts = {}
    for name, pattern in places.items():
        if found := re.search(pattern, text):
            with contextlib.suppress(ValueError, SyntaxError):  # a damaged text
                facts[name] = str(ast.literal_eval(found[1])) if found[1].startswith("'") else found[1]
    if found := _CRITERION.search(text):
        with contextlib.suppress(ValueError, SyntaxError):
            options = {str(name): str(value) for name, value in ast.literal_eval(found[1]).items()}
            facts |= {name: value for name, value in options.items() if name not in ("_name", "tpu")}
    if "criterion_name" in facts:
        facts["criterion"] = facts.pop("criterion_name")
    return facts
