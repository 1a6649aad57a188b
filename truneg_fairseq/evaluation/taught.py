"""The synonym table that a checkpoint was trained with, as its options record it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

from ..models.checkpoints import read_checkpoint
from ..objective_factory import MODEL_SOURCE, with_preset
from ..objectives.settings import ElectraSettings
from ..synonyms.build import table_beside


def recorded_table(checkpoint: Path) -> Path | None:
    """The file of the table; None where the objective needed none, or the model's own synonyms."""
    read = read_checkpoint(checkpoint)
    options = with_preset(SimpleNamespace(**read.criterion))
    source = getattr(options, "synonym_source", None)
    if not ElectraSettings.of(options).needs_table or source == MODEL_SOURCE:
        return None
    if table := getattr(options, "synonym_table", None):
        return Path(str(table))
    return table_beside(Path(str(read.task.get("data", "")).split(":")[0]), source)
