"""SQuAD's JSON, versions 1.1 and 2.0 and files in the same form (AddSent, SwapSyn)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import TrueNegError


@dataclass(frozen=True)
class SquadAnswer:
    """One annotator's answer: ``context[begin : begin + len(text)]`` should be ``text``."""

    text: str
    begin: int

    @property
    def end(self) -> int:
        """Where the answer ends in the context."""
        return self.begin + len(self.text)


@dataclass(frozen=True)
class SquadQuestion:
    """One question.

    Attributes:
        id: its id, by which predictions are scored.
        text: the question.
        context: the number of its context.
        answers: the annotators' answers; none where it cannot be answered, or the file has none.
        impossible: version 2.0: the context does not answer it.
    """

    id: str
    text: str
    context: int
    answers: tuple[SquadAnswer, ...]
    impossible: bool


@dataclass(frozen=True)
class SquadFile:
    """The contexts (SQuAD's paragraphs) and the questions of a file, in its order."""

    contexts: list[str]
    questions: list[SquadQuestion]


def read_squad(path: Path) -> SquadFile:
    """Reads SQuAD's JSON.

    Raises:
        TrueNegError: the file is missing, empty, not UTF-8 or not JSON; it lacks a field or has one of another type, of
            which the place is named; a question's id comes twice; there is no question.
    """
    data = _Field(path, "", _read_json(path))
    contexts: list[str] = []
    questions: list[SquadQuestion] = []
    for article in data["data"].items():
        for paragraph in article["paragraphs"].items():
            questions += [_read_question(question, len(contexts)) for question in paragraph["qas"].items()]
            contexts.append(paragraph["context"].string())
    if not questions:
        raise TrueNegError(f"{path}: has no question; expected SQuAD's JSON")
    seen: set[str] = set()
    for question in questions:
        if question.id in seen:
            raise TrueNegError(f"{path}: two questions have the id {question.id!r}, by which answers are scored")
        seen.add(question.id)
    return SquadFile(contexts, questions)


def _read_json(path: Path) -> Any:
    try:
        raw = path.read_bytes()
        return json.loads(raw.decode("utf-8-sig"))
    except OSError as error:
        raise TrueNegError(f"{path}: cannot be read ({error.strerror}); expected SQuAD's JSON") from None
    except UnicodeDecodeError as error:
        raise TrueNegError(f"{path}: not UTF-8 at byte {error.start}; convert the file to UTF-8") from None
    except (ValueError, RecursionError) as error:
        found = "an empty file" if not raw.strip() else f"no JSON ({str(error).splitlines()[0]})"
        raise TrueNegError(f"{path}: {found}; expected SQuAD's JSON, whole") from None


@dataclass(frozen=True)
class _Field:
    """A value of the JSON that knows its place, for messages."""

    path: Path
    place: str
    value: Any

    def __getitem__(self, key: str) -> _Field:
        if not isinstance(self.value, dict) or key not in self.value:
            raise TrueNegError(f"{self.path}: no {key!r} in {self.place or 'the file'}; expected SQuAD's JSON")
        return _Field(self.path, f"{self.place}.{key}".lstrip("."), self.value[key])

    def get(self, key: str, default: Any) -> _Field:
        return self[key] if key in self.value else _Field(self.path, f"{self.place}.{key}", default)

    def items(self) -> list[_Field]:
        values = self._checked(list, "a list")
        return [_Field(self.path, f"{self.place}[{index}]", value) for index, value in enumerate(values)]

    def string(self) -> str:
        text: str = self._checked(str, "a string")
        if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
            raise TrueNegError(f"{self.path}: {self.place} has half a character (a lone surrogate); repair the text")
        return text

    def integer(self) -> int:
        number: int = self._checked(int, "an integer")
        return number

    def boolean(self) -> bool:
        value: bool = self._checked(bool, "true or false")
        return value

    def _checked(self, kind: type, expected: str) -> Any:
        if not isinstance(self.value, kind) or (kind is int and isinstance(self.value, bool)):
            found = repr(self.value)
            found = found if len(found) <= 40 else f"{found[:37]}..."
            raise TrueNegError(f"{self.path}: {self.place} is {found}, expected {expected}")
        return self.value


def _read_question(question: _Field, context: int) -> SquadQuestion:
    identifier, text = question["id"].string(), question["question"].string()
    impossible = question.get("is_impossible", False).boolean()
    answers = [
        SquadAnswer(answer["text"].string(), answer["answer_start"].integer())
        for answer in question.get("answers", []).items()
    ]
    return SquadQuestion(identifier, text, context, () if impossible else tuple(answers), impossible)
