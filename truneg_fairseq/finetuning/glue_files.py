"""The eight GLUE tasks of the paper: their official files, columns and labels, and how a file is read.

A file is GLUE's own (tab-separated) or Hugging Face's (nyu-mll/glue: Parquet, or what ``datasets`` writes of it), which
have the same examples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..corpora.extract import read_table
from ..corpora.text import read_lines
from ..errors import TrueNegError

HIGHEST_SCORE = 5.0
"""STS-B's scores go from 0 to this; the regression target is the score divided by it."""

# Hugging Face's files of a split, in a folder of GLUE's name or of its own (sst2 for SST-2)
_HUB_FILES = ("{}-00000-of-00001.parquet", "{}/0000.parquet", "{}.parquet", "{}.jsonl", "{}.json", "{}.csv")
_ROWS = (".parquet", ".jsonl", ".json", ".csv")
# The first of these that a file has; MRPC's training pairs have an id for each sentence.
_ID_COLUMNS = (("index",), ("idx",), ("id",), ("#1 ID", "#2 ID"))
_NO_LABEL = {"None", "nan", "-1", "-1.0"}  # of Hugging Face's test files
_LONGEST_QUOTE = 80


@dataclass(frozen=True)
class TaskFormat:
    """One task and its official files."""

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

    @property
    def regression(self) -> bool:
        """Whether the target is a number."""
        return not self.labels


_SENTENCES = ("sentence1", "sentence2")
_ENTAILMENT = ("entailment", "not_entailment")
_MNLI_FILES = (
    ("train", "train.tsv"),
    ("valid", "dev_matched.tsv"),
    ("valid1", "dev_mismatched.tsv"),
    ("test", "test_matched.tsv"),
    ("test1", "test_mismatched.tsv"),
)

TASKS: dict[str, TaskFormat] = {
    task.name: task
    for task in (
        TaskFormat("CoLA", ("sentence",), "label", ("0", "1"), without_header=("source", "label", "mark", "sentence")),
        TaskFormat("SST-2", ("sentence",), "label", ("0", "1")),
        TaskFormat("MRPC", ("#1 String", "#2 String"), "Quality", ("0", "1"), doubled=True, hub_texts=_SENTENCES),
        TaskFormat("STS-B", _SENTENCES, "score", (), doubled=True),
        TaskFormat("QQP", ("question1", "question2"), "is_duplicate", ("0", "1"), skips_broken_lines=True),
        TaskFormat(
            *("MNLI", _SENTENCES, "gold_label", ("contradiction", "entailment", "neutral"), _MNLI_FILES),
            hub_texts=("premise", "hypothesis"),
            hub_labels=("entailment", "neutral", "contradiction"),
        ),
        TaskFormat("QNLI", ("question", "sentence"), "label", _ENTAILMENT),
        TaskFormat("RTE", _SENTENCES, "label", _ENTAILMENT),
    )
}
"""The tasks by name, in the order of the paper's tables."""


@dataclass(frozen=True)
class GlueSplit:
    """The examples of one split, in the order of the file."""

    name: str  # fairseq's name of the split
    source: Path  # the file they come from
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


def task_files(task: TaskFormat, folder: Path) -> dict[str, Path]:
    """The files of a task by split, the official ones or those of Hugging Face; the test files are optional."""
    found = {split: folder / name for split, name in task.files if (folder / name).is_file()}
    for place in [] if found else (folder, folder.with_name(task.name.lower().replace("-", ""))):
        for split, name in task.files:
            stem = Path(name).stem.replace("dev", "validation")
            if path := next(filter(Path.is_file, (place / form.format(stem) for form in _HUB_FILES)), None):
                found[split] = path
    missing = [name for split, name in task.files if split not in found and not split.startswith("test")]
    if missing:
        raise TrueNegError(f"{folder}: {', '.join(missing)} missing; expected the official files of {task.name}")
    return found


def read_split(task: TaskFormat, name: str, path: Path) -> GlueSplit:
    """Reads an official file (tab-separated columns) or one of Hugging Face; test files need no labels."""
    is_table, is_test = path.suffix in _ROWS, name.startswith("test")
    columns, numbers, skipped = _read_table(task, path) if is_table else _read_lines(task, path)
    texts = (task.hub_texts if is_table else ()) or task.texts
    label = "label" if is_table else task.label
    missing = [repr(column) for column in (*texts, *([] if is_test else [label])) if column not in columns]
    if missing:
        found = " | ".join(columns)[:_LONGEST_QUOTE]
        expected = f"expected the official header, found {found}"
        raise TrueNegError(f"{path}: line 1 has no column {', '.join(missing)}; {expected}")
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
    return GlueSplit(name, path, ids, tuple(columns[column] for column in texts), labels, skipped)


def _read_lines(task: TaskFormat, path: Path) -> tuple[dict[str, list[str]], list[int], int]:
    """The columns of a tab-separated file, whose quotes are ordinary characters, the numbers of its lines, and how many
    others were skipped.
    """
    rows = [(number, line.split("\t")) for number, line in enumerate(read_lines(path), start=1)]
    while rows and not "".join(rows[-1][1]).strip():
        rows.pop()
    if rows:
        rows[0][1][0] = rows[0][1][0].removeprefix("\ufeff")
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


def _read_table(task: TaskFormat, path: Path) -> tuple[dict[str, list[str]], list[int], int]:
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


def _is_label(task: TaskFormat, label: str) -> bool:
    try:
        return 0 <= float(label) <= HIGHEST_SCORE if task.regression else label in task.labels
    except ValueError:
        return False


def swap_pairs(split: GlueSplit) -> GlueSplit:
    """The split followed by itself with the two sentences swapped (2 N examples)."""
    first, second = split.texts
    labels = None if split.labels is None else split.labels * 2
    return replace(split, ids=split.ids * 2, texts=(first + second, second + first), labels=labels)
