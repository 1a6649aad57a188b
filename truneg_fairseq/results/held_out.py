"""What was measured on held-out text: result lines as a report reads them, and examples. No torch here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..files import convert
from .intervals import Ratio
from .result import BITS, HELD_OUT, Result, read_results

QUANTITIES = {
    BITS: "loss, bits per masked token",
    "accuracy": "accuracy, % of the masked tokens",
    "hc_pred": "corrected, % of the mistakes",
    "hc_iter": "sequences with a correction, %",
}
"""What a report shows, with its title and unit; the last two are those of Table 2."""

GREEN, YELLOW, PLAIN = "\x1b[1;32m", "\x1b[1;33m", "\x1b[0m"


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


def describe(example: Example, *, color: bool = False) -> str:
    """A false negative in its sentence, as one line.

    ``... whose [primary -> main] function ...  (p = 0.12 -> 0.31; people accept it with a probability of 0.6)``
    """
    green, yellow, plain = (GREEN, YELLOW, PLAIN) if color else ("", "", "")
    marked = f"[{green}{example.gold}{plain} -> {yellow}{example.prediction}{plain}]"
    text = " ".join(part for part in (example.before, marked, example.after) if part)
    return (
        f"{text}  (p = {example.gold_probability:.2f} -> {example.prediction_probability:.2f}; people accept it with a "
        f"probability of {example.acceptance:.2f})"
    )


@dataclass(frozen=True)
class Measurement:
    """One checkpoint on held-out text, as a result line has it."""

    checkpoint: str  # its file
    updates: int  # of its training
    values: dict[str, float]  # by name of :data:`QUANTITIES`, in its unit
    intervals: dict[str, tuple[float, float]]  # of 95 %, bootstrapped over sequences
    sequences: int
    masked: int
    examples: list[Example]

    @classmethod
    def of(cls, result: Result) -> Measurement:
        facts, values, intervals = result.settings, dict[str, float](), dict[str, tuple[float, float]]()
        for name in QUANTITIES.keys() & result.metrics.keys():
            factor = 1 if name == BITS else 100
            values[name] = factor * result.metrics[name]
            numerators = np.array(result.examples.get(name, ()))
            ratio = Ratio(numerators, np.array(result.denominators.get(name, np.ones(len(numerators)))))
            if (interval := ratio.interval()) is not None:
                intervals[name] = factor * interval.low, factor * interval.high
        expected = "a result line of truneg evaluate --task held-out"
        examples = [convert(each, expected, Example, expected=expected) for each in facts.get("examples", ())]
        updates, sequences, masked = (int(facts.get(name, 0)) for name in ("updates", "sequences", "masked"))
        name = str(facts.get("checkpoint", result.model))
        return cls(name, updates, values, intervals, sequences, masked, examples)


def read_measurements(path: Path) -> list[Measurement]:
    """Those among the lines of a result file."""
    return [Measurement.of(result) for result in read_results([path]) if result.task.startswith(HELD_OUT)]
