"""GLUE's eight tasks: their official files, their data for fairseq, their settings, answers and metrics.

A file is GLUE's own (tab-separated) or Hugging Face's (nyu-mll/glue: Parquet, or what ``datasets`` writes of it), which
have the same examples. A prepared task ``TASK/`` is what fairseq's task sentence_prediction reads: ``input0/``,
``input1/`` (pairs only) and ``label/``, each with its ``dict.txt`` and fairseq's binary files ``train``, ``valid``,
``valid1`` (MNLI mismatched), ``test`` and ``test1``, in the order of the official files, whose ids ``ids/SPLIT.txt``
has. STS-B has ``label/SPLIT.label`` instead, one score / 5 a line.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..data.text import read_lines, read_table
from ..data.tokenizer import PretrainedVocabulary
from ..errors import TrueNegError, require
from ..files import replacing_text
from ..launch.training_run import Diverged
from ..results.result import Metric
from ..vocabulary import BOS, EOS, UNKNOWN
from ..workers import Progress
from . import PredictOptions
from .task import BASE_WIDTH, LARGE_WIDTH, FinetuningTask, Recipe, answer_all, electra_layer_lr_decay

if TYPE_CHECKING:
    from ..convert.architecture import ModelConfig

_SENTENCES = 1_000  # that are encoded together
_FAIRSEQ_SPECIALS = 4
_HEAD = "sentence_classification_head"
_DROPOUT = 0.1
_REPORTED = {"CoLA": ("matthews", "accuracy"), "MRPC": ("accuracy", "f1"), "QQP": ("accuracy", "f1")}
_SHOWN = {"CoLA": "matthews", "STS-B": "spearman"}
"""The metrics of Table 3; of other tasks it is the accuracy."""
_HIGHEST_SCORE = 5.0  # of STS-B, from 0; the regression target is the score divided by it
# Hugging Face's files of a split, in a folder of GLUE's name or of its own (sst2 for SST-2)
_HUB_FILES = ("{}-00000-of-00001.parquet", "{}/0000.parquet", "{}.parquet", "{}.jsonl", "{}.json", "{}.csv")
_ROWS = (".parquet", ".jsonl", ".json", ".csv")
# The first of these that a file has; MRPC's training pairs have an id for each sentence.
_ID_COLUMNS = (("index",), ("idx",), ("id",), ("#1 ID", "#2 ID"))
_NO_LABEL = {"None", "nan", "-1", "-1.0"}  # of Hugging Face's test files
_LONGEST_QUOTE = 80


@dataclass(frozen=True)
class Glue(FinetuningTask):
    """A sentence or a pair of sentences to classify or to score, and its official files."""

    name: str  # GLUE's name, which is also the name of its folder
    texts: tuple[str, ...]  # the columns of the one or two sentences
    label: str  # the column of the label
    # the label names in the order of their ids, which is alphabetical; empty for the regression task
    labels: tuple[str, ...]
    # by fairseq split (train, valid, test; MNLI's mismatched sets are valid1 and test1), the file
    files: tuple[tuple[str, str], ...] = (("train", "train.tsv"), ("valid", "dev.tsv"), ("test", "test.tsv"))
    # the columns of the files that have no header line (CoLA's train and dev files)
    without_header: tuple[str, ...] = ()
    # a line with a wrong number of columns is skipped and counted, as is the custom with QQP
    skips_broken_lines: bool = False
    doubled: bool = False  # ELECTRA's fine-tuning doubles the training pairs by swapping the two sentences
    # Hugging Face's columns of the sentences, and labels in the order of its numbers, where they differ from the others
    hub_texts: tuple[str, ...] = ()
    hub_labels: tuple[str, ...] = ()

    counted = "examples"
    max_length = 128

    @property
    def chosen(self) -> Sequence[str]:
        return ("max_length", *(["swap_pairs"] * self.doubled))

    @property
    def regression(self) -> bool:
        """Whether the target is a number."""
        return not self.labels

    def find_files(self, places: Sequence[Path]) -> dict[str, Path]:
        """The files by split, the official ones or those of Hugging Face; the test files are optional."""
        (folder,) = places
        found = {split: folder / name for split, name in self.files if (folder / name).is_file()}
        for place in [] if found else (folder, folder.with_name(self.name.lower().replace("-", ""))):
            for split, name in self.files:
                stem = Path(name).stem.replace("dev", "validation")
                if path := next(filter(Path.is_file, (place / form.format(stem) for form in _HUB_FILES)), None):
                    found[split] = path
        missing = [name for split, name in self.files if split not in found and not split.startswith("test")]
        if missing:
            raise TrueNegError(f"{folder}: {', '.join(missing)} missing; expected the official files of {self.name}")
        return found

    def write(
        self, folder: Path, files: Mapping[str, Path], vocabulary: PretrainedVocabulary, chosen: Mapping[str, Any]
    ) -> dict[str, Any]:
        require("fairseq", extra="fairseq")
        splits = {split: read_split(self, split, path) for split, path in files.items()}
        for number in range(len(self.texts)):
            (folder / f"input{number}").mkdir()
            shutil.copyfile(vocabulary.folder / "dict.txt", folder / f"input{number}" / "dict.txt")
        for name in ("label", "ids"):
            (folder / name).mkdir()
        if self.labels:
            (folder / "label" / "dict.txt").write_text("".join(f"{label} 1\n" for label in self.labels))
        if chosen.get("swap_pairs") and "train" in splits:
            once = splits["train"]
            (first, second), labels = once.texts, once.labels and once.labels * 2
            texts = (first + second, second + first)
            splits["train"] = replace(once, ids=once.ids * 2, texts=texts, labels=labels)
        longest = chosen["max_length"]
        return {
            name: _write_split(self, name, split, vocabulary, folder, max_length=longest)
            for name, split in splits.items()
        }

    def shown(self, info: Mapping[str, Any]) -> tuple[str, str, dict[str, Metric]]:
        return self.name, "GLUE", {_SHOWN.get(self.name, "accuracy"): Metric(self.name, True, averaged=True)}

    def recipe(self, config: ModelConfig, info: Mapping[str, Any]) -> Recipe:
        """The settings of ELECTRA's paper and code: batches of 32, 3 epochs (10 for RTE and STS-B), a learning rate of
        3e-4 for small models, 1e-4 for base, 5e-5 for large, dropout 0.1, and 128 tokens (of the data).

        BERT has those of ELECTRA, whose code goes back to BERT, but 3 epochs on every task and one learning rate for
        all layers: 3e-5 for base and 2e-5 for large models, of the four that Devlin et al. (2019, Section 4.1) chose
        from; for smaller ones 1e-4, of the four of Turc et al. (2019, arXiv:1908.08962) for their compact BERTs.
        """
        width, bert = config.hidden_size, config.family == "bert"
        small, base, large = (1e-4, 3e-5, 2e-5) if bert else (3e-4, 1e-4, 5e-5)
        return Recipe(
            lr=small if width < BASE_WIDTH else base if width < LARGE_WIDTH else large,
            layer_lr_decay=1.0 if bert else electra_layer_lr_decay(width),
            epochs=10 if self.name in ("RTE", "STS-B") and not bert else 3,
        )

    def flags(self, config: ModelConfig) -> list[object]:
        valid = ",".join(split for split, _ in self.files if split.startswith("valid"))
        return [
            *("--task", "sentence_prediction", "--criterion", "sentence_prediction", "--init-token", BOS),
            *("--classification-head-name", _HEAD, "--num-classes", max(1, len(self.labels))),
            *(*(["--regression-target"] * self.regression), "--max-positions", config.positions),
            "--find-unused-parameters",
            *("--dropout", _DROPOUT, "--attention-dropout", _DROPOUT, "--pooler-dropout", _DROPOUT),
            *("--valid-subset", valid),
        ]

    def evaluate(self, model: Any, task: Any, prepared: Path, folder: Path) -> dict[str, Any]:
        scores = self.score(*self.answer(model, task, "valid"))
        if self.name == "MNLI":
            mismatched = self.score(*self.answer(model, task, "valid1"))["metrics"]["accuracy"]
            scores["metrics"]["accuracy_mismatched"] = mismatched
        return scores | ({"example_ids": read_ids(prepared, "valid")} if "examples" in scores else {})

    def predict(self, model: Any, task: Any, prepared: Path, options: PredictOptions) -> dict[str, float]:
        values, targets = self.answer(model, task, "test")
        if options.output is not None:
            self._write_submission(read_ids(prepared, "test"), values, options.output)
        metrics = {} if targets is None else self.score(values, targets)["metrics"]
        return {"examples": len(values), **{name: 100 * value for name, value in metrics.items()}}

    def answer(self, model: Any, task: Any, split: str) -> tuple[NDArray[Any], Any]:
        """A model's answers to a split of its data, in the order of the official file, and the right ones if known.

        Both int64 class ids or float64 scores (0 to 1), shape (N,).
        """
        import torch

        def answer(batch: dict[str, Any]) -> list[Any]:
            head = task.cfg.classification_head_name
            logits, _ = model(**batch["net_input"], features_only=True, classification_head_name=head)
            if not bool(logits.isfinite().all()):
                raise Diverged("the model's scores are NaN or infinite: it has diverged; lower --lr")
            values = logits.view(-1).double() if self.regression else logits.argmax(1)
            return [batch["id"], values, *([batch["target"].view(-1).to(values)] if "target" in batch else [])]

        task.load_dataset(split)
        dataset = task.dataset(split)
        sizes = np.array([dataset.size(index) for index in range(len(dataset))])
        answers = zip(*answer_all(model, dataset, answer, sizes), strict=True)
        places, values, *targets = (torch.cat(parts).cpu().numpy() for parts in answers)
        order = places.argsort()
        return values[order], targets[0][order] if targets else None

    def score(self, values: NDArray[Any], targets: NDArray[Any]) -> dict[str, Any]:
        """The metrics that are reported of the task, as fractions, and what they are of each example.

        Of class ids accuracy, Matthews correlation and F1 of class 1, of numbers the correlations of Pearson and of
        Spearman; a correlation with a constant is 0. Shape (N,).
        """
        from scipy.stats import pearsonr, spearmanr
        from sklearn.metrics import f1_score, matthews_corrcoef

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a single label, for which 0 is documented here, or nearly one
            if self.regression:
                constant = np.ptp(values) == 0 or np.ptp(targets) == 0
                metrics = {"pearson": pearsonr, "spearman": spearmanr}
                found = {name: 0.0 if constant else of(values, targets).statistic for name, of in metrics.items()}
                return {"metrics": {name: float(value) for name, value in found.items()}}
            every = {
                "accuracy": lambda: np.mean(values == targets),
                "matthews": lambda: matthews_corrcoef(targets, values),
                "f1": lambda: f1_score(targets, values, labels=[0, 1], zero_division=0),
            }
            reported = {name: float(every[name]()) for name in _REPORTED.get(self.name, ("accuracy",))}
        scores = {"metrics": reported, "examples": {"accuracy": (values == targets).astype(float).tolist()}}
        if "f1" in reported:
            scores["examples"]["f1"] = (2.0 * values * targets).tolist()
            scores["denominators"] = {"f1": (values + targets).tolist()}
        return scores

    def _write_submission(self, ids: list[str], values: NDArray[Any], path: Path) -> None:
        """Writes answers as the GLUE server takes them; where the ids are no numbers, by the number of the line."""
        if not all(name.isdigit() for name in ids):
            ids = [str(number) for number in range(len(ids))]
        path.parent.mkdir(parents=True, exist_ok=True)
        if self.regression:
            texts = [f"{value:.3f}" for value in np.clip(values * _HIGHEST_SCORE, 0, _HIGHEST_SCORE)]
        else:
            texts = [self.labels[value] for value in values]
        with replacing_text(path) as stream:
            stream.write("index\tprediction\n")
            stream.writelines(f"{index}\t{text}\n" for index, text in zip(ids, texts, strict=True))


_PAIR = ("sentence1", "sentence2")
_ENTAILMENT = ("entailment", "not_entailment")
_MNLI_FILES = (
    ("train", "train.tsv"),
    ("valid", "dev_matched.tsv"),
    ("valid1", "dev_mismatched.tsv"),
    ("test", "test_matched.tsv"),
    ("test1", "test_mismatched.tsv"),
)

_COLA = ("source", "label", "mark", "sentence")

# What the registry of fine-tuning tasks has.
CoLA = partial(Glue, "CoLA", ("sentence",), "label", ("0", "1"), without_header=_COLA)
SST_2 = partial(Glue, "SST-2", ("sentence",), "label", ("0", "1"))
MRPC = partial(Glue, "MRPC", ("#1 String", "#2 String"), "Quality", ("0", "1"), doubled=True, hub_texts=_PAIR)
STS_B = partial(Glue, "STS-B", _PAIR, "score", (), doubled=True)
QQP = partial(Glue, "QQP", ("question1", "question2"), "is_duplicate", ("0", "1"), skips_broken_lines=True)
MNLI = partial(
    Glue,
    *("MNLI", _PAIR, "gold_label", ("contradiction", "entailment", "neutral"), _MNLI_FILES),
    hub_texts=("premise", "hypothesis"),
    hub_labels=("entailment", "neutral", "contradiction"),
)
QNLI = partial(Glue, "QNLI", ("question", "sentence"), "label", _ENTAILMENT)
RTE = partial(Glue, "RTE", _PAIR, "label", _ENTAILMENT)

TASKS: dict[str, Glue] = {task.name: task for task in (CoLA(), SST_2(), MRPC(), STS_B(), QQP(), MNLI(), QNLI(), RTE())}
"""The tasks by name, in the order of the paper's tables."""


@dataclass(frozen=True)
class GlueSplit:
    """The examples of one split, in the order of the file."""

    # the file's own example ids ("ID1 ID2" for MRPC's training pairs); where it has none, the number of the line among
    # the examples, from 0
    ids: list[str]
    texts: tuple[list[str], ...]  # one list of N texts for each of the task's inputs
    # N label names, or scores of 0 to 5 as they are written; None where the file has no labels
    labels: list[str] | None
    skipped: int = 0  # lines left out because of their number of columns

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def empty(self) -> int:
        """Examples of which a sentence has no text."""
        return sum(not all(text.strip() for text in texts) for texts in zip(*self.texts, strict=True))


def read_split(task: Glue, name: str, path: Path) -> GlueSplit:
    """Reads an official file (tab-separated columns) or one of Hugging Face; test files need no labels."""
    is_table, is_test = path.suffix in _ROWS, name.startswith("test")
    columns, numbers, skipped = _read_table(task, path) if is_table else _read_lines(task, path)
    texts = (task.hub_texts if is_table else ()) or task.texts
    label = "label" if is_table else task.label
    missing = [repr(column) for column in (*texts, *([] if is_test else [label])) if column not in columns]
    if missing:
        found = " | ".join(columns)[:_LONGEST_QUOTE] or "an empty line"
        expected = f"expected the official header, found {found}"
        raise TrueNegError(f"{path}: line 1 has no column {', '.join(missing)}; {expected}")
    if not numbers:
        raise TrueNegError(f"{path}: has no example; expected a line for each")
    labels = columns.get(label)
    if is_test and labels is not None and set(labels) <= _NO_LABEL:
        labels = None
    for number, found in zip(numbers, labels or (), strict=False):
        if not _is_label(task, found):
            expected = "a number from 0 to 5" if task.regression else f"one of {', '.join(task.labels)}"
            raise TrueNegError(f"{path}: line {number} has the label {found!r}, expected {expected}")
    named = next((names for names in _ID_COLUMNS if set(names) <= columns.keys()), None)
    ids = [" ".join(parts) for parts in zip(*(columns[column] for column in named), strict=True)] if named else []
    ids = ids or [str(number - numbers[0]) for number in numbers]
    return GlueSplit(ids, tuple(columns[column] for column in texts), labels, skipped)


def _read_lines(task: Glue, path: Path) -> tuple[dict[str, list[str]], list[int], int]:
    """The columns of a tab-separated file, whose quotes are ordinary characters, the numbers of its lines, and how many
    others were skipped.
    """
    rows = [(number, line.split("\t")) for number, line in enumerate(read_lines(path), start=1)]
    while rows and not "".join(rows[-1][1]).strip():
        rows.pop()
    header: Sequence[str] = task.without_header
    if rows and (not header or set(task.texts) <= set(rows[0][1])):  # a file like CoLA's may have a header too
        header = rows.pop(0)[1]
    kept = [(number, values) for number, values in rows if len(values) == len(header)]
    if len(kept) < len(rows) and not (task.skips_broken_lines and task.label in header):
        number, values = next(row for row in rows if len(row[1]) != len(header))
        raise TrueNegError(
            f"{path}: line {number} has {len(values)} columns, expected {len(header)} (separated by tabs; quotes are "
            f"ordinary characters): {' '.join(values)[:_LONGEST_QUOTE]}"
        )
    columns = {name: [values[place] for _, values in kept] for place, name in enumerate(header)}
    if task.label in columns:
        columns[task.label] = [label.strip() for label in columns[task.label]]
    return columns, [number for number, _ in kept], len(rows) - len(kept)


def _read_table(task: Glue, path: Path) -> tuple[dict[str, list[str]], list[int], int]:
    """The columns of Hugging Face's file of a split, the numbers of its rows from 1, and 0."""
    table = read_table(path)
    columns = {
        name: ["" if value is None else str(value) for value in table[name].to_pylist()] for name in table.column_names
    }
    if "label" in columns:
        names: dict[Any, str] = dict(enumerate(task.hub_labels or task.labels))
        # Scores with the digits of their type: 3.8 in fp32 is no 3.7999999523162842.
        given = table["label"].to_numpy() if task.regression else table["label"].to_pylist()
        columns["label"] = [names.get(label, str(label)) for label in given]
    return columns, list(range(1, len(table) + 1)), 0


def _is_label(task: Glue, label: str) -> bool:
    try:
        return 0 <= float(label) <= _HIGHEST_SCORE if task.regression else label in task.labels
    except ValueError:
        return False


def read_ids(prepared: Path, split: str) -> list[str]:
    """The official ids of a split's examples."""
    return (prepared / "ids" / f"{split}.txt").read_text(encoding="utf-8").split("\n")[:-1]


def shared_lengths(
    first: NDArray[np.int64], second: NDArray[np.int64], budget: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How much of two sentences is kept, shape (N,) each: the longer one gives a token until both have the budget."""
    kept = np.minimum(first, np.maximum(budget - second, (budget + 1) // 2))
    return kept, np.minimum(second, budget - kept)


def _write_split(
    task: Glue, name: str, split: GlueSplit, vocabulary: PretrainedVocabulary, folder: Path, *, max_length: int
) -> dict[str, int]:
    """Writes the examples, each cut to ``max_length`` tokens with ``<s>`` and a ``</s>`` behind every sentence."""
    import torch
    from fairseq.data.indexed_dataset import make_builder

    sentences: list[list[NDArray[np.int64]]] = []
    with Progress(total=len(split) * len(split.texts), desc=f"{task.name} {name}", unit=" sentences") as progress:
        for texts in split.texts:
            sentences.append([])
            for start in range(0, len(texts), _SENTENCES):
                sentences[-1] += vocabulary.encode_batch(batch := texts[start : start + _SENTENCES])
                progress.update(len(batch))
    lengths = np.zeros((2, len(split)), dtype=np.int64)
    for number, encoded in enumerate(sentences):
        lengths[number] = [len(ids) for ids in encoded]
    budget = max_length - 1 - len(sentences)
    kept = shared_lengths(lengths[0], lengths[1], budget)
    for number, encoded in enumerate(sentences):
        path = folder / f"input{number}" / name
        builder = make_builder(f"{path}.bin", impl="mmap", vocab_size=len(vocabulary.symbols))
        for ids, length in zip(encoded, kept[number].tolist(), strict=True):
            builder.add_item(torch.from_numpy(np.append(ids[:length], EOS)))
        builder.finalize(f"{path}.idx")
    path = folder / "label" / name
    if split.labels is not None and task.regression:
        lines = (f"{float(label) / _HIGHEST_SCORE!r}\n" for label in split.labels)
        path.with_suffix(".label").write_text("".join(lines))
    elif split.labels is not None:
        builder = make_builder(f"{path}.bin", impl="mmap", vocab_size=_FAIRSEQ_SPECIALS + len(task.labels))
        for label in split.labels:
            builder.add_item(torch.tensor([_FAIRSEQ_SPECIALS + task.labels.index(label), EOS]))
        builder.finalize(f"{path}.idx")
    (folder / "ids" / f"{name}.txt").write_text("".join(f"{each}\n" for each in split.ids), encoding="utf-8")
    return {
        "examples": len(split),
        "tokens": int(lengths.sum()) + len(split) * len(sentences),  # before they are cut, without <s>
        "unknown": sum(int((ids == UNKNOWN).sum()) for encoded in sentences for ids in encoded),
        "cut": int((lengths.sum(axis=0) > budget).sum()),
        "with an empty sentence": split.empty,
        "broken lines skipped": split.skipped,
    }
