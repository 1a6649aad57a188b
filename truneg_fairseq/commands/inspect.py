"""``truneg inspect``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..inspection.options import InspectionOptions
from ..paths import require_checkpoint
from .output import JsonOutput, in_color, print_unless_json, write_json_lines

if TYPE_CHECKING:
    from ..inspection.measurements import Measurement


@dataclass(kw_only=True)
class InspectOptions(InspectionOptions, JsonOutput):
    """Those of the measurement, and where to write it."""


def inspect(options: InspectOptions) -> None:
    """Measure checkpoints' loss, accuracy and false negatives on a binarized split, and show some.

    Prints a row for each checkpoint (loss in bits; accuracy, calibration error, Table 2 in %), then the most frequent
    corrected pairs and examples of the last one.
    """
    for checkpoint in options.checkpoint:
        require_checkpoint(checkpoint)
    from .. import register

    register()
    from ..inspection.inspector import measure
    from ..inspection.measurements import COLUMNS

    say = print_unless_json(options)
    say("  ".join(f"{name:>9}" for name, _ in COLUMNS) + "  checkpoint")
    measured: list[Measurement] = []
    for each in measure(options):
        measured.append(each)
        say(each.row())
    _show_false_negatives(measured[-1], say)
    write_json_lines(options, [each.record() for each in measured])


def _show_false_negatives(measured: Measurement, say: Callable[[str], None]) -> None:
    from ..inspection.sentences import describe

    if measured.pairs:
        say(f"\nthe most frequent corrected pairs of {measured.checkpoint}")
    for gold, prediction, count in measured.pairs:
        say(f"{count:8d}  {gold} -> {prediction}")
    say(f"\n{len(measured.examples)} of {measured.false_negatives} false negatives of {measured.checkpoint}")
    for example in measured.examples:
        say("  " + describe(example, color=in_color()))
