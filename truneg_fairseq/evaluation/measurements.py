"""What a checkpoint's inspection found: a row, a JSON line. No torch here."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..files import convert, parse_json, read_bytes

_RATES = {"loss": ".3f", "ppl": ".2f", "accuracy": ".2f", "ece": ".2f", "hc_pred": ".3f", "hc_iter": ".2f"}
COLUMNS = {"updates": "d", **_RATES}
"""What a row shows, and how."""

QUANTITIES = {
    "loss": "loss, bits per masked token",
    "accuracy": "accuracy, % of the masked tokens",
    "hc_pred": "corrected, % of the mistakes",
    "hc_iter": "sequences with a correction, %",
}
"""What has an interval, with its title and unit; the last two are those of Table 2."""


@dataclass(frozen=True)
class Example:
    """A false negative in its sentence."""

    before: str  # the text on this side
    gold: str  # the original word
    prediction: str  # the word that the model puts there
    after: str
    gold_probability: float  # by the model, in [0, 1]
    prediction_probability: float


@dataclass(frozen=True)
class Measurement:
    """One checkpoint on one split."""

    checkpoint: str  # its file
    updates: int  # of its training
    values: dict[str, float]  # by name of :data:`_RATES`
    sequences: int = 0  # number of sequences of the split
    masked: int = 0  # number of masked tokens
    false_negatives: int = 0  # how many were found
    # of 95 %, bootstrapped over sequences, by name of :data:`QUANTITIES`
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)
    # the most frequent corrected pairs: gold, prediction, how often
    pairs: list[tuple[str, str, int]] = field(default_factory=list)
    examples: list[Example] = field(default_factory=list)  # some of its false negatives

    def row(self) -> str:
        """The line of a terminal."""
        record = {"updates": self.updates, **self.values}
        return "  ".join(f"{record[name]:>9{style}}" for name, style in COLUMNS.items()) + f"  {self.checkpoint}"

    def record(self) -> dict[str, Any]:
        """The object of a JSON line."""
        content = dataclasses.asdict(self)
        return {"checkpoint": content.pop("checkpoint"), "updates": content.pop("updates"), **content.pop("values")} | {
            name: value for name, value in content.items() if value
        }


def read_measurements(path: Path) -> list[Measurement]:
    """The lines of ``truneg inspect --json``."""
    expected = "what 'truneg inspect --json' writes; measure again"
    found = []
    for number, line in enumerate(read_bytes(path, expected=expected).splitlines(), start=1):
        where = f"{path}: line {number}"
        content = parse_json(line, where, dict[str, Any], expected=expected)
        values = {name: content.pop(name) for name in _RATES if name in content}
        content["values"] = {name: math.nan if value is None else value for name, value in values.items()}
        found.append(convert(content, where, Measurement, expected=expected))
    return found
