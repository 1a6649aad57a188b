"""Checkpoints on data, told in lines: a row of rates for each, then examples of false negatives."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import TrueNegError
from ..files import replacing_text
from ..paths import require_checkpoint, require_writable

if TYPE_CHECKING:
    from .inspector import Inspection

_COLUMNS = (
    ("updates", "{:d}"),
    ("loss", "{:.3f}"),
    ("ppl", "{:.2f}"),
    ("accuracy", "{:.2f}"),
    ("hc_pred", "{:.3f}"),
    ("hc_iter", "{:.2f}"),
)


def report(
    checkpoints: Sequence[Path],
    data: Path,
    *,
    split: str = "valid",
    batch_size: int = 32,
    synonym_table: Path | None = None,
    tokenization: str = "auto",
    examples: int = 10,
    json_file: Path | None = None,
    color: bool = False,
) -> Iterator[str]:
    """Lines as they are known: loss in bits; accuracy and the rates of Table 2 in %; examples of the last checkpoint.

    Args:
        checkpoints: fairseq's, of masked-LM models.
        data: folder of binarized data.
        split: "valid", "test", "train", ...
        batch_size: sequences a batch.
        synonym_table: a table, None for the one beside the data (built when missing).
        tokenization: see :class:`truneg_fairseq.vocabulary.Vocabulary`.
        examples: false negatives to show.
        json_file: gets one JSON line a checkpoint.
        color: mark the words of examples with ANSI colours.

    Raises:
        TrueNegError: an option is out of range, or a file cannot be read or written.
    """
    if batch_size < 1 or examples < 0:
        raise TrueNegError(f"--batch-size {batch_size}, --examples {examples}: expected at least 1 and at least 0")
    for checkpoint in checkpoints:
        require_checkpoint(checkpoint)
    if json_file is not None:
        require_writable(json_file, "--json")
    from .. import register

    register()
    from .inspector import Inspector
    from .sentences import describe

    inspector = Inspector(data, split, batch_size=batch_size, synonym_table=synonym_table, tokenization=tokenization)
    # Weights that were converted do not know how long the samples of the training will be: its last checkpoint does.
    inspector.prepare(checkpoints[-1])
    inspections: list[Inspection] = []
    yield "  ".join(f"{name:>9}" for name, _ in _COLUMNS) + "  checkpoint"
    for checkpoint in checkpoints:
        collect = examples > 0 and len(inspections) == len(checkpoints) - 1
        inspections.append(inspector.inspect(checkpoint, collect=collect))
        yield _row(inspections[-1])
    if json_file is not None:
        with replacing_text(json_file) as file:
            file.writelines(json.dumps(_record(inspection)) + "\n" for inspection in inspections)
    if examples:
        shown = inspections[-1].sample(examples)
        yield f"\n{len(shown)} of {len(inspections[-1].examples)} false negatives of {checkpoints[-1]}"
        for example in shown:
            yield "  " + describe(example, inspector.vocabulary, color=color)


def _record(inspection: Inspection) -> dict[str, object]:
    return {"checkpoint": str(inspection.checkpoint), "updates": inspection.updates, **inspection.values}


def _row(inspection: Inspection) -> str:
    record = _record(inspection)
    return "  ".join(f"{style.format(record[name]):>9}" for name, style in _COLUMNS) + f"  {inspection.checkpoint}"
