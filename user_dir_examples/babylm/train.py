"""A masked LM for BabyLM's strict-small track: 10 million words, at most ten epochs, checkpoints by words seen.

    python train.py prepare babylm_data/train_10M/*.train --output text
    python train.py train text --output_dir babylm --soft_targets corpus=0.8..0 --corpus_counts counts.npz

``prepare`` cleans each source into a file of its own and counts its words. ``train`` makes a WordPiece vocabulary of
them, and trains a small BERT from random weights with :class:`truneg_fairseq.hf.TrueNegativeTrainer`; every option of
truneg_fairseq.hf.TrueNegativeArguments and of transformers' TrainingArguments is a flag. Started again in the same
folder, it continues, or says that it is finished.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from truneg_fairseq.data.text import read_lines
from truneg_fairseq.errors import TrueNegError, one_line_errors
from truneg_fairseq.files import replacing_text
from truneg_fairseq.flags import option

with one_line_errors():  # where transformers is not installed
    from transformers import (
        BertConfig,
        BertForMaskedLM,
        BertTokenizerFast,
        HfArgumentParser,
        TrainerCallback,
        TrainingArguments,
    )

    from truneg_fairseq.hf import DataCollatorForTrueNegatives, TrueNegativeArguments, TrueNegativeTrainer
    from truneg_fairseq.hf.record import is_finished, newest_checkpoint

SCRIPT = Path(__file__).resolve().parents[2] / "data-bin-scripts" / "train_wordpiece.py"
MOST_WORDS, MOST_EPOCHS = 10_000_000, 10
MARKS = (*range(1, 10), *range(10, 101, 10))  # millions of words seen
LINES = 1000  # encoded as one text


@dataclass
class Preset:
    """What is trained on what; the defaults are for 10 million words."""

    text: str = option("", "folder that `prepare` made")
    vocabulary: int = option(8192, "most entries of the vocabulary")
    layers: int = option(8, "of the encoder")
    width: int = option(384, "of the hidden states; 64 of them a head")
    length: int = option(128, "tokens of a sample, special ones included")
    first_rate: float = option(0.3, "share of the tokens that is masked at first")
    last_rate: float = option(0.15, "the share at the end, to which it falls in a straight line")
    million: int = option(1_000_000, "words of a million; fewer for a trial on little text")


TRAINING = {
    **{"num_train_epochs": 10.0, "per_device_train_batch_size": 128, "learning_rate": 7e-4, "weight_decay": 0.1},
    **{"adam_beta2": 0.98, "warmup_steps": 0.02, "save_strategy": "epoch", "save_total_limit": 1},
    **{"report_to": "none"},
}
"""The preset's values of transformers' TrainingArguments."""


def prepare(sources: Sequence[Path], output: Path) -> int:
    """Writes each source as a file without empty lines and control characters; gives the number of words."""
    output.mkdir(parents=True, exist_ok=True)
    total = 0
    for source in sources:
        words = 0
        with replacing_text(output / f"{source.stem}.txt") as stream:
            for line in read_lines(source):
                kept = "".join(" " if unicodedata.category(each) == "Cc" else each for each in line).split()
                words += len(kept)
                if kept:
                    stream.write(f"{' '.join(kept)}\n")
        print(f"{source.stem}: {words:,} words")
        total += words
    print(f"{total:,} words" + (f": more than the {MOST_WORDS:,} of the track" if total > MOST_WORDS else ""))
    return total


def tokenizer_of(files: Sequence[Path], folder: Path, size: int) -> BertTokenizerFast:
    """A WordPiece vocabulary of the text, made once."""
    vocabulary = folder / "vocab.txt"
    if not vocabulary.exists():
        command = [sys.executable, SCRIPT, "--inputs", *files, "--output", vocabulary, "--vocab-size", size]
        subprocess.run(list(map(str, command)), check=True)
    return BertTokenizerFast(vocab=str(vocabulary), do_lower_case=True)


def samples(files: Sequence[Path], tokenizer: Any, length: int) -> Iterator[dict[str, list[int]]]:
    """Samples of the running text of some lines of one source."""
    for file in files:
        lines = list(read_lines(file))
        for start in range(0, len(lines), LINES):
            text = " ".join(line.strip() for line in lines[start : start + LINES])
            encoded = tokenizer(text, truncation=True, max_length=length, return_overflowing_tokens=True, verbose=False)
            yield from ({"input_ids": tokens} for tokens in encoded["input_ids"])


class WordsSeen(TrainerCallback):
    """Saves the model as chck_1M, chck_2M ... in the folder once it has read so many million words.

    ``words`` are those of the whole training; the share of it that is over says how many have been read.
    """

    def __init__(self, folder: Path, words: float, million: int, tokenizer: Any) -> None:
        self.folder, self.words, self.tokenizer = folder, words, tokenizer
        self.marks = [(mark * million, folder / f"chck_{mark}M") for mark in MARKS]

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        seen = self.words * state.global_step / state.max_steps
        for words, folder in self.marks:
            if words <= seen + 0.5 and state.is_world_process_zero and not (folder / "config.json").exists():
                model.save_pretrained(folder)
                self.tokenizer.save_pretrained(folder)


def train(preset: Preset, true_negatives: TrueNegativeArguments, training: TrainingArguments) -> None:
    output, files = Path(training.output_dir), sorted(Path(preset.text).glob("*.txt"))
    if not files:
        raise TrueNegError(f"{preset.text}: has no *.txt; expected the folder that `prepare` made")
    if training.num_train_epochs > MOST_EPOCHS:
        raise TrueNegError(f"--num_train_epochs {training.num_train_epochs:g}: the track allows {MOST_EPOCHS}")
    if is_finished(output, training):
        return
    output.mkdir(parents=True, exist_ok=True)
    tokenizer = tokenizer_of(files, output, preset.vocabulary)
    data = list(samples(files, tokenizer, preset.length))
    words = sum(len(line.split()) for file in files for line in read_lines(file))
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=preset.width,
        num_hidden_layers=preset.layers,
        num_attention_heads=max(1, preset.width // 64),
        intermediate_size=4 * preset.width,
        max_position_embeddings=max(512, preset.length),
        pad_token_id=tokenizer.pad_token_id,
    )
    trainer = TrueNegativeTrainer(
        model_init=lambda: BertForMaskedLM(config),  # after the seed is set
        args=training,
        true_negatives=true_negatives,
        data_collator=DataCollatorForTrueNegatives(
            tokenizer,
            mlm_probability=preset.first_rate,
            final_mlm_probability=preset.last_rate,
            whole_words=True,
            tokenization=true_negatives.tokenization,
        ),
        train_dataset=data,
        processing_class=tokenizer,
        callbacks=[WordsSeen(output, words * training.num_train_epochs, preset.million, tokenizer)],
    )
    last = newest_checkpoint(output)
    trainer.train(resume_from_checkpoint=None if last is None else str(last))
    trainer.save_model()
    trainer.save_state()  # last: it says that all is there
    print(f"{output}: {words:,} words, {training.num_train_epochs:g} epochs")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("prepare")
    command.add_argument("sources", type=Path, nargs="+", help="BabyLM's files, or plain text of your own")
    command.add_argument("--output", type=Path, required=True)
    command = commands.add_parser("train", add_help=False)
    command.add_argument("text")
    given, others = parser.parse_known_args(arguments)
    if given.command == "prepare":
        if others:
            parser.error(f"{others[0]}: no such flag")
        prepare(given.sources, given.output)
        return
    flags = HfArgumentParser((Preset, TrueNegativeArguments, TrainingArguments))
    flags.set_defaults(**TRAINING)
    train(*flags.parse_args_into_dataclasses(["--text", given.text, *others]))


if __name__ == "__main__":
    with one_line_errors():
        main()
