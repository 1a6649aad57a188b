"""``truneg inspect``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..inspection.options import InspectionOptions
from ..options import option
from ..paths import require_checkpoint, require_different
from .output import JsonOutput, file_of, in_color, print_unless_json, write_json_lines

if TYPE_CHECKING:
    from ..inspection.measurements import Measurement


@dataclass(kw_only=True)
class InspectOptions(InspectionOptions, JsonOutput):
    checkpoint: list[Path] = option(help="fairseq checkpoints of masked-LM models", metavar="PT")


def inspect(options: InspectOptions) -> None:
    """Measure checkpoints' loss, accuracy and false negatives on a binarized split, and show some.

    Prints a row for each checkpoint (loss in bits; accuracy, calibration error, Table 2 in %), then the most frequent
    corrected pairs and examples of the last one.
    """
    from ..synonyms.provision import TABLE_NAME

    require_different(
        checkpoint=options.checkpoint,
        synonym_table=options.synonym_table or options.data / TABLE_NAME,
        json=file_of(options),
    )
    for checkpoint in options.checkpoint:
        require_checkpoint(checkpoint)
    from .. import register

    register()
    from ..inspection.inspector import Inspector
    from ..inspection.measurements import COLUMNS

    say, last = print_unless_json(options), options.checkpoint[-1]
    inspector = Inspector(options)
    # Converted weights do not know how long the samples of the training will be: its last checkpoint does.
    inspector.prepare(last)
    say("  ".join(f"{name:>9}" for name, _ in COLUMNS) + "  checkpoint")
    measured: list[Measurement] = []
    for checkpoint in options.checkpoint:
        measured.append(inspector.measure(checkpoint, examples=options.examples if checkpoint is last else 0))
        say(measured[-1].row())
    _show_false_negatives(measured[-1], options, say)
    write_json_lines(options, [each.record() for each in measured])


def _show_false_negatives(measured: Measurement, options: InspectOptions, say: Callable[[str], None]) -> None:
    from ..inspection.sentences import describe

    if measured.pairs:
        say(f"\nthe most frequent corrected pairs of {measured.checkpoint}")
    for gold, prediction, count in measured.pairs:
        say(f"{count:8d}  {gold} -> {prediction}")
    if options.examples:
        say(f"\n{len(measured.examples)} of {measured.false_negatives} false negatives of {measured.checkpoint}")
    for example in measured.examples:
        say("  " + describe(example, color=in_color()))
