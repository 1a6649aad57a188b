"""GLUE's metrics, and BERT's way to shorten pairs."""

from __future__ import annotations

import fairseq  # noqa: F401  (the package registers itself where fairseq is)
import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import truneg_fairseq
from truneg_fairseq.finetuning.glue import classification_metrics, regression_metrics

truneg_fairseq.register()

from truneg_fairseq.finetuning.fairseq_tasks import SentencesDataset, shared_lengths  # noqa: E402


class Sentences(list):
    @property
    def sizes(self):
        return np.array([len(sentence) for sentence in self])


def test_constants_and_what_is_no_number():
    constant, labels = np.zeros(4), np.array([0, 1, 1, 0])
    assert classification_metrics(constant, labels, 2) == {"accuracy": 0.5, "matthews": 0.0, "f1": 0.0}
    assert regression_metrics(constant, labels) == regression_metrics(labels, constant) == {"pearson": 0, "spearman": 0}
    assert np.isnan(regression_metrics(np.array([0, np.nan, 1, 2]), labels)["spearman"])


def shortened(first: int, second: int, budget: int) -> tuple[int, int]:
    """BERT's loop: the longer one loses its last token, the second where both are as long."""
    while first + second > budget:
        first, second = (first - 1, second) if first > second else (first, second - 1)
    return first, second


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 40), st.integers(0, 40), st.integers(2, 50))
def test_pairs_are_shortened_as_in_bert(first, second, budget):
    kept = shared_lengths(np.array([first]), np.array([second]), budget)
    assert tuple(int(part[0]) for part in kept) == shortened(first, second, budget)


def test_items_keep_their_separators():
    one = Sentences([torch.tensor([4, 5, 6, 7, 8, 2]), torch.tensor([4, 2])])
    other = Sentences([torch.tensor([9, 10, 11, 2]), torch.tensor([9, 10, 2])])
    pairs = SentencesDataset([one, other], begin=0, separator=None, max_length=8)
    assert [item.tolist() for item in pairs] == [[0, 4, 5, 6, 2, 9, 10, 2], [0, 4, 2, 9, 10, 2]]
    assert pairs.sizes.tolist() == [8, 6]
    doubled = SentencesDataset([one, other], begin=0, separator=2, max_length=9)
    assert doubled[0].tolist() == [0, 4, 5, 6, 2, 2, 9, 10, 2]
    single = SentencesDataset([one], begin=0, separator=2, max_length=5)
    assert [item.tolist() for item in single] == [[0, 4, 5, 6, 2], [0, 4, 2]]
