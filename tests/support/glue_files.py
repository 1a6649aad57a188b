"""Small tasks of GLUE, prepared, and small random models of their vocabulary."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path

from truneg_fairseq.data.tokenizer import BERT_SPECIALS, TextTokenizer, wordpiece_tokenizer
from truneg_fairseq.finetuning import PrepareOptions
from truneg_fairseq.finetuning.glue import TASKS
from truneg_fairseq.finetuning.run_finetuning import prepare

WORDS = "the a cat dog sat ran red big house mat saw it".split()
TRAIN, VALID, TEST = 40, 13, 5
# Columns of the files with labels, and of those without.
HEADERS = {
    "CoLA": ("source label mark sentence", "index sentence"),
    "SST-2": ("sentence label", "index sentence"),
    "MRPC": ("Quality,#1 ID,#2 ID,#1 String,#2 String", "index,#1 ID,#2 ID,#1 String,#2 String"),
    "STS-B": ("index genre sentence1 sentence2 score", "index genre sentence1 sentence2"),
    "QQP": ("id qid1 qid2 question1 question2 is_duplicate", "id question1 question2"),
    "MNLI": ("index promptID sentence1 sentence2 label1 gold_label", "index promptID sentence1 sentence2"),
    "QNLI": ("index question sentence label", "index question sentence"),
    "RTE": ("index sentence1 sentence2 label", "index sentence1 sentence2"),
}


def write_data(folder: Path, words: Sequence[str] = WORDS) -> Path:
    """A folder of binarized data as far as fine-tuning needs it: dict.txt and the tokenizer."""
    return save_data(folder, wordpiece_tokenizer([*BERT_SPECIALS, *words]))


def save_data(folder: Path, tokenizer: TextTokenizer) -> Path:
    tokenizer.save(folder)
    (folder / "dict.txt").write_text("".join(f"{s} 1\n" for s in tokenizer.symbols()), encoding="utf-8")
    return folder


def write_official(folder: Path, tasks: Sequence[str]) -> Path:
    """Random official files of tasks."""
    rng = random.Random(1)
    for task in tasks:
        (folder / task).mkdir(parents=True)
        kind = TASKS[task]
        for split, name in kind.files:
            size = TRAIN if split == "train" else TEST if split.startswith("test") else VALID
            texts, labels = list[tuple[str, ...]](), list[str]()
            for number in range(size):
                texts.append(tuple(" ".join(rng.choices(WORDS, k=rng.randint(2, 9))) for _ in kind.texts))
                label = kind.labels[-1 - number % len(kind.labels)] if kind.labels else f"{rng.uniform(0, 5):.3f}"
                labels.append(label)
            write_tsv(folder / task / name, task, texts, None if split.startswith("test") else labels)
    return folder


def write_glue(folder: Path, data: Path, tasks: Sequence[str], max_length: int = 16) -> Path:
    """The same, prepared."""
    official = write_official(folder / "official", tasks)
    places = [f"{task}={official / task}" for task in tasks]
    list(prepare(PrepareOptions(task=places, data=data, output_dir=folder / "glue", max_length=max_length)))
    return folder / "glue"


def write_tsv(
    path: Path, task: str, texts: Sequence[tuple[str, ...]], labels: Sequence[str] | None, first: int = 0
) -> None:
    """An official file of a task; "x" stands in all columns but the texts, the label and the ids, from the first on."""
    header, kind = HEADERS[task][labels is None], TASKS[task]
    columns = header.split("," if "," in header else None)
    lines = [] if labels and kind.without_header else [columns]
    for number, text in enumerate(texts):
        values = dict.fromkeys(columns, "x") | dict.fromkeys(("index", "id", "#1 ID"), str(first + number))
        values |= dict(zip(kind.texts, text, strict=False)) | ({kind.label: labels[number]} if labels else {})
        lines.append([values[column] for column in columns])
    path.write_text("".join("\t".join(line) + "\n" for line in lines), encoding="utf-8")


def wordpieces(data: Path) -> list[str]:
    """The entries of the tokenizer beside the data, by number."""
    numbers = json.loads((data / "tokenizer.json").read_bytes())["model"]["vocab"]
    return sorted(numbers, key=numbers.__getitem__)


def write_model(folder: Path, data: Path, kind: str = "BertModel", name: str = "small.pt", **sizes: int) -> Path:
    """A checkpoint of a random model, converted from transformers' with the tokens of the data."""
    from truneg_fairseq.convert.from_hf import from_hf

    from .convert_models import random_model, save

    tokens, place = wordpieces(data), folder / name.removesuffix(".pt")
    save(random_model(kind, tokens=tokens, **sizes), place, tokens)
    from_hf(place, data, folder / name)
    return folder / name
