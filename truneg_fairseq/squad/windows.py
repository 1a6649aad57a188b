"""The arithmetic of sliding windows over a context, BERT's rules (numpy only).

A window is ``<s> question </s> context tokens </s>``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SPECIAL_TOKENS = 3
"""``<s>`` and two ``</s>`` in every window."""


def window_bounds(tokens: int, room: int, stride: int) -> NDArray[np.int32]:
    """The windows over a context.

    They begin every min(stride, room) tokens, and the first that reaches the end of the context is the last.

    Args:
        tokens: the number of the context's tokens, 0 or more.
        room: the number of context tokens that fit a window, 1 or more.
        stride: tokens from the begin of one window to the next, 1 or more.

    Returns:
        Shape (W, 2): first token and one past the last one, W >= 1. A context without tokens has one empty window.
    """
    step = min(stride, room)
    count = 1 + max(0, -(-(tokens - room) // step))
    begin = np.arange(count, dtype=np.int32) * step
    return np.stack([begin, np.minimum(begin + room, tokens)], axis=1).astype(np.int32)


def best_windows(bounds: NDArray[np.int32], tokens: int) -> NDArray[np.int64]:
    """For every token of a context the window in which it is to be judged: the one with the most context around it.

    BERT's rule: the largest min(tokens to its left, tokens to its right) + 0.01 x length of the window; of equal ones
    the first.

    Args:
        bounds: the windows, shape (W, 2), that together hold every token; they may begin before token 0 and end after
            the last.
        tokens: the number of tokens.

    Returns:
        Shape (tokens,): the number of the window.
    """
    begin, end = bounds[:, :1].astype(np.int64), bounds[:, 1:].astype(np.int64)
    position = np.arange(tokens, dtype=np.int64)[None]
    # In hundredths, so that ties are exact.
    score = 100 * np.minimum(position - begin, end - 1 - position) + (end - begin)
    score[(position < begin) | (position >= end)] = -1
    return score.argmax(axis=0)


def find_tokens(spans: NDArray[np.int32], begin: int, end: int) -> tuple[int, int] | None:
    """The first and the last token that stand for some of the characters ``begin`` to ``end`` (exclusive).

    Args:
        spans: characters of every token, begin and end, shape (N, 2).
        begin: first character.
        end: one past the last character.

    Returns:
        None where no token stands for any of them.
    """
    (found,) = np.nonzero((spans[:, 1] > begin) & (spans[:, 0] < end) & (spans[:, 1] > spans[:, 0]))
    return (int(found[0]), int(found[-1])) if len(found) else None


def labels_in_windows(bounds: NDArray[np.int32], first: int, last: int, offset: int) -> NDArray[np.int32]:
    """The answer's positions in every window.

    Args:
        bounds: the windows, shape (W, 2).
        first: the first token of the answer.
        last: its last token.
        offset: the position in a window of its first context token.

    Returns:
        Shape (W, 2): positions of the first and the last token; (0, 0), which is ``<s>``, where the window does not
        hold the whole answer.
    """
    inside = (bounds[:, 0] <= first) & (last < bounds[:, 1])
    labels = np.array([[first, last]]) - bounds[:, :1] + offset
    return np.where(inside[:, None], labels, 0).astype(np.int32)


def close_gaps(text: str, spans: NDArray[np.int32]) -> NDArray[np.int32]:
    """Tokens' characters, widened over characters that belong to no token because the tokenizer drops them.

    A dropped accent of its own, control character or joiner goes to the token it touches, first to the one before it,
    so that an answer is cut from the text with all its characters. White space stays between the tokens, and so does
    what is dropped between white space.

    Args:
        text: the text.
        spans: characters of every token, begin and end, shape (N, 2), in the order of the text.

    Returns:
        The widened spans, shape (N, 2).
    """
    closed = spans.copy()
    if not len(spans):
        return closed
    # Several tokens may spell one character together: what counts is the furthest end so far.
    ends = np.concatenate([[0], np.maximum.accumulate(spans[:, 1])])
    begins = np.append(spans[:, 0], len(text))
    for token in np.flatnonzero(begins > ends):
        gap = text[ends[token] : begins[token]]
        if gap.isspace():
            continue
        before = len(gap.split(maxsplit=1)[0]) if token > 0 and not gap[0].isspace() else 0
        if before:
            closed[token - 1, 1] = ends[token] + before
        if token < len(spans) and not gap[-1].isspace() and before < len(gap):
            closed[token, 0] -= len(gap.rsplit(maxsplit=1)[-1])
    return closed
