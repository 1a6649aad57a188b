"""The README.md of an exported model: a model card with the metadata that the Hugging Face hub reads."""

from __future__ import annotations

import contextlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from .. import __version__
from ..errors import TrueNegError
from ..files import CITATION, read_record
from ..flags import select
from ..models.checkpoints import Checkpoint
from ..objectives.options import ElectraOptions

# The options that name files of this machine.
_FILES = ("synonym_table", "corpus_counts", "teacher", "hc_acceptance_model")
_COUNTS = ("documents", "lines", "sequences", "tokens")
_CARD = """\
---
# license: fill in one of https://hf.co/docs/hub/repositories-licenses, and remove the # before it
{metadata}
---

# {name}

A {architecture}, exported by `truneg convert` {version}.

```python
from transformers import AutoTokenizer, {architecture}

folder = "."  # or the name of the repository
model, tokenizer = {architecture}.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
```

## Training

{training}

## Licence

To be filled in by the publisher of the model, here and in the first lines of this file.

## Citation

```bibtex
{citation}
```
"""


def model_card(checkpoint: Checkpoint, data: Path, architecture: str, *, name: str) -> str:
    """The text of a model card: how the model was trained. It names no local path."""
    from huggingface_hub import ModelCardData

    training, tags = ["None by fairseq: these weights were converted to a checkpoint, and back."], ["truneg_fairseq"]
    if checkpoint.updates != 0:
        criterion, record = checkpoint.criterion, dict[str, Any]()
        with contextlib.suppress(TrueNegError):  # none, or one of something else
            record = read_record(data)
        told = {name: value for name, value in criterion.items() if name not in _FILES}
        options = select(ElectraOptions, SimpleNamespace(**told))
        trained_by = criterion.get("_name") or criterion.get("criterion")
        lines = {
            "Criterion": trained_by and f"`{trained_by}`",
            "Objective": f"`{options.described()}`",
            "Started from the weights of": checkpoint.started_from and f"`{checkpoint.started_from}`",
            "Updates": checkpoint.updates and f"{checkpoint.updates:,}",
            "Data": "to be filled in (the data folder has no record)" if not record else None,
        }
        for split, counts in dict(record.get("splits") or {}).items():
            numbers = [f"{counts[what]:,} {what}" for what in _COUNTS if what in counts]
            lines[f"Data, {split}"] = ", ".join(numbers)
        training = [f"{what}: {value}" for what, value in lines.items() if value]
        on_true_negatives = options.sources.keys() - {"uniform"} or options.weights_of_terms
        tags += [*(["true-negatives"] if on_true_negatives else []), *([trained_by] if trained_by else [])]
    return _CARD.format(
        metadata=ModelCardData(library_name="transformers", tags=tags).to_yaml(),
        name=name,
        architecture=architecture,
        version=__version__,
        training="\n".join(f"- {line}" for line in training),
        citation=CITATION,
    )
