"""The README.md of an exported model: a model card with the metadata block that the Hugging Face hub reads."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from statistics import fmean, stdev
from types import SimpleNamespace
from typing import Any

from .. import __version__
from ..errors import TrueNegError
from ..files import CITATION, read_record
from ..models.checkpoints import Checkpoint
from ..objective_factory import with_preset
from ..objectives.settings import ElectraSettings
from ..results.result import Result, read_results
from ..results.tables import Table, markdown
from ..trainer.folder import read_manifest

CARD = "README.md"
_AUTO = {
    "question-answering": "AutoModelForQuestionAnswering",
    "text-classification": "AutoModelForSequenceClassification",
    "fill-mask": "AutoModelForMaskedLM",
    "text2text-generation": "AutoModelForSeq2SeqLM",
}
_HEADS = {
    "ForConditionalGeneration": "text2text-generation",
    "ForQuestionAnswering": "question-answering",
    "ForSequenceClassification": "text-classification",
    "ForMaskedLM": "fill-mask",
    "ForPreTraining": "feature-extraction",
    "Model": "feature-extraction",
}
_TEMPLATE = """\
---
# license: fill in one of https://hf.co/docs/hub/repositories-licenses, and remove the # before it
{metadata}
---

# {name}

A {architecture}, {trained}exported by `truneg convert to-hf` {version}.

```python
from transformers import {auto}, AutoTokenizer

folder = "."  # or the name of the repository
model, tokenizer = {auto}.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
```

## Training

{training}

{results}## Licence

To be filled in by who publishes the model, here and in the first lines of this file.

## Citation

```bibtex
{citation}
```
"""
_SETTINGS = {
    "lr": "Learning rate",
    "batch_size": "Sequences per batch and worker",
    "max_tokens": "Most tokens per batch and worker",
    "update_freq": "Batches per update",
    "tokens_per_sample": "Tokens per sequence",
}
_BY_FAIRSEQ = "trained with [fairseq](https://github.com/facebookresearch/fairseq) and truneg_fairseq and "
_UNTRAINED = "None by fairseq: these weights were converted to a checkpoint, and back"
_GLUE = ("CoLA", "SST-2", "MRPC", "STS-B", "QQP", "MNLI", "QNLI", "RTE", "WNLI")


def card_results(paths: Iterable[Path]) -> list[Result]:
    """The results to show in a card."""
    results = read_results(paths)
    models = sorted({result.model for result in results})
    if len(models) > 1:
        raise TrueNegError(
            f"--results: found runs of {', '.join(models)}, expected those of the exported model alone; give a file of "
            "them"
        )
    return results


def model_card(
    checkpoint: Checkpoint, data: Path, architecture: str, *, name: str, results: Iterable[Result] = ()
) -> str:
    """The text of a model card; the record of the data tells how much text it is. No path of this machine is in it."""
    from huggingface_hub import ModelCardData

    pipeline = next(task for head, task in _HEADS.items() if architecture.endswith(head))
    scores: dict[tuple[str, str], list[float]] = defaultdict(list)  # the values over the seeds, by task and metric
    for result in results:
        for metric, value in result.metrics.items():
            scores[result.task, metric].append(value)
    trained = checkpoint.updates != 0
    starts = read_manifest(checkpoint.path.parent)
    lines = [*_training(checkpoint, starts[-1] if starts else {}), *_data(data)] if trained else [_UNTRAINED]
    metadata = ModelCardData(
        library_name="transformers",
        pipeline_tag=None if architecture == "ElectraForPreTraining" else pipeline,
        tags=["truneg_fairseq", *(["true-negatives", *_criterion(checkpoint)] if trained else [])],
        model_name=name,
        eval_results=_index(scores) or None,
    )
    pre_training = "AutoModelForPreTraining" if architecture.endswith("PreTraining") else "AutoModel"
    return _TEMPLATE.format(
        metadata=metadata.to_yaml(),
        name=name,
        architecture=architecture,
        trained=_BY_FAIRSEQ if trained else "",
        version=__version__,
        auto=_AUTO.get(pipeline, pre_training),
        training="\n".join(f"- {line}" for line in lines),
        results=_table(scores),
        citation=CITATION,
    )


def _criterion(checkpoint: Checkpoint) -> list[str]:
    name = checkpoint.criterion.get("_name") or checkpoint.criterion.get("criterion")
    return [str(name)] if name else []


def _training(checkpoint: Checkpoint, last_start: Mapping[str, Any]) -> list[str]:
    lines = [f"Started from: the weights of `{checkpoint.started_from}`"] if checkpoint.started_from else []
    lines += [f"Criterion: `{name}`" for name in _criterion(checkpoint)]
    given = with_preset(SimpleNamespace(**checkpoint.criterion))
    settings = ElectraSettings.of(given)
    options = {field.name: getattr(settings, field.name) for field in fields(settings)}
    changed = {name: value for name, value in options.items() if value != getattr(ElectraSettings(), name)}
    if "discriminator_weight" in checkpoint.criterion:
        changed["discriminator_weight"] = checkpoint.criterion["discriminator_weight"]
    if changed:
        lines.append("Objective: " + ", ".join(f"`{name}` {value}" for name, value in changed.items()))
    if settings.needs_table:
        source = last_start.get("synonym_source")
        if source is None and getattr(given, "synonym_table", None) is None:  # a table may be of any source
            source = getattr(given, "synonym_source", None)
        lines.append(f"Synonyms: {source or 'to be filled in'}")
    task = checkpoint.task.get("_name") or checkpoint.task.get("task")
    if task:
        lines.append(f"Task: `{task}`")
    if checkpoint.updates:
        lines.append(f"Updates: {checkpoint.updates:,}")
    chosen = dict(last_start.get("settings") or {})
    lines += [f"{what}: {str(chosen[name]).strip('[]')}" for name, what in _SETTINGS.items() if chosen.get(name)]
    if last_start.get("revision"):
        lines.append(f"Revision: {last_start['revision']}")
    used = [f"{name} {version}" for name, version in dict(last_start.get("versions") or {}).items() if version]
    return [*lines, f"Versions: {', '.join(used)}"] if used else lines


def _data(folder: Path) -> list[str]:
    record: dict[str, Any] = {}
    with contextlib.suppress(TrueNegError):  # none, or one of something else
        record = read_record(folder)
    lines = []
    for split, counts in dict(record.get("splits") or {}).items():
        numbers = {name: value for name, value in dict(counts).items() if isinstance(value, int)}
        lines.append(f"Data, {split}: " + ", ".join(f"{value:,} {name}" for name, value in numbers.items()))
    tokenizer = dict(record.get("settings") or {}).get("tokenizer")
    if isinstance(tokenizer, Mapping) and "kind" in tokenizer:
        lines.append(f"Tokenizer: {tokenizer['kind']}")
    return lines or ["Data: to be filled in (the data folder has no record)"]


def _index(scores: Mapping[tuple[str, str], list[float]]) -> list[Any]:
    """The results for the hub's model-index."""
    from huggingface_hub import EvalResult

    return [
        EvalResult(
            task_type=_kind(task, [metric for of, metric in scores if of == task]),
            dataset_type="glue" if task in _GLUE else task,
            dataset_name=f"GLUE {task}" if task in _GLUE else task,
            metric_type=metric,
            metric_value=round(fmean(values), 6),
            metric_name=f"{metric}, mean of {len(values)} seeds",
        )
        for (task, metric), values in scores.items()
    ]


def _kind(task: str, metrics: Iterable[str]) -> str:
    """The kind of a task; SQuAD and its attacks have exact match and F1."""
    if task in _GLUE:
        return "text-classification"
    return "question-answering" if any(metric.endswith(("exact_match", "f1")) for metric in metrics) else "fill-mask"


def _table(scores: Mapping[tuple[str, str], list[float]]) -> str:
    if not scores:
        return ""
    rows = [
        (task, metric, f"{fmean(values):.4f}", f"{stdev(values):.4f}" if len(values) > 1 else "-", str(len(values)))
        for (task, metric), values in scores.items()
    ]
    table = Table("Results", ("task", "metric", "mean", "standard deviation", "seeds"), tuple(rows))
    return "\n".join(
        ["## Results", "", "Of GLUE and SQuAD: fine-tuned, on the development sets.", "", *markdown(table)[2:], "", ""]
    )
