"""GLUE's metrics of whole sets: on one worker and on several, and with BERT's way to shorten pairs."""

from __future__ import annotations

import fairseq  # noqa: F401  (the package registers itself where fairseq is)
import numpy as np
import pytest
import torch
from fairseq.logging import metrics
from hypothesis import given, settings
from hypothesis import strategies as st

import truneg_fairseq
from truneg_fairseq.finetuning.glue import classification_metrics, regression_metrics

truneg_fairseq.register()

from truneg_fairseq.finetuning.glue_fairseq import SentencePredictionMetrics, SentencesDataset, shared_lengths  # noqa: E402


class Sentences(list):
    @property
    def sizes(self):
        return np.array([len(sentence) for sentence in self])


def test_constants_and_what_is_no_number():
    constant, labels = np.zeros(4), np.array([0, 1, 1, 0])
    assert classification_metrics(constant, labels, 2) == {"accuracy": 0.5, "matthews": 0.0, "f1": 0.0}
    assert regression_metrics(constant, labels) == regression_metrics(labels, constant) == {"pearson": 0, "spearman": 0}
    assert np.isnan(regression_metrics(np.array([0, np.nan, 1, 2]), labels)["spearman"])


def outputs(predictions, targets, classes):
    """A batch's log as the criterion makes it in validation."""
    size = len(predictions)
    log = {"loss": torch.tensor(1.0), "ntokens": 4 * size, "nsentences": size, "sample_size": size}
    if classes:
        log["ncorrect"] = (predictions == targets).sum()
    return {**log, "predictions": predictions, "targets": targets, "classes": classes}


def validate(predictions, targets, classes, workers, batch):
    """The values that fairseq shows and selects by: a reduction a step, of all workers' batches."""
    with metrics.aggregate(new_root=True) as shown:
        for begin in range(0, len(predictions), workers * batch):
            ends = range(begin, min(begin + workers * batch, len(predictions)), batch)
            logs = [outputs(predictions[at : at + batch], targets[at : at + batch], classes) for at in ends]
            SentencePredictionMetrics.reduce_metrics(logs)
    return shown.get_smoothed_values()


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("classes", [0, 2, 3])
def test_metrics_are_the_whole_sets(classes, workers):
    rng = np.random.default_rng(1)
    drawn = rng.integers(0, classes, (2, 103)) if classes else rng.normal(size=(2, 103)).astype(np.float32)
    predictions, targets = torch.tensor(drawn)
    shown = validate(predictions, targets, classes, workers, batch=8)
    expected = (
        classification_metrics(predictions.numpy(), targets.numpy(), classes)
        if classes
        else regression_metrics(predictions.numpy(), targets.numpy())
    )
    assert {name: shown[name] for name in expected} == pytest.approx(
        {name: 100 * value for name, value in expected.items()}, abs=1e-4
    )
    assert ("f1" in shown) == (classes == 2)
    assert not [name for name in shown if name.startswith("_")]


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
