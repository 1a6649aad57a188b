"""The README.md of an exported model: a model card with the metadata that the Hugging Face hub reads."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .. import __version__
from ..errors import TrueNegError
from ..files import CITATION, read_record
from ..models.checkpoints import Checkpoint
from ..trainer.folder import read_manifest

CARD = "README.md"
# By the end of the class's name: the hub's task and transformers' class that loads it.
_KINDS = {
    "ForQuestionAnswering": ("question-answering", "AutoModelForQuestionAnswering"),
    "ForSequenceClassification": ("text-classification", "AutoModelForSequenceClassification"),
    "ForMaskedLM": ("fill-mask", "AutoModelForMaskedLM"),
    "BertForPreTraining": ("feature-extraction", "AutoModelForPreTraining"),
    "ForPreTraining": (None, "AutoModelForPreTraining"),
    "Model": ("feature-extraction", "AutoModel"),
}
_OBJECTIVE = re.compile(r"(hc|sr_word|sr_sent)_weight|\w+_targets")
_COUNTS = ("documents", "lines", "sequences", "tokens")
_SETTINGS = ("lr", "batch_size", "max_tokens", "update_freq", "tokens_per_sample")
_CARD = """\
---
# license: fill in one of https://hf.co/docs/hub/repositories-licenses, and remove the # before it
{metadata}
---

# {name}

A {architecture}, exported by `truneg convert` {version}.

```python
from transformers import {auto}, AutoTokenizer

folder = "."  # or the name of the repository
model, tokenizer = {auto}.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
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

    pipeline, auto = next(kind for end, kind in _KINDS.items() if architecture.endswith(end))
    training, tags = ["None by fairseq: these weights were converted to a checkpoint, and back."], ["truneg_fairseq"]
    if checkpoint.updates != 0:
        criterion = str(checkpoint.criterion.get("_name") or checkpoint.criterion.get("criterion") or "")
        objective = _objective(criterion, checkpoint.criterion)
        training = [*_training(checkpoint, criterion, objective), *_data(data)]
        tags += [*(["true-negatives"] if objective.keys() - {"uniform_targets"} else []), *filter(None, [criterion])]
    return _CARD.format(
        metadata=ModelCardData(library_name="transformers", pipeline_tag=pipeline, tags=tags).to_yaml(),
        name=name,
        architecture=architecture,
        version=__version__,
        auto=auto,
        training="\n".join(f"- {line}" for line in training),
        citation=CITATION,
    )


def _objective(name: str, criterion: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a criterion that make its loss another one than cross-entropy, with their values."""
    from fairseq.criterions import CRITERION_DATACLASS_REGISTRY

    kind = CRITERION_DATACLASS_REGISTRY.get(name)
    names = [field.name for field in dataclasses.fields(kind)] if kind is not None else []
    values = {name: criterion.get(name, getattr(kind, name, None)) for name in filter(_OBJECTIVE.fullmatch, names)}
    return {name: value for name, value in values.items() if value not in (None, 0, "none")}


def _training(checkpoint: Checkpoint, criterion: str, objective: Mapping[str, Any]) -> list[str]:
    started, task = checkpoint.started_from, checkpoint.task.get("_name") or checkpoint.task.get("task")
    starts = read_manifest(checkpoint.path.parent)
    last: Mapping[str, Any] = starts[-1] if starts else {}
    settings = dict(last.get("settings") or {})
    chosen = [f"`{name}` {str(settings[name]).strip('[]')}" for name in _SETTINGS if settings.get(name)]
    versions = [f"{name} {version}" for name, version in dict(last.get("versions") or {}).items() if version]
    lines = {
        "Started from the weights of": started and f"`{started}`",
        "Criterion": criterion and f"`{criterion}`",
        "Objective": ", ".join(f"`{name}` {value}" for name, value in objective.items()),
        "Synonyms": last.get("synonym_source"),
        "Task": task and f"`{task}`",
        "Updates": f"{checkpoint.updates:,}" if checkpoint.updates else None,
        "Settings": ", ".join(chosen),
        "Revision": last.get("revision"),
        "Versions": ", ".join(versions),
    }
    return [f"{what}: {value}" for what, value in lines.items() if value]


def _data(folder: Path) -> list[str]:
    record: dict[str, Any] = {}
    with contextlib.suppress(TrueNegError):  # none, or one of something else
        record = read_record(folder)
    found = {
        split: [f"{counts[name]:,} {name}" for name in _COUNTS if name in counts]
        for split, counts in dict(record.get("splits") or {}).items()
    }
    return [f"Data, {split}: {', '.join(numbers)}" for split, numbers in found.items() if numbers] or [
        "Data: to be filled in (the data folder has no record)"
    ]
