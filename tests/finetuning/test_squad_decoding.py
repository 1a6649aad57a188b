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
from truneg_fairseq.finetuning.squad_features import (
    Spans,
    SquadFeatures,
    WindowPredictions,
    answer_questions,
    best_spans,
    score_answers,
)
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


def spans_of(found: Spans, row: int) -> list[tuple[float, int, int]]:
    """Score, first and last position of the spans that there are."""
    spans = zip(*(found[field][row].tolist() for field in (2, 0, 1)), strict=True)
    return [span for span in spans if math.isfinite(span[0])]


@settings(max_examples=40, deadline=None)
@given(seed=SEEDS, rows=SMALL, size=st.integers(1, 12), longest=st.integers(1, 14), n=st.integers(1, 30))
def test_best_spans_are_the_best_of_all(seed, rows, size, longest, n):
    starts, ends, begins, context = random_case(seed, rows, size)
    found = best_spans(starts, ends, begins, context, max_length=longest, n=n)
    for row in range(rows):
        expected = sorted(
            (
                (float(starts[row, first] + ends[row, last]), first, last)
                for first in range(size)
                for last in range(first, min(first + longest, size))
                if begins[row, first] and context[row, last]
            ),
            reverse=True,
        )[:n]
        assert spans_of(found, row) == expected


def test_of_equal_spans_the_first_is_kept():
    zeros, everywhere = torch.zeros(1, 40), torch.ones(1, 40, dtype=torch.bool)
    many = best_spans(zeros, zeros, everywhere, everywhere, n=20)
    one = best_spans(zeros, zeros, everywhere, everywhere, n=1)
    assert [field[0].tolist() for field in one] == [[0], [0], [0.0]]
    assert many.first[0].tolist() == [0] * 20
    assert many.last[0].tolist() == list(range(20))


def predictions(data: SquadFeatures, seed: int, n: int = 3) -> WindowPredictions:
    """Random spans of every window, with random scores, best first."""
    generator = np.random.default_rng(seed)
    first, last = np.zeros((2, len(data), n), dtype=np.int32)
    for window in range(len(data)):
        begin, end = data.context_begin(window), int(data.lengths[window]) - 1
        ends = np.sort(generator.integers(begin, end, (n, 2)), axis=1)
        first[window], last[window] = ends.T
    score = -np.sort(-generator.normal(size=(len(data), n)).astype(np.float32), axis=1)
    unlikely = generator.normal(size=len(data)).astype(np.float32)
    window = np.arange(len(data))
    return WindowPredictions(window=window, first=first, last=last, score=score, no_answer=unlikely)


def part(whole: WindowPredictions, rows: list[int]) -> WindowPredictions:
    fields = {name: value[rows] for name, value in vars(whole).items() if isinstance(value, np.ndarray)}
    return WindowPredictions(**{**vars(whole), **fields})


@settings(max_examples=25, deadline=None)
@given(seed=SEEDS, n_best=st.integers(1, 12))
def test_a_questions_answer_is_the_best_of_its_windows(seed, n_best):
    data = features()
    whole = predictions(data, seed)
    found = answer_questions(data, [whole], unanswerable=False, n_best=n_best)
    assert list(found) == data.ids
    for question, name in enumerate(data.ids):
        rows = list(data.windows_of(question))
        spans = sorted(
            (
                (float(whole.score[row, place]), data.answer_text(row, whole.first[row, place], whole.last[row, place]))
                for row in rows
                for place in range(whole.score.shape[1])
            ),
            reverse=True,
        )
        texts = list(dict.fromkeys(text for _, text in spans))[:n_best]
        candidates = found[name].candidates
        assert found[name].text == texts[0]
        assert [candidate.text for candidate in candidates] == texts
        assert all(CONTEXTS[data.question_context[question]][c.start :].startswith(c.text) for c in candidates)
        best = [max(score for score, text in spans if text == candidate.text) for candidate in candidates]
        assert [candidate.score for candidate in candidates] == best
        total = sum(math.exp(score) for score in best)
        assert [c.probability for c in candidates] == pytest.approx([math.exp(score) / total for score in best])
        against = float(min(whole.no_answer[rows])) - best[0]
        assert found[name].no_answer_probability == pytest.approx(1 / (1 + math.exp(-against)))


@settings(max_examples=20, deadline=None)
@given(seed=SEEDS, data=st.data())
def test_the_order_of_batches_and_workers_does_not_matter(seed, data):
    known = features()
    whole = predictions(known, seed)
    rows = data.draw(st.permutations(range(len(known))))
    cut = data.draw(st.integers(0, len(known)))
    parts = [part(whole, list(rows[:cut])), part(whole, list(rows[cut:]))]
    expected = answer_questions(known, [whole], unanswerable=True)
    assert answer_questions(known, parts, unanswerable=True) == expected


def test_equal_scores_go_to_the_first_window():
    data = features()
    whole = predictions(data, 3)
    whole = WindowPredictions(**{**vars(whole), "score": np.zeros_like(whole.score)})
    backwards = part(whole, list(range(len(data)))[::-1])
    found = answer_questions(data, [backwards], unanswerable=False)
    for question, name in enumerate(data.ids):
        row = data.windows_of(question)[0]
        assert found[name].text == data.answer_text(row, whole.first[row, 0], whole.last[row, 0])


def test_nothing_is_answered_above_the_threshold():
    data = features(impossible=True)
    whole = predictions(data, 5)
    likely = answer_questions(data, [whole], unanswerable=True, threshold=0.5)
    chosen = {name: prediction.no_answer_probability for name, prediction in likely.items()}
    assert {name for name, prediction in likely.items() if prediction.text} == {
        name for name, probability in chosen.items() if probability <= 0.5
    }
    at = answer_questions(data, [whole], unanswerable=True, threshold=chosen["a"])
    assert at["a"].text
    below = answer_questions(data, [whole], unanswerable=True, threshold=chosen["a"] - 1e-9)
    assert below["a"].text == ""
    assert below["a"].candidates == at["a"].candidates
    assert all(prediction.text for prediction in answer_questions(data, [whole], unanswerable=False).values())


def test_a_question_without_any_span_is_answered_with_nothing():
    data = features()
    whole = predictions(data, 1)
    score = np.where(data.window_question[:, None] == 1, -np.inf, whole.score)
    found = answer_questions(data, [WindowPredictions(**{**vars(whole), "score": score})], unanswerable=False)
    assert found["b"].text == ""
    assert found["b"].candidates == ()
    assert found["a"].text


def test_the_last_context_may_have_fewer_spans_than_are_kept():
    """Their places are filled with positions of the padding, behind the last token of all contexts."""
    data = features()
    row = len(data) - 1
    context = torch.nn.functional.pad(torch.from_numpy(data.context_mask(row))[None], (0, 30))
    scores = torch.zeros(context.shape)
    spans = best_spans(scores, scores, context, context, n=20)
    assert spans.score.isinf().any()
    whole = WindowPredictions.of(torch.tensor([row]), spans, torch.zeros(1))
    (found,) = answer_questions(data, [whole], unanswerable=False).values()
    assert found.candidates
    assert all(candidate.text in CONTEXTS[1] for candidate in found.candidates)


def test_scores_are_the_official_ones():
    """1.1 against 2.0: an empty answer is right only for a question without one."""
    answers = {"c": "rain", "a": "the cat"}
    scores = score_answers(features(), answers, unanswerable=False)
    assert scores == {"a": QuestionScore(1, 1.0), "c": QuestionScore(1, 1.0)}
    assert list(scores) == ["a", "c"]
    impossible = features(impossible=True)
    scores = score_answers(impossible, {"a": "cat red", "b": "", "c": ""}, unanswerable=True)
    assert scores == {"a": QuestionScore(0, 2 / 3), "b": QuestionScore(0, 0.0), "c": QuestionScore(1, 1.0)}
    assert exact_match_and_f1(scores, unanswerable=True) == {"exact_match": 100 / 3, "f1": 100 * (2 / 3 + 1) / 3}
