"""Small translation data, and fairseq's real objects to train on it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import torch

from .commands import PLUGIN
from .trainings import make, parse

GERMAN = "ein mann hund läuft spielt im am park strand".split()
ENGLISH = "a man guy person dog run@@ s ning plays in on at the park beach".split()
"""The second side has unfinished pieces, as subword-nmt and fastBPE mark them."""
MODEL = """--arch transformer_iwslt_de_en --encoder-layers 1 --decoder-layers 1 --encoder-embed-dim 16
--encoder-ffn-embed-dim 16 --encoder-attention-heads 2 --decoder-embed-dim 16 --decoder-ffn-embed-dim 16
--decoder-attention-heads 2 --dropout 0.1 --share-decoder-input-output-embed""".split()
TRAINING = "--optimizer adam --lr 0.01 --batch-size 4 --cpu --seed 1 --num-workers 0".split()


def write_translations(folder: Path) -> Path:
    """Random sentences as fairseq-preprocess would leave them: German to English, a dictionary for each."""
    from fairseq.data import Dictionary, indexed_dataset

    draws = random.Random(1)
    folder.mkdir(parents=True, exist_ok=True)
    for language, words in (("de", GERMAN), ("en", ENGLISH)):
        dictionary = Dictionary()
        for word in words:
            dictionary.add_symbol(word)
        dictionary.save(str(folder / f"dict.{language}.txt"))
        for split, count in (("train", 24), ("valid", 8), ("test", 4)):
            prefix = str(folder / f"{split}.de-en.{language}")
            builder = indexed_dataset.make_builder(f"{prefix}.bin", "mmap", vocab_size=len(dictionary))
            for _ in range(count):
                line = " ".join(draws.choices(words, k=draws.randint(3, 8)))
                builder.add_item(dictionary.encode_line(line, add_if_not_exist=False).long())
            builder.finalize(f"{prefix}.idx")
    return folder


def translation(data: Path, *flags: object) -> Any:
    """Configuration, task, model and criterion of a small translation training."""
    cfg = parse([data, "--user-dir", PLUGIN, "--task", "translation", *MODEL, *TRAINING, *flags])
    return cfg, *make(cfg)


def loss_and_gradients(model: Any, criterion: Any, sample: Any) -> tuple[torch.Tensor, Any, Any, dict[str, Any]]:
    """Of one batch, with the same dropout each time: loss, sample size, log, gradients by name."""
    torch.manual_seed(3)
    model.zero_grad()
    loss, size, log = criterion(model.train(), sample)
    loss.backward()
    return (
        loss.detach(),
        size,
        log,
        {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None},
    )
