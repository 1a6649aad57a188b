"""``truneg inspect``."""

from __future__ import annotations

from dataclasses import dataclass

from ..evaluation.inspection_options import InspectionOptions
from ..files import require_checkpoint
from .output import JsonOutput, in_color, print_unless_json, write_json_lines


@dataclass(kw_only=True)
class InspectOptions(InspectionOptions, JsonOutput):
    """Those of the measurement, and where to write it."""


def inspect(options: InspectOptions) -> None:
    """Measure models on text: loss, accuracy, calibration, false negatives.

    Prints a row for each checkpoint (loss in bits; accuracy, calibration error, Table 2 in %), then the most frequent
    corrected pairs and examples of the last one.
    """
    from ..evaluation.model_options import prepare
    from ..evaluation.models import is_hugging_face

    for checkpoint in options.checkpoint:
        if not is_hugging_face(checkpoint):
            require_checkpoint(checkpoint)
    prepare(*options.checkpoint)
    from ..evaluation.examples import describe
    from ..evaluation.held_out import measure
    from ..evaluation.measurements import COLUMNS, Measurement

    say = print_unless_json(options)
    measured: list[Measurement] = []
    for each in measure(options):
        if not measured:
            say("  ".join(f"{name:>9}" for name in COLUMNS) + "  checkpoint")
        measured.append(each)
        say(each.row())
    last = measured[-1]
    if last.pairs:
        say(f"\nthe most frequent corrected pairs of {last.checkpoint}")
    for gold, prediction, count in last.pairs:
        say(f"{count:8d}  {gold} -> {prediction}")
    say(f"\n{len(last.examples)} of {last.false_negatives} false negatives of {last.checkpoint}")
    for example in last.examples:
        say("  " + describe(example, color=in_color()))
    write_json_lines(options, [each.record() for each in measured])
