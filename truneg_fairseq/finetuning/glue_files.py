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
_ID_COLUMNS = (("index",), ("id",), ("#1 ID", "#2 ID"))


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
    """The files of a task by split; the test files are optional.

    ``folder`` has the official files; without any, those of Hugging Face are looked for.
    """
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
    """Reads an official file (tab-separated columns, quotes are ordinary characters) or one of Hugging Face.

    A byte order mark and carriage returns at line ends are removed. Test files need no label column.
    """
    if path.suffix in _ROWS:
        return _read_rows(task, name, path)
    rows = list(enumerate(read_lines(path), start=1))
    while rows and not rows[-1][1].strip():
        rows.pop()
    first = rows[0][1].removeprefix("\ufeff") if rows else ""
    columns, is_test = task.without_header, name.startswith("test")
    if not columns or has_header(task, first):
        columns, rows = tuple(first.split("\t")), rows[1:]
        _check_header(path, columns, task.texts if is_test else (*task.texts, task.label))
    elif rows:
        rows[0] = (1, first)
    kept, skipped = _split_columns(path, rows, columns, skips=task.skips_broken_lines and task.label in columns)
    if not kept:
        raise TrueNegError(f"{path}: has no line with {len(columns)} columns; expected {task.name}'s examples")
    labels = None
    if task.label in columns:
        column = columns.index(task.label)
        labels = _checked_labels(task, path, [(number, values[column].strip()) for number, values in kept])
    texts = tuple([values[columns.index(column)] for _, values in kept] for column in task.texts)
    named = next((names for names in _ID_COLUMNS if set(names) <= set(columns)), ())
    at = [columns.index(column) for column in named]
    ids = [" ".join(values[column] for column in at) if at else str(number - rows[0][0]) for number, values in kept]
    return GlueSplit(name, path, ids, texts, labels, skipped)


def _read_rows(task: TaskFormat, name: str, path: Path) -> GlueSplit:
    """Hugging Face's file of a split: labels are numbers, or names; -1 or null for no label, of a test split alone.

    ``idx`` is the number of the row.
    """
    table = read_table(path)
    columns = task.hub_texts or task.texts
    is_test = name.startswith("test")
    _check_header(path, tuple(table.column_names), columns if is_test else (*columns, "label"))
    texts = tuple([text or "" for text in table[column].to_pylist()] for column in columns)
    ids = table["idx"].to_pylist() if "idx" in table.column_names else range(len(table))
    labels = None
    given = table["label"].to_pylist() if "label" in table.column_names else []
    if not is_test or any(label not in (None, -1) for label in given):
        names: dict[Any, str] = dict(enumerate(task.hub_labels or task.labels))
        # Scores with the digits of their type: 3.8 in fp32 is no 3.7999999523162842.
        scores = table["label"].to_numpy() if task.regression else ()
        found = [str(score) for score in scores] or [names.get(label, str(label)) for label in given]
        labels = _checked_labels(task, path, list(enumerate(found, start=1)))
    return GlueSplit(name, path, [str(number) for number in ids], texts, labels)


def swap_pairs(split: GlueSplit) -> GlueSplit:
    """The split followed by itself with the two sentences swapped (2 N examples)."""
    first, second = split.texts
    labels = None if split.labels is None else split.labels * 2
    return replace(split, ids=split.ids * 2, texts=(first + second, second + first), labels=labels)


def _check_header(path: Path, columns: tuple[str, ...], wanted: tuple[str, ...]) -> None:
    missing = ", ".join(repr(column) for column in wanted if column not in columns)
    if missing:
        found = _shorten(" | ".join(columns))
        raise TrueNegError(f"{path}: line 1 has no column {missing}; expected the official header, found {found}")


def has_header(task: TaskFormat, line: str) -> bool:
    """Whether a file's first line names the columns of the sentences."""
    return set(task.texts) <= set(line.split("\t"))


def _split_columns(
    path: Path, rows: list[tuple[int, str]], columns: Sequence[str], skips: bool
) -> tuple[list[tuple[int, list[str]]], int]:
    """(line number, values) of the lines with a value for each column, and the number of the others."""
    kept = []
    for number, row in rows:
        values = row.split("\t")
        if len(values) == len(columns):
            kept.append((number, values))
        elif not skips:
            raise TrueNegError(
                f"{path}: line {number} has {len(values)} columns, expected {len(columns)} (separated by tabs; quotes "
                f"are ordinary characters): {_shorten(row)}"
            )
    return kept, len(rows) - len(kept)


def _checked_labels(task: TaskFormat, path: Path, labels: Sequence[tuple[int, str]]) -> list[str]:
    """The labels of lines, each with the line's number."""
    for number, label in labels:
        try:
            fits = 0 <= float(label) <= HIGHEST_SCORE if task.regression else label in task.labels
        except ValueError:
            fits = False
        if not fits:
            expected = "a number from 0 to 5" if task.regression else f"one of {', '.join(task.labels)}"
            raise TrueNegError(f"{path}: line {number} has the label {label!r}, expected {expected}")
    return [label for _, label in labels]


def _shorten(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."
