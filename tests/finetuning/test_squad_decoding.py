"""From logits to answers, against loops over all spans and all windows."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from truneg_fairseq.finetuning.squad import window_bounds
from truneg_fairseq.finetuning.squad_features import SquadFeatures, answer_questions, best_spans, score_answers
from truneg_fairseq.finetuning.squad_score import QuestionScore, exact_match_and_f1

CONTEXTS = ["The black cat sat on the red mat.", "Rain, rain go away"]
ANSWERS = [["black cat", "cat"], ["red mat"], ["rain"]]
SEEDS, SMALL = st.integers(0, 10**6), st.integers(1, 9)


def features(room: int = 4, stride: int = 3, *, impossible: bool = False) -> SquadFeatures:
    """Three questions, two on the first context; a token is a word, a question two tokens."""
    spans = [[(word.start(), word.end()) for word in re.finditer(r"\w+|[.,]", text)] for text in CONTEXTS]
    lengths = [len(words) for words in spans]
    owner = [0, 0, 1]
    bounds = [window_bounds(lengths[context], room, stride) for context in owner]
    count = sum(map(len, bounds))
    return SquadFeatures(
        context_tokens=np.arange(sum(lengths), dtype=np.int32) + 10,
        context_offsets=np.cumsum([0, *lengths]),
        context_spans=np.concatenate(spans).astype(np.int32),
        question_tokens=np.full(6, 5, dtype=np.int32),
        question_offsets=np.array([0, 2, 4, 6]),
        question_context=np.array(owner, dtype=np.int32),
        impossible=np.array([False, False, impossible]),
        window_question=np.repeat(np.arange(3, dtype=np.int32), [len(rows) for rows in bounds]),
        window_bounds=np.concatenate(bounds),
        window_answer=np.zeros((count, 2), dtype=np.int32),
        ids=["a", "b", "c"],
        questions=["what?", "where?", "which?"],
        contexts=CONTEXTS,
        answers=[*ANSWERS[:2], [] if impossible else ANSWERS[2]],
    )


def random_case(seed: int, rows: int, size: int) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    starts, ends = torch.randn(2, rows, size, generator=generator)
    context = torch.rand(rows, size, generator=generator) < 0.7
    begins = context & (torch.rand(rows, size, generator=generator) < 0.7)
    return starts, ends, begins, context


@settings(max_examples=40, deadline=None)
@given(seed=SEEDS, rows=SMALL, size=st.integers(1, 12), longest=st.integers(1, 14))
def test_the_best_span_is_the_best_of_all(seed, rows, size, longest):
    starts, ends, begins, context = random_case(seed, rows, size)
    if seed % 2:  # of equal spans it is the first
        starts, ends = torch.zeros_like(starts), torch.zeros_like(ends)
    found = best_spans(starts, ends, begins, context, max_length=longest)
    for row in range(rows):
        spans = [
            (float(starts[row, first] + ends[row, last]), first, last)
            for first in range(size)
            for last in range(first, min(first + longest, size))
            if begins[row, first] and context[row, last]
        ]
        first, last, score = (field[row].item() for field in found)
        best = max(spans, key=lambda span: span[0], default=None)
        assert (score, first, last) == best if spans else score == -math.inf


def answers_of(data: SquadFeatures, seed: int) -> np.ndarray:
    """A random span of every window, with random scores."""
    generator = np.random.default_rng(seed)
    answers = np.zeros((len(data), 5))
    for window in range(len(data)):
        span = np.sort(generator.choice(np.flatnonzero(data.context_mask(window)), 2))
        answers[window] = [window, *span, *generator.normal(size=2).astype(np.float32)]
    return answers


@settings(max_examples=25, deadline=None)
@given(seed=SEEDS)
def test_a_questions_answer_is_the_best_of_its_windows(seed):
    data = features()
    answers = answers_of(data, seed)
    if seed % 2:  # of equal scores it is that of the first window
        answers[:, 3] = 0
    found = answer_questions(data, answers[::-1], unanswerable=False)
    assert list(found) == data.ids
    for question, name in enumerate(data.ids):
        rows = list(data.windows_of(question))
        best = max(rows, key=lambda row: answers[row, 3])
        assert found[name].text == data.answer_text(best, int(answers[best, 1]), int(answers[best, 2]))
        against = min(answers[rows, 4]) - answers[best, 3]
        assert found[name].no_answer_probability == pytest.approx(1 / (1 + math.exp(-against)))


@settings(max_examples=20, deadline=None)
@given(seed=SEEDS, data=st.data())
def test_the_order_of_batches_and_workers_does_not_matter(seed, data):
    known = features()
    answers = answers_of(known, seed)
    rows = data.draw(st.permutations(range(len(known))))
    expected = answer_questions(known, answers, unanswerable=True)
    assert answer_questions(known, answers[list(rows)], unanswerable=True) == expected


def test_nothing_is_answered_above_the_threshold():
    data = features(impossible=True)
    answers = answers_of(data, 5)
    likely = answer_questions(data, answers, unanswerable=True, threshold=0.5)
    chosen = {name: prediction.no_answer_probability for name, prediction in likely.items()}
    assert {name for name, prediction in likely.items() if prediction.text} == {
        name for name, probability in chosen.items() if probability <= 0.5
    }
    assert answer_questions(data, answers, unanswerable=True, threshold=chosen["a"])["a"].text
    below = answer_questions(data, answers, unanswerable=True, threshold=chosen["a"] - 1e-9)
    assert below["a"].text == ""
    assert all(prediction.text for prediction in answer_questions(data, answers, unanswerable=False).values())


def test_a_question_without_any_span_is_answered_with_nothing():
    """Its place may be a position of the padding, behind the last token of all contexts."""
    data = features()
    answers = answers_of(data, 1)
    answers[data.window_question == 1, 1:4] = [90, 90, -np.inf]
    found = answer_questions(data, answers, unanswerable=False)
    assert found["b"].text == ""
    assert found["a"].text
    assert answer_questions(data, answers[:0], unanswerable=False) == {}


def test_scores_are_the_official_ones():
    """1.1 against 2.0: an empty answer is right only for a question without one."""
    answers = {"c": "rain", "a": "the cat"}
    scores = score_answers(features(), answers, unanswerable=False)
    assert scores == {"a": QuestionScore(1, 1.0), "c": QuestionScore(1, 1.0)}
    assert list(scores) == ["a", "c"]
    impossible = features(impossible=True)
    assert list(score_answers(impossible, answers, unanswerable=False)) == ["a"], "c has no true answer"
    scores = score_answers(impossible, {"a": "cat red", "b": "", "c": ""}, unanswerable=True)
    assert scores == {"a": QuestionScore(0, 2 / 3), "b": QuestionScore(0, 0.0), "c": QuestionScore(1, 1.0)}
    assert exact_match_and_f1(scores, unanswerable=True) == {"exact_match": 100 / 3, "f1": 100 * (2 / 3 + 1) / 3}
