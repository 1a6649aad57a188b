"""Continues a masked LM of transformers on true negatives, and evaluates and saves it as transformers' users expect.

    python train.py --model bert-base-uncased --train train.txt --valid valid.txt --output_dir DIR --hc_weight 1
    python train.py --model DIR --dataset NAME --output_dir DIR --hc_weight 1 --synonym_source wordnet

Text files have a paragraph a line. Every option of transformers' TrainingArguments and of
truneg_fairseq.hf.TrueNegativeArguments is a flag.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from truneg_fairseq.errors import TrueNegError, one_line_errors, reason
from truneg_fairseq.hf import TrueNegativeArguments, TrueNegativeTrainer

PARAGRAPHS = 1000


@dataclass
class ScriptArguments:
    """What is trained on what."""

    model: str = field(metadata={"help": "a masked LM with its tokenizer: folder or name on the hub"})
    train: list[str] = field(default_factory=list, metadata={"help": "text files"})
    valid: list[str] = field(default_factory=list, metadata={"help": "text files"})
    dataset: str | None = field(default=None, metadata={"help": "in place of files: a name for the package datasets"})
    dataset_config: str | None = field(default=None, metadata={"help": "its configuration"})
    text_column: str = field(default="text", metadata={"help": "its column"})
    tokens_per_sample: int = field(default=512, metadata={"help": "tokens of a sample, specials included"})
    mask_prob: float = field(default=0.15, metadata={"help": "share of the tokens that is predicted"})
    from_scratch: bool = field(default=False, metadata={"help": "start from random weights"})


def texts(arguments: ScriptArguments, split: str) -> Iterator[str]:
    """The paragraphs of "train" or "valid".

    Raises:
        TrueNegError: no text is given, a file or a dataset cannot be read, or the package datasets is not installed.
    """
    files = getattr(arguments, split)
    if bool(files) == (arguments.dataset is not None):
        raise TrueNegError(f"--{split}: expected text files, or --dataset in their place")
    for name in files:
        try:
            with Path(name).open(encoding="utf-8") as stream:
                yield from stream
        except (OSError, UnicodeDecodeError) as error:
            raise TrueNegError(f"--{split} {name}: cannot be read ({error}); expected UTF-8 text") from None
    if arguments.dataset is not None:
        try:
            from datasets import load_dataset
        except ImportError:
            raise TrueNegError("--dataset: needs the package datasets; run pip install datasets") from None
        part = {"train": "train", "valid": "validation"}[split]
        try:
            data = load_dataset(arguments.dataset, arguments.dataset_config, split=part)
        except Exception as error:  # of many kinds, with lines of advice
            raise TrueNegError(f"--dataset {arguments.dataset}: {part} cannot be loaded ({reason(error)})") from None
        if arguments.text_column not in data.column_names:
            raise TrueNegError(
                f"--text_column {arguments.text_column}: not in --dataset {arguments.dataset}, expected one of "
                f"{', '.join(data.column_names)}"
            )
        yield from data[arguments.text_column]


def samples(lines: Iterable[str], tokenizer: Any, length: int) -> list[dict[str, list[int]]]:
    """Samples of the running text of ``PARAGRAPHS`` paragraphs at a time, the last of them shorter."""
    found: list[dict[str, list[int]]] = []
    paragraphs = (line.strip() for line in lines if line.strip())
    while text := " ".join(islice(paragraphs, PARAGRAPHS)):
        encoded = tokenizer(text, truncation=True, max_length=length, return_overflowing_tokens=True)
        found += [{"input_ids": tokens} for tokens in encoded["input_ids"]]
    return found


def main() -> None:
    """Trains, evaluates and saves."""
    from transformers import (
        AutoModelForMaskedLM,
        AutoTokenizer,
        DataCollatorForLanguageModeling,
        HfArgumentParser,
        TrainingArguments,
    )

    parser = HfArgumentParser((ScriptArguments, TrueNegativeArguments, TrainingArguments), description=__doc__)
    arguments, true_negatives, training = parser.parse_args_into_dataclasses()
    try:
        tokenizer = AutoTokenizer.from_pretrained(arguments.model)
        model = AutoModelForMaskedLM.from_pretrained(arguments.model)
    except (OSError, ValueError) as error:  # with lines of advice
        raise TrueNegError(
            f"--model {arguments.model}: cannot be loaded ({reason(error).splitlines()[0]}); expected a folder "
            "or a name on the hub"
        ) from None
    if not 0 < arguments.mask_prob < 1:
        raise TrueNegError(f"--mask_prob {arguments.mask_prob}: expected a number between 0 and 1")
    shortest = tokenizer.num_special_tokens_to_add() + 1
    if arguments.tokens_per_sample < shortest:
        raise TrueNegError(f"--tokens_per_sample {arguments.tokens_per_sample}: expected {shortest} or more")
    if arguments.from_scratch:
        model = type(model)(model.config)
    length = arguments.tokens_per_sample
    positions = getattr(getattr(model.base_model, "embeddings", None), "position_embeddings", None)
    if positions is not None:
        # RoBERTa's first positions, up to that of padding, are no token's.
        longest = positions.num_embeddings - (0 if positions.padding_idx is None else positions.padding_idx + 1)
        if length > longest:
            raise TrueNegError(f"--tokens_per_sample {length}: the model has {longest} positions; expected no more")
    data = {split: samples(texts(arguments, split), tokenizer, length) for split in ("train", "valid")}
    for split, found in data.items():
        if not found:
            raise TrueNegError(f"--{split}: found no text; expected a paragraph a line")
    trainer = TrueNegativeTrainer(
        model,
        training,
        true_negatives=true_negatives,
        data_collator=DataCollatorForLanguageModeling(tokenizer, mlm_probability=arguments.mask_prob),
        train_dataset=data["train"],
        eval_dataset=data["valid"],
        processing_class=tokenizer,
    )
    result = trainer.train(resume_from_checkpoint=training.resume_from_checkpoint)
    trainer.save_model()
    trainer.save_state()
    trainer.save_metrics("train", result.metrics)
    metrics = trainer.evaluate()
    metrics["perplexity"] = math.exp(min(metrics["eval_loss"], 100.0))
    trainer.log_metrics("eval", metrics)
    trainer.save_metrics("eval", metrics)
    trainer.create_model_card(tags=["truneg_fairseq", "true-negatives"])


if __name__ == "__main__":
    with one_line_errors():
        main()
