"""The windows over SQuAD's contexts, and from a model's logits for them to the answers to the questions.

Spans are found on the model's device (torch), answers on the host (numpy).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..files import read_arrays, save_arrays
from ..vocabulary import BOS, EOS
from .squad_files import QuestionScore, score_question

if TYPE_CHECKING:
    from torch import Tensor

SPECIAL_TOKENS = 3
"""``<s>`` and two ``</s>`` in every window."""
MAX_ANSWER_LENGTH = 30
"""Tokens of an answer at most."""
_TEXTS = ("ids", "questions", "contexts", "answers")
_EXPECTED = "the windows that 'truneg data prepare' made; remove the task's folder and prepare it again"


@dataclass(frozen=True, kw_only=True)
class SquadFeatures:
    """The windows of a split.

    C contexts of T tokens in all, Q questions of R tokens in all, W windows, those of a question in a row and in the
    order of the context. Ids are those of fairseq.
    """

    context_tokens: NDArray[np.int32]  # int32, shape (T,): ids of the contexts' tokens, one context after the other
    # int64, shape (C + 1,): the tokens of context c are ``context_tokens[context_offsets[c] : context_offsets[c + 1]]``
    context_offsets: NDArray[np.int64]
    # int32, shape (T, 2): the characters of its context that a token stands for, begin and end
    context_spans: NDArray[np.int32]
    question_tokens: NDArray[np.int32]  # int32, shape (R,): ids of the questions' tokens, cut to the longest allowed
    question_offsets: NDArray[np.int64]  # int64, shape (Q + 1,): as ``context_offsets``
    question_context: NDArray[np.int32]  # int32, shape (Q,): the number of the question's context
    impossible: NDArray[np.bool_]  # bool, shape (Q,): version 2.0: the context has no answer
    window_question: NDArray[np.int32]  # int32, shape (W,): the number of the window's question
    # int32, shape (W, 2): first and one past the last of the context's tokens in the window
    window_bounds: NDArray[np.int32]
    # int32, shape (W, 2): positions in the window of the first and the last token of the first answer that was found;
    # (0, 0), ``<s>``, where the window does not hold the answer, or the question has no answer
    window_answer: NDArray[np.int32]
    ids: list[str]  # Q ids of SQuAD
    questions: list[str]  # Q questions
    contexts: list[str]  # C contexts
    answers: list[list[str]]  # the texts of the annotators' answers to each of the Q questions

    def __len__(self) -> int:
        return len(self.window_question)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The windows' tokens, special tokens included, shape (W,)."""
        queries = np.diff(self.question_offsets)[self.window_question]
        return queries + np.diff(self.window_bounds, axis=1)[:, 0] + SPECIAL_TOKENS

    def tokens(self, window: int) -> NDArray[np.int64]:
        """The ids of a window, ``<s> question </s> context </s>``, shape (length,)."""
        query, context = self._parts(window)
        return np.concatenate([[BOS], query, [EOS], self.context_tokens[context], [EOS]]).astype(np.int64)

    def spans(self, window: int) -> NDArray[np.int32]:
        """The characters of the context that every position stands for, shape (length, 2); -1 outside the context."""
        query, context = self._parts(window)
        inside = self.context_spans[context]
        spans = np.full((len(query) + len(inside) + SPECIAL_TOKENS, 2), -1, dtype=np.int32)
        spans[len(query) + 2 : -1] = inside
        return spans

    def max_context(self, window: int) -> NDArray[np.bool_]:
        """Which positions of a window hold context that no other window shows with more around it, shape (length,).

        An answer is decoded only from the window in which its first token has this: BERT's rule.
        """
        question = self.window_question[window]
        first, last = np.searchsorted(self.window_question, [question, question + 1])
        begin, end = self.window_bounds[window]
        mask = self.spans(window)[:, 0] >= 0
        mask[mask] = best_windows(self.window_bounds[first:last] - begin, int(end - begin)) == window - first
        return mask

    def answer_text(self, window: int, first: int, last: int) -> str:
        """What the context positions ``first`` to ``last`` of a window stand for, cut from the original context."""
        spans = self.spans(window)
        context = self.contexts[self.question_context[self.window_question[window]]]
        return context[spans[first, 0] : spans[last, 1]]

    def save(self, path: Path) -> None:
        arrays: dict[str, Any] = {name: value for name, value in vars(self).items() if isinstance(value, np.ndarray)}
        save_arrays(path, {name: value for name, value in vars(self).items() if name not in arrays}, **arrays)

    @classmethod
    def load(cls, path: Path) -> SquadFeatures:
        names = [field.name for field in fields(cls) if field.name not in _TEXTS]
        arrays = read_arrays(path, [*names, "metadata"], expected=_EXPECTED)
        members: dict[str, Any] = {**json.loads(arrays.pop("metadata").item()), **arrays}
        return cls(**members)

    def _parts(self, window: int) -> tuple[NDArray[np.int32], slice]:
        """The question's tokens in a window, and where its context is among all contexts."""
        question = self.window_question[window]
        query = self.question_tokens[self.question_offsets[question] : self.question_offsets[question + 1]]
        return query, slice(*self.context_offsets[self.question_context[question]] + self.window_bounds[window])


def best_windows(bounds: NDArray[np.int32], tokens: int) -> NDArray[np.int64]:
    """For every token the number of the window, of shape (W, 2), with the most context around it, shape (tokens,).

    BERT's rule: the largest min(tokens to its left, tokens to its right) + 0.01 x length of the window; of equal ones
    the first. The windows may begin before token 0 and end after the last.
    """
    begin, end = bounds[:, :1].astype(np.int64), bounds[:, 1:].astype(np.int64)
    position = np.arange(tokens, dtype=np.int64)[None]
    # In hundredths, so that ties are exact.
    score = 100 * np.minimum(position - begin, end - 1 - position) + (end - begin)
    score[(position < begin) | (position >= end)] = -1
    return score.argmax(axis=0)


# From logits to answers


def best_spans(
    starts: Tensor, ends: Tensor, begins: Tensor, context: Tensor, *, max_length: int = MAX_ANSWER_LENGTH
) -> tuple[Tensor, Tensor, Tensor]:
    """The span of each of B windows with the largest sum of the logits of start and end, shape (B, T).

    An answer may begin at ``begins``, end at ``context`` (bool, shape (B, T)), and has ``max_length`` tokens at most.
    Returned are first and last position and the sum, shape (B,), which is -inf where no answer may stand; of equal
    spans it is the first.
    """
    import torch

    width = min(max_length, starts.size(1))
    padded = torch.nn.functional.pad(ends.masked_fill(~context, -torch.inf), (0, width - 1), value=-torch.inf)
    scores = starts.masked_fill(~begins, -torch.inf)[..., None] + padded.unfold(1, width, 1)  # (B, T, width)
    flat = scores.flatten(1)
    index = flat.argmax(dim=1)
    first = index.div(width, rounding_mode="floor")
    return first, first + index % width, flat.gather(1, index[:, None])[:, 0]


def answer_questions(
    features: SquadFeatures, answers: NDArray[np.float64], *, unanswerable: bool, threshold: float = 0.5
) -> tuple[dict[str, str], dict[str, float]]:
    """The answers to the questions that have windows ("" for no answer), and the probabilities of no answer.

    Both by id in the order of the features. ``answers`` has a row for each window, in any order, shape (W, 5): the
    window's number, first and last position of its best span, that span's score, and the score of "no answer", which
    counts by the window where the least speaks for it: if the questions are ``unanswerable`` (SQuAD 2.0), the answer is
    "" above a threshold of its probability.
    """
    answers = answers[answers[:, 0].argsort()]
    window, first, last = answers[:, :3].T.astype(np.int64)
    score, no_answer = answers[:, 3:].T
    question = features.window_question[window]
    begins = np.flatnonzero(np.diff(question, prepend=-1))
    best = np.lexsort((window, -score, question))[begins]
    texts, probabilities = {}, {}
    for row, least in zip(best.tolist(), np.minimum.reduceat(no_answer, begins).tolist(), strict=True):
        name, there = features.ids[question[row]], math.isfinite(score[row])
        probability = probabilities[name] = _sigmoid(least - (float(score[row]) if there else 0.0))
        silent = not there or (unanswerable and probability > threshold)
        texts[name] = "" if silent else features.answer_text(int(window[row]), int(first[row]), int(last[row]))
    return texts, probabilities


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def score_answers(
    features: SquadFeatures, answers: Mapping[str, str], *, unanswerable: bool
) -> dict[str, QuestionScore]:
    """The scores of the questions that ``answers`` has, by id; SQuAD 1.1 has none for one without a true answer."""
    return {
        name: score_question(answers[name], truths, unanswerable=unanswerable)
        for name, truths in zip(features.ids, features.answers, strict=True)
        if name in answers and (truths or unanswerable)
    }
