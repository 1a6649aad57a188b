"""Files of SQuAD, 1.1 and 2.0: questions on paragraphs, and predictions of their answers."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import TrueNegError
from ..files import replacing_text

_FORMAT = "SQuAD's format: {version, data: [{title, paragraphs: [{context, qas: [{id, question, answers}]}]}]}"


@dataclass(frozen=True)
class Answer:
    """A ground truth.

    Attributes:
        text: as the paragraph has it.
        start: its offset in the paragraph, in characters; -1 where the file has none.
    """

    text: str
    start: int

    @property
    def end(self) -> int:
        """The offset of the first character behind the answer."""
        return self.start + len(self.text)

    def stands_in(self, context: str) -> bool:
        """Whether the paragraph has this text at this offset."""
        return self.start >= 0 and context[self.start : self.end] == self.text


@dataclass(frozen=True)
class Question:
    """One question with its paragraph.

    Attributes:
        id: unique in its file.
        text: the question.
        context: the paragraph.
        answers: the ground truths; none where SQuAD 2.0 has no answer.
        title: of the article, "" where there is none.
    """

    id: str
    text: str
    context: str
    answers: tuple[Answer, ...]
    title: str = ""

    @property
    def answer_texts(self) -> list[str]:
        """The texts of the ground truths."""
        return [answer.text for answer in self.answers]

    def require_legal(self, where: str) -> Question:
        """The question itself, where each answer stands at its offset.

        Raises:
            TrueNegError: one does not; ``where`` names the file.
        """
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
    """The questions of a file, in its order.

    Attributes:
        questions: at least one; their ids are unique.
        version: as the file says, "" where it does not.
        unanswerable: whether questions may have no answer (SQuAD 2.0).
    """

    questions: tuple[Question, ...]
    version: str = "1.1"
    unanswerable: bool = False


def read_json(path: Path, expected: str) -> Any:
    """The content of a JSON file.

    Raises:
        TrueNegError: the file cannot be read or is no JSON; ``expected`` says what it should be.
    """
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise TrueNegError(f"{path}: cannot be read ({error.strerror}); expected {expected}") from None
    except UnicodeDecodeError:
        raise TrueNegError(f"{path}: is not UTF-8 text; expected {expected}") from None
    except json.JSONDecodeError as error:
        raise TrueNegError(f"{path}: line {error.lineno} is no JSON ({error.msg}); expected {expected}") from None
    except RecursionError:
        raise TrueNegError(f"{path}: is nested too deeply; expected {expected}") from None


def read_squad(path: Path) -> SquadData:
    """Reads a file in SQuAD's format; a version 2 or a question's ``is_impossible`` makes it 2.0.

    Raises:
        TrueNegError: the file is not of that format, has no questions, or has an id twice.
    """
    content = read_json(path, _FORMAT)
    articles = _member(content, "data", list, f"{path}: the file")
    questions: list[Question] = []
    marked = False
    for number, article in enumerate(articles, start=1):
        for question, impossible in _questions(article, f"{path}: article {number}"):
            questions.append(question)
            marked = marked or impossible
    if not questions:
        raise TrueNegError(f"{path}: has no questions; expected {_FORMAT}")
    _require_unique(questions, path)
    version = str(content.get("version", ""))
    return SquadData(tuple(questions), version, unanswerable=marked or version.lstrip("v").startswith("2"))


def write_squad(path: Path, data: SquadData) -> None:
    """Writes a file in SQuAD's format: questions next to each other on one paragraph share it.

    Raises:
        TrueNegError: the folder cannot be written.
    """
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
    """Reads predictions, a JSON object of answer texts by question id.

    Raises:
        TrueNegError: the file is not of that format.
    """
    expected = "a JSON object of answer texts by question id"
    content = read_json(path, expected)
    if not isinstance(content, dict):
        raise TrueNegError(f"{path}: is {_kind(content)}; expected {expected}")
    for name, text in content.items():
        if not isinstance(text, str):
            raise TrueNegError(f"{path}: the prediction of {name!r} is {_kind(text)}; expected the answer's text")
    return content


def read_no_answer_probabilities(path: Path) -> dict[str, float]:
    """Reads the probability that a question has no answer, a JSON object of numbers by question id.

    Raises:
        TrueNegError: the file is not of that format.
    """
    expected = "a JSON object of numbers by question id"
    content = read_json(path, expected)
    if not isinstance(content, dict):
        raise TrueNegError(f"{path}: is {_kind(content)}; expected {expected}")
    for name, number in content.items():
        if isinstance(number, bool) or not isinstance(number, int | float) or math.isnan(number):
            raise TrueNegError(f"{path}: the value of {name!r} is {number!r}; expected a number")
    return content


def _questions(article: Any, where: str) -> Iterator[tuple[Question, bool]]:
    """The questions of an article, and whether each has the field ``is_impossible``."""
    for number, paragraph in enumerate(_member(article, "paragraphs", list, where), start=1):
        place = f"{where}, paragraph {number}"
        context = _member(paragraph, "context", str, place)
        for entry in _member(paragraph, "qas", list, place):
            name = _member(entry, "id", str, f"{place}: a question")
            asked = f"{where.partition(':')[0]}: question {name}"
            answers = [_answer(answer, asked) for answer in _member(entry, "answers", list, asked)]
            text = _member(entry, "question", str, asked)
            title = str(article.get("title", ""))
            yield Question(name, text, context, tuple(answers), title), "is_impossible" in entry


def _answer(content: Any, where: str) -> Answer:
    text = _member(content, "text", str, f"{where}: an answer")
    start = content.get("answer_start", -1)
    if isinstance(start, bool) or not isinstance(start, int):
        raise TrueNegError(f"{where}: answer_start is {start!r}; expected an offset in characters")
    return Answer(text, start)


def _entry(question: Question, unanswerable: bool) -> dict[str, Any]:
    answers = [{"text": answer.text, "answer_start": answer.start} for answer in question.answers]
    entry: dict[str, Any] = {"id": question.id, "question": question.text, "answers": answers}
    return {**entry, "is_impossible": not answers} if unanswerable else entry


def _require_unique(questions: list[Question], path: Path) -> None:
    seen: set[str] = set()
    for question in questions:
        if question.id in seen:
            raise TrueNegError(f"{path}: the id {question.id} stands twice; expected every question to have its own")
        seen.add(question.id)


def _member(content: Any, name: str, kind: type, where: str) -> Any:
    if not isinstance(content, dict):
        raise TrueNegError(f"{where} is {_kind(content)}, where an object with {name!r} should be; expected {_FORMAT}")
    if name not in content:
        raise TrueNegError(f"{where} has no {name!r}; expected {_FORMAT}")
    if not isinstance(content[name], kind):
        raise TrueNegError(f"{where} has {_kind(content[name])} as {name!r}; expected {_FORMAT}")
    return content[name]


def _kind(content: Any) -> str:
    kinds = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return kinds.get(type(content), "a number")
