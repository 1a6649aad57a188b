"""SQuAD's files, versions 1.1 and 2.0 and others of that form (AddSent, SwapSyn): questions, and predictions."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from .. import files
from ..corpora.extract import read_table
from ..errors import TrueNegError, refuse
from ..files import replacing_text

_FORMAT = "SQuAD's JSON"
_VERSION_2 = re.compile(r"v?2(\.\d+)*")
LARGEST_FILE = 128 << 20  # bytes; SQuAD 2.0 has 42 MB


@dataclass(frozen=True)
class Answer:
    text: str  # as the paragraph has it
    start: int  # its offset in the paragraph, in characters; -1 where the file has none

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    def stands_in(self, context: str) -> bool:
        """Whether the paragraph has this text at this offset."""
        return self.start >= 0 and context[self.start : self.end] == self.text


@dataclass(frozen=True)
class Question:
    """One question with its paragraph."""

    id: str  # unique in its file
    text: str
    context: str  # the paragraph
    answers: tuple[Answer, ...]  # the ground truths; none where SQuAD 2.0 has no answer, or the file tells none
    title: str = ""  # of the article
    impossible: bool = False  # SQuAD 2.0: the paragraph does not answer it

    @property
    def answer_texts(self) -> list[str]:
        return [answer.text for answer in self.answers]

    def require_legal(self, where: str) -> Question:
        """The question itself, if each answer stands at its offset."""
        for answer in self.answers:
            if not answer.stands_in(self.context):
                found = self.context[max(0, answer.start) : max(0, answer.end)]
                raise TrueNegError(
                    f"{where}: question {self.id}: the answer {answer.text!r} does not stand at its answer_start "
                    f"{answer.start}, where the paragraph has {found!r}; correct the file"
                )
        return self


@dataclass(frozen=True)
class SquadData:
    """The questions of a file, in its order."""

    questions: tuple[Question, ...]  # at least one; their ids are unique
    version: str = "1.1"  # as the file says, "" where it does not
    unanswerable: bool = False  # whether questions may have no answer (SQuAD 2.0)


class _Answer(msgspec.Struct):
    text: str
    answer_start: int = -1


class _Answers(msgspec.Struct):
    """The answers of a question as columns, in Hugging Face's rows."""

    text: list[str]
    answer_start: list[int]


class _Question(msgspec.Struct, kw_only=True):
    id: str | int  # GermanQuAD has numbers
    question: str
    answers: list[_Answer] | _Answers | None = None  # published test sets leave it out
    is_impossible: bool | None = None


class _Row(_Question, kw_only=True):
    """A question of Hugging Face's files."""

    context: str
    title: str | None = ""


class _Paragraph(msgspec.Struct):
    context: str
    qas: list[_Question]


class _Article(msgspec.Struct):
    paragraphs: list[_Paragraph]
    title: str | None = ""


class _File(msgspec.Struct):
    """A file as SQuAD publishes it."""

    data: list[_Article]
    version: str | float = ""


def read_squad(path: Path) -> SquadData:
    """Reads a file in SQuAD's format, or rows as Hugging Face's ``datasets`` writes them: JSON lines or Parquet.

    A version such as v2.0 or a question's ``is_impossible`` makes it SQuAD 2.0, where a question with an empty list of
    answers is impossible, also without ``is_impossible``, as for the official scorer. Rows have no version: an empty
    list of answers makes them 2.0.
    """
    version, rows = "", path.suffix in (".parquet", ".jsonl")
    found: list[tuple[_Question, str, str | None]]  # each with its paragraph and title
    if rows:
        found = [(row, row.context, row.title) for row in _read_rows(path)]
    else:
        file = files.read_json(path, _File, expected=f"{_FORMAT}, whole", limit=LARGEST_FILE)
        found = [(entry, p.context, a.title) for a in file.data for p in a.paragraphs for entry in p.qas]
        version = str(file.version)
    answers = [_answers(entry) for entry, _, _ in found]
    marked = any(entry.is_impossible is not None for entry, _, _ in found)
    unanswerable = marked or (rows and () in answers) or bool(_VERSION_2.fullmatch(version))
    questions = tuple(
        Question(
            str(entry.id),
            entry.question,
            context,
            given or (),
            title or "",
            (unanswerable and given == ()) if entry.is_impossible is None else entry.is_impossible,
        )
        for (entry, context, title), given in zip(found, answers, strict=True)
    )
    (name, count), *_ = Counter(question.id for question in questions).most_common(1) or [("", 0)]
    refuse(
        (not count, f"{path}: has no question; expected {_FORMAT}"),
        (count > 1, f"{path}: two questions have the id {name!r}, by which answers are scored"),
    )
    return SquadData(questions, version, unanswerable)


def _read_rows(path: Path) -> Iterator[_Row]:
    if path.suffix == ".parquet":
        for row in read_table(path).to_pylist():
            yield files.convert(row, str(path), _Row, expected=_FORMAT)
        return
    raw = files.read_bytes(path, expected=_FORMAT, limit=LARGEST_FILE).removeprefix(b"\xef\xbb\xbf")
    for number, line in enumerate(raw.splitlines(), 1):
        if line.strip():
            yield files.parse_json(line, f"{path}: line {number}", _Row, expected=_FORMAT)


def _answers(entry: _Question) -> tuple[Answer, ...] | None:
    """The ground truths; None if the file does not tell them."""
    if isinstance(entry.answers, _Answers):
        return tuple(itertools.starmap(Answer, zip(entry.answers.text, entry.answers.answer_start, strict=True)))
    return None if entry.answers is None else tuple(Answer(each.text, each.answer_start) for each in entry.answers)


def write_squad(path: Path, data: SquadData) -> None:
    """Writes a file in SQuAD's format: questions next to each other on one paragraph share it."""

    def entry(question: Question) -> dict[str, Any]:
        answers = [{"text": answer.text, "answer_start": answer.start} for answer in question.answers]
        written = {"id": question.id, "question": question.text, "answers": answers}
        return written | ({"is_impossible": question.impossible} if data.unanswerable else {})

    articles = [
        {
            "title": title,
            "paragraphs": [
                {"context": context, "qas": list(map(entry, asked))}
                for context, asked in itertools.groupby(questions, key=lambda question: question.context)
            ],
        }
        for title, questions in itertools.groupby(data.questions, key=lambda question: question.title)
    ]
    with replacing_text(path) as file:
        json.dump({"version": data.version, "data": articles}, file, ensure_ascii=False)
        file.write("\n")


def read_predictions(path: Path) -> dict[str, str]:
    """Reads answer texts by question id."""
    expected = "a JSON object of answer texts by question id"
    return files.read_json(path, dict[str, str], expected=expected, limit=LARGEST_FILE)
