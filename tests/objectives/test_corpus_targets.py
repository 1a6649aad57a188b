"""Soft targets from the counts of a corpus against plain loops over the text."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from truneg_fairseq.corpus_counts import CountsShare, count_tokens
from truneg_fairseq.objectives import CorpusTargets, MaskedPredictions

SIZE, PAD = 9, 8
SYMBOLS = [*"abcdefghi"]


def targets_of(text: list[int], discount: float = 0.6, most: int = 64) -> CorpusTargets:
    return CorpusTargets(count_tokens([np.array(text, dtype=np.int64)], SYMBOLS, discount=discount, most=most))


def most_frequent(counted: Counter, most: int) -> list[int]:
    return sorted(counted, key=lambda word: (-counted[word], word))[:most]


def without(counted: Counter, word: int) -> Counter:
    """One occurrence less of a word, where there is one."""
    left = Counter(counted)
    left[word] -= 1
    return Counter({each: count for each, count in left.items() if count > 0})


def discounted(counted: Counter, word: int, discount: float, otherwise: float) -> float:
    total = sum(counted.values())
    if not total:
        return otherwise
    return (max(counted[word] - discount, 0) + discount * len(counted) * otherwise) / total


def naive_distribution(text: list[int], left: int, gold: int, right: int, discount: float, most: int) -> dict:
    """q by its formulas; every count is of the text, one by one."""
    pairs = list(pairwise(text))
    after = {first: Counter(b for a, b in pairs if a == first) for first in range(SIZE)}
    before = Counter(a for a, b in pairs if b == right)
    triples = zip(text, text[1:], text[2:], strict=False)
    between = Counter(word for a, word, b in triples if (a, b) == (left, right))
    between = Counter({word: between[word] for word in most_frequent(between, most)})
    candidates = {*between, *most_frequent(after[left], most), *most_frequent(before, most)}
    frequency = {word: (text.count(word) - (word == gold)) / len(text) for word in candidates}
    backed_off = {}
    for word in candidates:
        follows = discounted(without(after[left], gold), word, discount, frequency[word])
        own = without(after[word], right) if word == gold else after[word]
        backed_off[word] = follows * discounted(own, right, discount, text.count(right) / len(text))
    total = sum(backed_off.values()) or 1
    remaining = without(between, gold)
    q = {word: discounted(remaining, word, discount, backed_off[word] / total) for word in candidates}
    total = sum(q.values()) or 1
    return {word: value / total for word, value in q.items() if value}


@given(
    text=st.lists(st.integers(0, PAD - 1), min_size=3, max_size=60),
    discount=st.floats(0.05, 1),
    most=st.sampled_from([1, 2, 3, 64]),
    data=st.data(),
)
@settings(max_examples=150, deadline=None)
def test_targets_are_those_of_a_loop(text, discount, most, data):
    corpus = targets_of(text, discount, most)
    places = data.draw(st.lists(st.integers(1, len(text) - 2), min_size=1, max_size=4))
    words = st.tuples(*[st.integers(0, SIZE - 1)] * 3)
    rows = [tuple(text[p - 1 : p + 2]) for p in places] + data.draw(st.lists(words, max_size=3))
    counted = torch.tensor(data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))))
    tokens, q = corpus.between(*torch.tensor(rows).unbind(1), counted)
    for row, (left, gold, right) in enumerate(rows):
        expected = {}
        if counted[row] and left in text and right in text:
            expected = naive_distribution(text, left, gold, right, discount, most)
        found = torch.zeros(SIZE).scatter_add_(0, tokens[row], q[row])
        wanted = torch.zeros(SIZE)
        for word, value in expected.items():
            wanted[word] = value
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def predictions(original: torch.Tensor, positions: list[int]) -> MaskedPredictions:
    where = torch.tensor(positions)
    gold = original.reshape(-1)[where]
    logits = torch.zeros(len(positions), SIZE)
    return MaskedPredictions(logits, original, where, gold, gold, gold.ne(PAD), None)


def test_neighbours_are_those_of_the_original_sentence():
    """At the ends of a sequence and beside padding there is no target."""
    original = torch.tensor([[0, 1, 2, 3], [4, 1, 5, PAD]])
    corpus = targets_of([0, 6, 2, 4, 7, 5, 3, 1])
    tokens, q = corpus.targets(predictions(original, [0, 1, 2, 3, 4, 5, 6, 7]), PAD)
    assert q.gt(0).any(1).tolist() == [False, True, True, False, False, True, False, False]
    best = tokens.gather(1, q.argmax(1, keepdim=True)).squeeze(1)
    assert best[[1, 5]].tolist() == [6, 7]


@given(
    text=st.lists(st.sampled_from([0, 1, 2, 8]), min_size=3, max_size=40),
    row=st.lists(st.sampled_from([0, 1, 2, 7, 8]), min_size=3, max_size=6),
    share=st.tuples(st.floats(0, 1), st.sampled_from([0.0, 0.5, 2.0]), st.floats(0, 1)),
)
@settings(deadline=None, max_examples=50)
def test_a_look_up_mixes_what_stands_between_the_neighbours_that_the_model_reads(text, row, share):
    """Nothing is left out of the counts, not even of the last token, 8; 7 never occurs, as a mask or padding. The share
    follows how often the place was counted, and with how many different words.
    """
    counts, tokens = targets_of(text), torch.tensor([row])
    positions = torch.arange(len(row))
    logits = torch.randn(len(row), SIZE, generator=torch.Generator().manual_seed(1))
    seen, doubt, unseen = share
    found = counts.mixed(logits, tokens, positions, 7, CountsShare(*share)).exp()
    for place, own in enumerate(logits.softmax(-1)):
        expected = own
        beside = [row[other] for other in (place - 1, place + 1) if 0 <= other < len(row)]
        if len(beside) == 2 and all(token in text for token in beside):
            q = naive_distribution(text, beside[0], -1, beside[1], 0.6, 64)
            if sum(q.values()):
                middles = [b for a, b, c in zip(text, text[1:], text[2:], strict=False) if [a, c] == beside]
                a = seen * len(middles) / (len(middles) + doubt * len({*middles})) if middles else unseen
                expected = (1 - a) * own + a * torch.tensor([q.get(token, 0.0) for token in range(SIZE)])
        assert torch.allclose(found[place], expected, atol=1e-5)
