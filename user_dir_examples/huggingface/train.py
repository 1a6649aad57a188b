"""Continues a masked LM of transformers on true negatives, and evaluates and saves it as transformers' users expect.

    python train.py --model_name_or_path bert-base-uncased --train_file train.txt --validation_file valid.txt \\
        --output_dir DIR --hc_weight 1
    python train.py --model_name_or_path DIR --dataset_name NAME --output_dir DIR --hc_weight 1

Text files are plain text with a paragraph per line. Every option of transformers' TrainingArguments and of
truneg_fairseq.hf.TrueNegativeArguments is a flag. Started again in the same folder, it continues from the newest whole
checkpoint, or says that it is finished. At the end it prints the held-out text's loss (in nats) and accuracy before and
after.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from truneg_fairseq.data.text import read_lines
from truneg_fairseq.errors import TrueNegError, one_line_errors, reason, require
from truneg_fairseq.files import refuse_adapter
from truneg_fairseq.flags import option

with one_line_errors():  # where transformers is not installed
    from truneg_fairseq.hf import DataCollatorForTrueNegatives, TrueNegativeArguments, TrueNegativeTrainer
    from truneg_fairseq.hf.record import is_finished, newest_checkpoint, read_record, state_of

PARAGRAPHS = 1000

logger = logging.getLogger("truneg_fairseq")


@dataclass
class ScriptArguments:
    """What is trained on what."""

    model_name_or_path: str | None = option(None, "a masked LM with its tokenizer: folder, or name on the Hub")
    config_name: str | None = option(None, "without a model: random weights of this configuration (with a tokenizer)")
    tokenizer_name: str | None = option(None, "another tokenizer than the model's")
    train_file: list[str] = option(default_factory=list, help="files of plain text")
    validation_file: list[str] = option(default_factory=list, help="files of plain text, held out")
    dataset_name: str | None = option(None, "in place of files: a name for the package datasets")
    dataset_config_name: str | None = option(None, "its configuration")
    text_column: str = option("text", "its column")
    max_seq_length: int = option(512, "tokens of a sample, special ones included")
    mlm_probability: float = option(0.15, "share of the tokens that is predicted")
    final_mlm_probability: float | None = option(None, "the share at the end of the training, to which it falls")
    whole_words: bool = option(False, "mask all tokens of a word or none")
    trust_remote_code: bool = option(False, "run the code of a model or tokenizer; only if you trust its author")


def texts(arguments: ScriptArguments, split: str) -> Iterator[str]:
    """The paragraphs of "train" or "validation"."""
    files = getattr(arguments, f"{split}_file")
    if bool(files) == (arguments.dataset_name is not None):
        raise TrueNegError(f"--{split}_file: expected text files, or --dataset_name in their place")
    for name in files:
        try:
            yield from read_lines(Path(name))
        except OSError as error:
            found = f"--{split}_file {name}: cannot be read ({reason(error)})"
            raise TrueNegError(f"{found}; expected UTF-8 text") from None
    if arguments.dataset_name is not None:
        require("datasets")
        from datasets import load_dataset

        data = load_dataset(arguments.dataset_name, arguments.dataset_config_name, split=split)
        yield from data[arguments.text_column]


def samples(lines: Iterable[str], tokenizer: Any, length: int) -> list[dict[str, list[int]]]:
    """Samples of the running text of ``PARAGRAPHS`` paragraphs at a time, the last of them shorter."""
    found: list[dict[str, list[int]]] = []
    paragraphs = (line.strip() for line in lines if line.strip())
    while text := " ".join(islice(paragraphs, PARAGRAPHS)):
        if tokenizer.is_fast:
            encoded = tokenizer(text, truncation=True, max_length=length, return_overflowing_tokens=True, verbose=False)
            found += [{"input_ids": tokens} for tokens in encoded["input_ids"]]
            continue
        # Tokenizers in Python, such as BERTweet's, give only the first sample.
        tokens = tokenizer(text, add_special_tokens=False)["input_ids"]
        size = length - tokenizer.num_special_tokens_to_add()
        parts = (tokens[start : start + size] for start in range(0, len(tokens), size))
        found += [{"input_ids": tokenizer.build_inputs_with_special_tokens(part)} for part in parts]
    return found


def load(arguments: ScriptArguments) -> tuple[Any, Any]:
    """The model and its tokenizer."""
    from transformers import AutoConfig, AutoModelForMaskedLM, AutoTokenizer

    name = arguments.model_name_or_path or arguments.config_name
    if name is None:
        raise TrueNegError("--model_name_or_path: expected a model, or --config_name for random weights")
    trust = {"trust_remote_code": arguments.trust_remote_code}
    try:
        refuse_adapter(name, "--model_name_or_path ")
        tokenizer = AutoTokenizer.from_pretrained(arguments.tokenizer_name or name, **trust)
        config = AutoConfig.from_pretrained(arguments.config_name or name, **trust)
        if arguments.model_name_or_path:
            model, loading = AutoModelForMaskedLM.from_pretrained(
                name, config=config, output_loading_info=True, **trust
            )
            start_as_identity(model, loading["missing_keys"])
            return model, tokenizer
        config.name_or_path = ""  # no base model
        return AutoModelForMaskedLM.from_config(config, **trust), tokenizer
    except (OSError, ValueError) as error:
        code = "its own code, which --trust_remote_code runs" if "remote_code" in str(error) else reason(error)
        raise TrueNegError(f"{name}: cannot be loaded ({code}); expected a masked LM and its tokenizer") from None


def start_as_identity(model: Any, missing: Iterable[str]) -> None:
    """Lets a new masked-LM head's dense layer pass on the encoder's states: it learns sooner than random weights.

    ``missing`` names the weights that an encoder without such a head, as a sentence encoder, does not have.
    """
    import torch

    for name in missing:
        weight = model.get_parameter(name)
        if name.endswith("dense.weight") and weight.ndim == 2 and weight.size(0) == weight.size(1):
            torch.nn.init.eye_(weight)


def last_checkpoint(folder: str) -> str | None:
    """Where a run in this folder continues; None where it is new."""
    last = newest_checkpoint(Path(folder))
    if last is None and state_of(Path(folder)):
        raise TrueNegError(
            f"--output_dir {folder}: holds a training without a checkpoint to continue from; expected a new folder"
        )
    if last is not None:
        logger.warning("--output_dir %s: continues from %s", folder, last.name)
    return None if last is None else str(last)


def with_base_of(arguments: ScriptArguments, last: str | None) -> ScriptArguments:
    """The arguments; those of a checkpoint in place of another base model than that of the training that continues."""
    before = read_record(Path(last)) if last else {}
    if not before or before["base_model"] == arguments.model_name_or_path:
        return arguments
    started = f"{last}: its training started from {before['base_model'] or 'random weights'}"
    name = arguments.model_name_or_path
    logger.warning("%s; --model_name_or_path %s has no effect (a new --output_dir would start from it)", started, name)
    return replace(arguments, model_name_or_path=last, config_name=None, tokenizer_name=None)


def run(arguments: ScriptArguments, true_negatives: TrueNegativeArguments, training: Any) -> None:
    """Trains, evaluates and saves; changes nothing where that is done."""
    from transformers import set_seed

    if not training.resume_from_checkpoint and is_finished(Path(training.output_dir), training):
        return
    last = training.resume_from_checkpoint or last_checkpoint(training.output_dir)
    arguments = with_base_of(arguments, last)
    set_seed(training.seed)  # before a model has random weights
    model, tokenizer = load(arguments)
    length, shortest = arguments.max_seq_length, tokenizer.num_special_tokens_to_add() + 1
    if length < shortest:
        raise TrueNegError(f"--max_seq_length {length}: expected {shortest} or more")
    positions = getattr(getattr(model.base_model, "embeddings", None), "position_embeddings", None)
    if positions is not None:
        # RoBERTa's first positions, up to that of padding, belong to no token.
        longest = positions.num_embeddings - (0 if positions.padding_idx is None else positions.padding_idx + 1)
        if length > longest:
            raise TrueNegError(f"--max_seq_length {length}: the model has {longest} positions; expected no more")
    data = {split: samples(texts(arguments, split), tokenizer, length) for split in ("train", "validation")}
    for split, found in data.items():
        if not found:
            raise TrueNegError(f"--{split}_file: found no text; expected a paragraph a line")
    trainer = TrueNegativeTrainer(
        model,
        training,
        true_negatives=true_negatives,
        data_collator=DataCollatorForTrueNegatives(
            tokenizer,
            mlm_probability=arguments.mlm_probability,
            final_mlm_probability=arguments.final_mlm_probability,
            whole_words=arguments.whole_words,
            tokenization=true_negatives.tokenization,
        ),
        train_dataset=data["train"],
        eval_dataset=data["validation"],
        processing_class=tokenizer,
    )
    before = trainer.evaluate()
    result = trainer.train(resume_from_checkpoint=last)
    trainer.save_model()
    if trainer.state.global_step > (int(Path(last).name.rpartition("-")[2]) if last else 0):
        trainer.save_metrics("train", result.metrics)
    metrics = trainer.evaluate()
    metrics["perplexity"] = math.exp(min(metrics["eval_loss"], 100.0))
    trainer.log_metrics("eval", metrics)
    trainer.save_metrics("eval", metrics)
    tags = ["truneg_fairseq"]
    if true_negatives != type(true_negatives)(tokenization=true_negatives.tokenization):
        tags.append("true-negatives")
    trainer.create_model_card(
        tags=tags, dataset=[Path(name).name for name in arguments.train_file] or arguments.dataset_name
    )
    if trainer.is_world_process_zero():
        loss, accuracy = ((before[name], metrics[name]) for name in ("eval_loss", "eval_accuracy"))
        since = f" since {Path(last).name}" if last and last == arguments.model_name_or_path else ""
        change = f"loss {loss[0]:.3f} -> {loss[1]:.3f} nats, accuracy {accuracy[0]:.1f} -> {accuracy[1]:.1f} %"
        print(f"held-out text{since}: {change}")
    trainer.save_state()  # last: it says that all is there


def parse(description: str | None) -> tuple[ScriptArguments, TrueNegativeArguments, Any]:
    """The arguments of the command line."""
    from transformers import HfArgumentParser, TrainingArguments

    parser = HfArgumentParser((ScriptArguments, TrueNegativeArguments, TrainingArguments), description=description)
    *parsed, unknown = parser.parse_args_into_dataclasses(return_remaining_strings=True)
    if unknown:
        raise TrueNegError(f"{unknown[0]}: found no such flag; --help lists them")
    script, true_negatives, training = parsed
    return script, true_negatives, training


if __name__ == "__main__":
    with one_line_errors():
        run(*parse(__doc__))
