"""The README.md of an exported model: a model card with the metadata that the Hugging Face hub reads."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

from ..errors import TrueNegError
from ..files import CITATION, VERSION, read_record
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

## Citation

```bibtex
{citation}
```
"""


def model_card(checkpoint: Checkpoint, data: Path, architecture: str, *, name: str) -> str:
    """The text of a model card: how the model was trained. It names no local path."""
    from huggingface_hub import ModelCardData

    told = {name: value for name, value in checkpoint.criterion.items() if name not in _FILES}
    criterion, options = told.get("_name") or told.get("criterion"), select(ElectraOptions, SimpleNamespace(**told))
    training, tags = ["None by fairseq: these weights were converted to a checkpoint, and back."], ["truneg_fairseq"]
    if checkpoint.updates != 0:
        lines = {
            "Criterion": criterion and f"`{criterion}`",
            "Objective": f"`{options.described()}`",
            "Started from the weights of": checkpoint.started_from and f"`{checkpoint.started_from}`",
            "Updates": checkpoint.updates and f"{checkpoint.updates:,}",
            **_amounts(data),
        }
        training = [f"{what}: {value}" for what, value in lines.items() if value]
        if options.sources.keys() - {"uniform"} or options.weights_of_terms:
            tags.append("true-negatives")
        tags += [criterion] if criterion else []
    return _CARD.format(
        metadata=ModelCardData(library_name="transformers", tags=tags).to_yaml(),
        name=name,
        architecture=architecture,
        version=VERSION,
        training="\n".join(f"- {line}" for line in training),
        citation=CITATION,
    )


def _amounts(data: Path) -> dict[str, str]:
    """How much text the record beside the data counts, by split."""
    try:
        splits = read_record(data).splits
    except TrueNegError:  # no record, or one of something else
        return {}
    return {
        f"Data, {split}": ", ".join(f"{counts[what]:,} {what}" for what in _COUNTS if what in counts)
        for split, counts in splits.items()
    }
