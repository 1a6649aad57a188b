"""What an output folder says of its training: a file with the options, and the model card."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import transformers

from ..files import CITATION, VERSION, replacing_text
from .arguments import ElectraArguments, TrueNegativeArguments

RECORD_NAME = "true_negatives.json"

# The first sentence of transformers' card, which knows neither local folders nor the data.
_FIRST_SENTENCE = re.compile(r"^This model (was trained from scratch|is a fine-tuned version of) .*?\.$", re.MULTILINE)
_LEFT_OPEN = re.compile(r"\n## [^\n]+\n\nMore information needed\n")


def describe_data(data: Any) -> str:
    """A data set in words: its name where it has one, and how many examples; several by their names."""
    if isinstance(data, dict):
        return "; ".join(f"{name}: {describe_data(each)}" for name, each in data.items())
    size = f"{len(data):,} examples" if hasattr(data, "__len__") else type(data).__name__
    names = [getattr(data, name, None) for name in ("builder_name", "config_name", "split")]
    return ", ".join([" ".join(str(name) for name in names if name), size]).removeprefix(", ")


def write_record(folder: Path, record: Mapping[str, Any]) -> None:
    """Writes the file of a folder, at once or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    with replacing_text(folder / RECORD_NAME) as stream:
        stream.write(json.dumps(record, indent=2, ensure_ascii=False) + "\n")


def read_record(folder: Path) -> dict[str, Any]:
    """What :func:`record_of` made; {} for a folder of stock transformers."""
    path = folder / RECORD_NAME
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


def changed_options(record: Mapping[str, Any], settings: TrueNegativeArguments) -> list[str]:
    """Which true-negative options are others than those of a record, as "name before -> now"."""
    given = asdict(settings)
    before = {**asdict(type(settings)()), **record["true_negatives"]}
    names = [name for name in {**given, **before} if before.get(name) != given.get(name)]
    return [f"{name} {before.get(name)} -> {given.get(name)}" for name in names]


def record_of(trainer: Any, model: Any, longest: int) -> dict[str, Any]:
    """What is written: versions, options, base model, data and the training's main settings.

    Args:
        trainer: a :class:`~.trainer.TrueNegativeTrainer`.
        model: its model, unwrapped.
        longest: tokens of the longest batch so far.
    """
    args, state = trainer.args, trainer.state
    data = {"train": trainer.train_dataset, "validation": trainer.eval_dataset}
    steps = args.gradient_accumulation_steps
    return {
        "versions": {"truneg_fairseq": VERSION, "transformers": transformers.__version__},
        "model": type(model).__name__,
        "base_model": getattr(model, "name_or_path", "") or None,
        "data": {
            name: trainer.data.get(name) or describe_data(each) for name, each in data.items() if each is not None
        },
        "true_negatives": asdict(trainer.settings),
        "training": {
            "learning_rate": args.learning_rate,
            "lr_scheduler_type": str(getattr(args.lr_scheduler_type, "value", args.lr_scheduler_type)),
            "sequences_in_an_update": args.per_device_train_batch_size * steps * args.world_size,
            "longest_sequence": longest,
            "updates": state.global_step,
            "seed": args.seed,
        },
    }


def with_record(card: str, record: Mapping[str, Any]) -> str:
    """Transformers' model card with what the record says, and the citation."""
    base, data, training = record["base_model"], record["data"], record["training"]
    name = f"`{Path(base).name}`" if base and Path(base).is_dir() else f"[{base}](https://huggingface.co/{base})"
    start = f"It continues {name}" if base else "It was trained from random weights"
    text = f"This model was trained on true negatives. {start}, on {data.get('train', 'data to be filled in')}."
    card = _LEFT_OPEN.sub("", _FIRST_SENTENCE.sub(lambda _: text, card, count=1))
    kind = ElectraArguments if "discriminator_weight" in record["true_negatives"] else TrueNegativeArguments
    defaults = asdict(kind())
    changed = {name: value for name, value in record["true_negatives"].items() if value != defaults.get(name)}
    lines = [
        f"Base model: {name if base else 'none'}",
        *(f"Data, {split}: {what}" for split, what in data.items()),
        "Objective: " + (", ".join(f"`{name}` {value}" for name, value in changed.items()) or "plain masked LM"),
        f"Learning rate: {training['learning_rate']}, {training['lr_scheduler_type']}",
        f"Batch: {training['sequences_in_an_update']} sequences, of up to {training['longest_sequence']} tokens",
        f"Updates: {training['updates']:,}",
        f"Trained with: truneg_fairseq {record['versions']['truneg_fairseq']}",
    ]
    listed = "\n".join(f"- {line}" for line in lines)
    return f"{card.rstrip()}\n\n## True negatives\n\n{listed}\n\n## Citation\n\n```bibtex\n{CITATION}\n```\n"
