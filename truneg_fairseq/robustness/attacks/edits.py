"""Changes of a paragraph that keep every answer at its offset."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from ...squad.data import Answer, Question


class Edit(NamedTuple):
    """Another text in place of a stretch of the paragraph.

    Attributes:
        start, end: offsets in characters, equal for an insertion.
    """

    start: int
    end: int
    text: str  # what is to stand there


def edited(question: Question, edits: Iterable[Edit]) -> Question:
    """The question with its paragraph changed and the offsets of its answers shifted.

    Args:
        question: its answers stand at their offsets.
        edits: that overlap neither each other nor an answer; an insertion at an answer's start goes before it.

    Raises:
        ValueError: an edit overlaps another one or an answer.
    """
    ordered = sorted(edits)
    pieces, position = [], 0
    for edit in ordered:
        if edit.start < position:
            raise ValueError(f"{edit} overlaps another edit")
        pieces += [question.context[position : edit.start], edit.text]
        position = edit.end
    context = "".join([*pieces, question.context[position:]])
    result = replace(question, context=context, answers=tuple(_shifted(answer, ordered) for answer in question.answers))
    assert all(answer.stands_in(context) for answer in result.answers)
    return result


def _shifted(answer: Answer, edits: list[Edit]) -> Answer:
    shift = 0
    for edit in edits:
        if edit.end <= answer.start:
            shift += len(edit.text) - (edit.end - edit.start)
        elif edit.start < answer.end:
            raise ValueError(f"{edit} overlaps the answer {answer}")
    return replace(answer, start=answer.start + shift)
