"""Reads people's cloze answers: the words that they wrote after the beginnings of sentences.

Two formats: a JSON list of {"context", "word", "answers"}, and the file of distributions that de Varda, Marelli and
Amenta (Behavior Research Methods 56, 2024) publish.
"""

from __future__ import annotations

import ast
import hashlib
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from ..errors import TrueNegError, unreadable
from ..files import parse_json, read_bytes

LARGEST_FILE = 256 << 20  # bytes, unpacked
_MOST = 1_000_000  # people who give one answer
_UNKNOWN = "unk"
_EXPECTED = (
    'people\'s answers: a JSON list of {"context", "word", "answers": {word: count}}, or cloze_laplace.txt of '
    "github.com/Andrea-de-Varda/prediction-resource"
)


class _Item(Struct):
    context: str
    answers: dict[str, Annotated[int, Meta(ge=1, le=_MOST)]]
    word: str | None = None


@dataclass(frozen=True)
class Context:
    """The beginning of a sentence, and what people wrote as its next word."""

    text: str
    word: str | None  # that the text itself goes on with; None where it is not known
    answers: dict[str, int]  # how many people gave each, at least one

    @property
    def people(self) -> int:
        return sum(self.answers.values())


@dataclass(frozen=True)
class Answers:
    """A file's content."""

    path: Path
    sha256: str  # hexadecimal, of the unpacked file
    contexts: tuple[Context, ...]


def read_answers(path: Path, content: bytes | None = None) -> Answers:
    """Reads a file of either format, plain or gzipped; contexts without answers are left out.

    ``content`` is that of the file, unpacked, if it has been read.
    """
    if content is None:
        content = read_bytes(path, expected=_EXPECTED, limit=LARGEST_FILE)
    if content.lstrip().startswith(b"{'"):
        contexts = _published(path, content)
    else:
        items = parse_json(content, str(path), list[_Item], expected=_EXPECTED)
        contexts = [Context(item.context, item.word, item.answers) for item in items]
    answered = tuple(context for context in contexts if context.answers and context.text.strip())
    if not answered:
        raise TrueNegError(f"{path}: has no context with answers; expected {_EXPECTED}")
    return Answers(path, hashlib.sha256(content).hexdigest(), answered)


def _published(path: Path, content: bytes) -> list[Context]:
    """Counts from a Python literal {context: {word: p}}, with p = (count + 1) / N and p(unk) = 1 / N.

    The corpus's word is known where exactly one other context goes on with a word more.
    """
    try:
        found: Any = ast.literal_eval(content.decode())
        counts = {
            context: {
                word: round(p / answers[_UNKNOWN]) - 1
                for word, p in answers.items()
                if word != _UNKNOWN and round(p / answers[_UNKNOWN]) > 1
            }
            for context, answers in found.items()
        }
        if max((count for answers in counts.values() for count in answers.values()), default=0) > _MOST:
            raise ValueError("its probabilities are not those of counts")
    except Exception as error:  # other literals fail in many ways
        raise TrueNegError(f"{path}: {unreadable(error)}; expected {_EXPECTED}") from None
    following = defaultdict(set)
    for context in counts:
        before, _, word = context.rpartition(" ")
        following[before].add(word)
    return [
        Context(context, following[context].pop() if len(following[context]) == 1 else None, answers)
        for context, answers in counts.items()
    ]
