"""Mutual nearest neighbours against a slow and obvious reference."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.slow_neighbours import pairs_of, slow_neighbours, slow_pairs

from truneg_fairseq.objectives import corrected_predictions
from truneg_fairseq.objectives import neighbours as module
from truneg_fairseq.objectives.neighbours import mutual_keys, nearest_words


def shards_of(embeddings, words: torch.Tensor, size: int, count: int, threshold: float) -> torch.Tensor:
    is_word = torch.zeros(len(embeddings), dtype=torch.bool)
    is_word[words] = True
    return torch.cat([nearest_words(embeddings, is_word, shard, count, threshold) for shard in words.split(size)])


@st.composite
def problems(draw):
    """Embeddings of small whole numbers: many ties, many zero vectors, exact sums whatever their order."""
    size = draw(st.integers(2, 14))
    width = draw(st.integers(1, 4))
    numbers = draw(st.lists(st.integers(-3, 3), min_size=size * width, max_size=size * width))
    is_word = draw(st.lists(st.booleans(), min_size=size, max_size=size))
    words = [index for index, chosen in enumerate(is_word) if chosen] or [0]
    dtype = draw(st.sampled_from([torch.float32, torch.float16, torch.bfloat16]))
    embeddings = torch.tensor(numbers, dtype=dtype).view(size, width)
    return embeddings, words, draw(st.integers(1, size)), draw(st.sampled_from([0.05, 0.5, 0.7, 0.95]))


@settings(max_examples=300, deadline=None)
@given(problems(), st.integers(1, 15))
def test_neighbours_and_mutual_pairs_equal_the_reference_for_any_shard_size(problem, shard_size):
    embeddings, words, count, threshold = problem
    token_ids = torch.tensor(words)
    found = shards_of(embeddings, token_ids, shard_size, count, threshold)
    expected = slow_neighbours(embeddings, words, count, threshold)
    assert found.shape == (len(words), count)
    assert found.dtype == torch.int32
    assert {w: [t for t in row if t >= 0] for w, row in zip(words, found.tolist(), strict=True)} == expected
    assert all(sorted(row, key=lambda t: t < 0) == row for row in found.tolist()), "empty places are last"

    keys = mutual_keys(token_ids, found)
    assert keys.shape == (len(words) * count + 1,)
    assert torch.equal(keys, keys.sort().values)
    assert pairs_of(keys) == slow_pairs(embeddings, words, count, threshold)


def test_random_vectors_in_shards_are_those_at_once():
    embeddings = torch.randn(500, 16, generator=torch.Generator().manual_seed(1))
    words = torch.arange(3, 500, 2)
    whole = shards_of(embeddings, words, len(words), 10, 0.3)
    assert (whole >= 0).any(1).float().mean() > 0.9
    for size in (1, 7, 100):
        assert torch.equal(shards_of(embeddings, words, size, 10, 0.3), whole)
    assert pairs_of(mutual_keys(words, whole)) == slow_pairs(embeddings, words.tolist(), 10, 0.3)


def test_many_rows_are_computed_in_blocks(monkeypatch):
    embeddings = torch.randint(-3, 4, (60, 4), generator=torch.Generator().manual_seed(1)).float()
    words = torch.arange(60)
    whole = shards_of(embeddings, words, 60, 5, 0.5)
    monkeypatch.setattr(module, "_BLOCK_SCORES", 60 * 7)
    assert torch.equal(shards_of(embeddings, words, 60, 5, 0.5), whole)


def test_a_pair_must_be_mutual_and_near():
    """Two close words, and a third one whose nearest is the second: that one prefers the first."""
    angles = torch.tensor([0.0, 10.0, 30.0, 180.0]) * math.pi / 180
    embeddings = torch.stack([angles.cos(), angles.sin()], 1)
    words = torch.arange(4)
    found = shards_of(embeddings, words, 4, 1, 0.9)
    assert found.tolist() == [[1], [0], [1], [-1]]
    keys = mutual_keys(words, found)
    assert pairs_of(keys) == {(0, 1), (1, 0)}
    assert pairs_of(mutual_keys(words, shards_of(embeddings, words, 4, 1, 0.99))) == set()
    gold, prediction = torch.tensor([[0, 1, 2, 1, 3, 0], [1, 0, 1, 2, 0, 0]])
    corrected = corrected_predictions(gold, prediction, torch.ones(6, dtype=torch.bool), keys)
    assert corrected.tolist() == [True, True, False, False, False, False]


@pytest.mark.parametrize("broken", [float("nan"), float("inf"), 0.0])
def test_broken_vectors_have_no_neighbours_and_are_none(broken):
    embeddings = torch.tensor([[1.0, 0.0], [1.0, 0.1], [broken, broken]])
    assert shards_of(embeddings, torch.arange(3), 3, 2, 0.1).tolist() == [[1, -1], [0, -1], [-1, -1]]
