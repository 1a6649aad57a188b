"""Whether stored features fit together, so that no index leaves its array later, in a worker process of training."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray


def find_wrong(features: Any) -> str | None:
    """The first thing that does not fit, as a part of a message; None where all do.

    Args:
        features: a :class:`truneg_fairseq.squad.features.SquadFeatures`.
    """
    return next((what for wrong, what in _checks(features) if wrong), None)


def _checks(features: Any) -> Iterator[tuple[bool, str]]:
    """Whether something is wrong, and what; each check relies on those before it."""
    questions = len(features.question_context)
    counts = {len(features.ids), len(features.questions), len(features.answers), len(features.impossible)}
    yield counts != {questions}, "questions, ids and answers differ in number"
    yield from _offset_checks("context", features.context_offsets, features.context_tokens, len(features.contexts))
    yield from _offset_checks("question", features.question_offsets, features.question_tokens, questions)
    spans_shape = (len(features.context_tokens), 2)
    yield features.context_spans.shape != spans_shape, "context_spans are not those of its tokens"
    yield _outside(features.question_context, len(features.contexts)), "question_context names other contexts"
    question = features.window_question
    yield _outside(question, questions) or _falls(question), "window_question names other questions"
    bounds, answer = features.window_bounds, features.window_answer
    shapes = {bounds.shape, answer.shape}
    yield shapes != {(len(question), 2)}, "window_bounds or window_answer are not those of its windows"
    context = np.diff(features.context_offsets)[features.question_context[question]]
    yield _leave(bounds, context), "window_bounds leave the context"
    yield _leave(answer, features.lengths - 1), "window_answer leaves the window"


def _offset_checks(name: str, offsets: NDArray[Any], tokens: NDArray[Any], count: int) -> Iterator[tuple[bool, str]]:
    ends = offsets[:1].tolist() + offsets[-1:].tolist()
    yield len(offsets) != count + 1 or ends != [0, len(tokens)] or _falls(offsets), f"{name}_offsets do not divide them"
    yield bool((tokens < 0).any()), f"{name}_tokens are below 0"


def _outside(numbers: NDArray[Any], high: int) -> bool:
    return bool(((numbers < 0) | (numbers >= high)).any())


def _falls(numbers: NDArray[Any]) -> bool:
    return bool((np.diff(numbers) < 0).any())


def _leave(pairs: NDArray[Any], last: NDArray[Any]) -> bool:
    return bool(((pairs[:, 0] < 0) | (pairs[:, 1] < pairs[:, 0]) | (pairs[:, 1] > last)).any())
