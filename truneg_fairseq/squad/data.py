"""SQuAD's files, versions 1.1 and 2.0 and others of that form (AddSent, SwapSyn): questions, and predictions."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .. import schema
from ..errors import TrueNegError
from ..files import replacing_text

_FORMAT = "SQuAD's JSON"
_VERSION_2 = re.compile(r"v?2(\.\d+)*")
_LONGEST_SHOWN = 40
_LARGEST_NUMBER = 1e300
_LARGEST_FILE = 128 << 20  # bytes; SQuAD 2.0 has 42 MB


@dataclass(frozen=True)
class Answer:
    """A ground truth."""

    text: str  # as the paragraph has it
    start: int  # its offset in the paragraph, in characters; -1 where the file has none

    @property
    def end(self) -> int:
        """The offset of the first character behind the answer."""
        return self.start + len(self.text)

    def stands_in(self, context: str) -> bool:
        """Whether the paragraph has this text at this offset."""
        return self.start >= 0 and context[self.start : self.end] == self.text


@dataclass(frozen=True)
class Question:
    """One question with its paragraph."""

    id: str  # unique in its file
    text: str  # the question
    context: str  # the paragraph
    answers: tuple[Answer, ...]  # the ground truths; none where SQuAD 2.0 has no answer, or the file tells none
    title: str = ""  # of the article, "" where there is none
    impossible: bool = False  # as the file says (SQuAD 2.0): the paragraph does not answer it

    @property
    def answer_texts(self) -> list[str]:
        """The texts of the ground truths."""
        return [answer.text for answer in self.answers]

    def require_legal(self, where: str) -> Question:
        """The question itself, where each answer stands at its offset."""
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


def read_squad(path: Path) -> SquadData:
    """Reads a file in SQuAD's format; a version such as v2.0 or a question's ``is_impossible`` makes it 2.0.

    A question without the field ``answers`` has none (published test sets leave it out), an answer without
    ``answer_start`` has the offset -1. In a file of version 2.0 a question with an empty list of answers is impossible,
    also without ``is_impossible``, as for the official scorer.
    """
    data = _Field(path, "", read_json(path, _FORMAT))
    questions: list[Question] = []
    unmarked: list[int] = []
    marked = False
    for article in data["data"].items():
        title = article.get("title", "").string()
        for paragraph in article["paragraphs"].items():
            context = paragraph["context"].string()
            for entry in paragraph["qas"].items():
                questions.append(_read_question(entry, context, title))
                if "is_impossible" in entry.value:
                    marked = True
                elif "answers" in entry.value and not questions[-1].answers:
                    unmarked.append(len(questions) - 1)
    if not questions:
        raise TrueNegError(f"{path}: has no question; expected {_FORMAT}")
    _require_unique(questions, path)
    version = str(data.get("version", "").value)
    unanswerable = marked or bool(_VERSION_2.fullmatch(version))
    if unanswerable:
        for index in unmarked:
            questions[index] = replace(questions[index], impossible=True)
    return SquadData(tuple(questions), version, unanswerable)


def write_squad(path: Path, data: SquadData) -> None:
    """Writes a file in SQuAD's format: questions next to each other on one paragraph share it."""
    articles: list[dict[str, Any]] = []
    for question in data.questions:
        if not articles or articles[-1]["title"] != question.title:
            articles.append({"title": question.title, "paragraphs": []})
        paragraphs = articles[-1]["paragraphs"]
        if not paragraphs or paragraphs[-1]["context"] != question.context:
            paragraphs.append({"context": question.context, "qas": []})
        paragraphs[-1]["qas"].append(_entry(question, data.unanswerable))
    with replacing_text(path) as file:
        json.dump({"version": data.version, "data": articles}, file, ensure_ascii=False)
        file.write("\n")


def read_predictions(path: Path) -> dict[str, str]:
    """Reads predictions, a JSON object of answer texts by question id."""
    return {name: value.string() for name, value in _by_question(path, "a JSON object of answer texts by question id")}


def read_no_answer_probabilities(path: Path) -> dict[str, float]:
    """Reads the probability that a question has no answer, a JSON object of numbers by question id."""
    return {name: value.number() for name, value in _by_question(path, "a JSON object of numbers by question id")}


def read_json(path: Path, expected: str, *, limit: int = _LARGEST_FILE) -> Any:
    """The content of a JSON file of at most so many bytes; a byte order mark is passed over."""
    return schema.read_json(path, Any, expected=f"{expected}, whole", limit=limit)


@dataclass(frozen=True)
class _Field:
    """A value of the JSON that knows its place, for messages."""

    path: Path
    place: str
    value: Any

    def __getitem__(self, key: str) -> _Field:
        if not isinstance(self.value, dict) or key not in self.value:
            raise TrueNegError(f"{self.path}: no {key!r} in {self.place or 'the file'}; expected {_FORMAT}")
        return _Field(self.path, f"{self.place}.{key}".lstrip("."), self.value[key])

    def get(self, key: str, default: Any) -> _Field:
        known = isinstance(self.value, dict) and key in self.value
        return self[key] if known else _Field(self.path, f"{self.place}.{key}", default)

    def items(self) -> list[_Field]:
        values = self._checked(list, "a list")
        return [_Field(self.path, f"{self.place}[{index}]", value) for index, value in enumerate(values)]

    def string(self) -> str:
        text: str = self._checked(str, "a string")
        return text

    def integer(self) -> int:
        number: int = self._checked(int, "an integer")
        return number

    def number(self) -> float:
        number = self.value
        if isinstance(number, bool) or not isinstance(number, int | float) or abs(number) > _LARGEST_NUMBER:
            raise TrueNegError(f"{self.path}: {self.place} is {str(number)[:_LONGEST_SHOWN]}; expected a number")
        return number

    def boolean(self) -> bool:
        value: bool = self._checked(bool, "true or false")
        return value

    def _checked(self, kind: type, expected: str) -> Any:
        if not isinstance(self.value, kind) or (kind is int and isinstance(self.value, bool)):
            found = repr(self.value)
            found = found if len(found) <= _LONGEST_SHOWN else f"{found[: _LONGEST_SHOWN - 3]}..."
            raise TrueNegError(f"{self.path}: {self.place} is {found}, expected {expected}")
        return self.value


def _read_question(entry: _Field, context: str, title: str) -> Question:
    answers = [
        Answer(answer["text"].string(), answer.get("answer_start", -1).integer())
        for answer in entry.get("answers", []).items()
    ]
    impossible = entry.get("is_impossible", False).boolean()
    return Question(entry["id"].string(), entry["question"].string(), context, tuple(answers), title, impossible)


def _by_question(path: Path, expected: str) -> list[tuple[str, _Field]]:
    content = read_json(path, expected)
    if not isinstance(content, dict):
        raise TrueNegError(f"{path}: is {type(content).__name__}, not an object; expected {expected}")
    return [(name, _Field(path, f"the value of {name!r}", value)) for name, value in content.items()]


def _entry(question: Question, unanswerable: bool) -> dict[str, Any]:
    answers = [{"text": answer.text, "answer_start": answer.start} for answer in question.answers]
    entry: dict[str, Any] = {"id": question.id, "question": question.text, "answers": answers}
    return {**entry, "is_impossible": question.impossible} if unanswerable else entry


def _require_unique(questions: list[Question], path: Path) -> None:
    seen: set[str] = set()
    for question in questions:
        if question.id in seen:
            raise TrueNegError(f"{path}: two questions have the id {question.id!r}, by which answers are scored")
        seen.add(question.id)
