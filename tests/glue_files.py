"""Small tasks of GLUE, prepared, and a small random BERT of their vocabulary."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from truneg_fairseq.data.glue import prepare_glue
from truneg_fairseq.data.tokenizer import WordPieceTokenizer
from truneg_fairseq.data.wordpiece import BERT_SPECIALS

WORDS = "the a cat dog sat ran red big house mat saw it".split()
TRAIN, VALID, TEST = 40, 13, 5
LABELS = {"RTE": ("not_entailment", "entailment"), "MRPC": ("0", "1"), "CoLA": ("0", "1")}
HEADERS = {
    "RTE": ["index", "sentence1", "sentence2", "label"],
    "MNLI": ["index", "sentence1", "sentence2", "gold_label"],
    "STS-B": ["index", "sentence1", "sentence2", "score"],
}
FILES = {"MNLI": ("train", "dev_matched", "dev_mismatched", "test_matched", "test_mismatched")}


def write_data(folder: Path, words: Sequence[str] = WORDS) -> Path:
    """A folder of binarized data as far as fine-tuning needs it: dict.txt and the tokenizer."""
    tokenizer = WordPieceTokenizer([*BERT_SPECIALS, *words])
    tokenizer.save(folder)
    (folder / "dict.txt").write_text("".join(f"{s} 1\n" for s in tokenizer.symbols()), encoding="utf-8")
    return folder


def write_glue(folder: Path, data: Path, tasks: Sequence[str]) -> Path:
    """Random official files of tasks, prepared."""
    rng = random.Random(1)
    for task in tasks:
        (folder / "official" / task).mkdir(parents=True)
        for name in FILES.get(task, ("train", "dev", "test")):
            size = TRAIN if name == "train" else TEST if name.startswith("test") else VALID
            lines = _lines(task, size, rng, labelled=not name.startswith("test"))
            path = folder / "official" / task / f"{name}.tsv"
            path.write_text("".join("\t".join(line) + "\n" for line in lines), encoding="utf-8")
    for _ in prepare_glue(folder / "official", data, folder / "glue", tasks):
        pass
    return folder / "glue"


def _lines(task: str, size: int, rng: random.Random, *, labelled: bool) -> list[list[str]]:
    lines = [["index", "sentence"]] if not labelled else []
    if task != "CoLA":
        lines = [HEADERS[task][: None if labelled else 3]]
    for number in range(size):
        first, second = (" ".join(rng.choices(WORDS, k=rng.randint(2, 9))) for _ in range(2))
        if task == "CoLA":
            lines.append(["x", str(number % 2), "", first] if labelled else [str(number), first])
            continue
        labels = {"MNLI": ("neutral", "entailment", "contradiction")}.get(task) or LABELS.get(task)
        label = labels[number % len(labels)] if labels else f"{rng.uniform(0, 5):.3f}"
        lines.append([str(number), first, second, *([label] if labelled else [])])
    return lines


def write_bert(folder: Path, data: Path, name: str = "small.pt", **sizes: int) -> Path:
    """A checkpoint of a random BERT, converted from transformers' with the tokens of the data."""
    from convert_models import random_model

    from truneg_fairseq.convert.from_hf import from_hf

    tokens = (data / "vocab.txt").read_text(encoding="utf-8").split()
    random_model("BertModel", tokens=tokens, **sizes).save_pretrained(folder / name.removesuffix(".pt"))
    from_hf(folder / name.removesuffix(".pt"), data, folder / name)
    return folder / name
