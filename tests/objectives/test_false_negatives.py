"""Detectors against a loop over positions, with passes that are made by hand."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.losses import setting_of, vocabulary_of

from truneg_fairseq.objectives import Detector, MaskedPredictions, TrueNegativeOptions, fill
from truneg_fairseq.objectives.false_negatives import AcceptanceModel
from truneg_fairseq.objectives.token_lists import TokenLists
from truneg_fairseq.registry import ALTERNATIVES

WORDS, WIDTH, LAYERS, PAD = 12, 6, 3, 1
FEATURES = ("table", "embedding", "context")


def random_predictions(seed: int) -> MaskedPredictions:
    torch.manual_seed(seed)
    original = torch.randint(2, WORDS, (3, 5))
    original[1, 3:] = PAD
    positions = torch.tensor([0, 2, 6, 11, 14])
    gold = original.view(-1)[positions]
    prediction = torch.randint(2, WORDS, (5,))
    whole = torch.rand(5) < 0.8
    return MaskedPredictions(torch.randn(5, WORDS), original, positions, gold, prediction, gold.ne(PAD), whole)


def cosine(a, b) -> float:
    return float(a @ b / (a.norm() * b.norm()))


@given(
    features=st.sets(st.sampled_from(FEATURES), min_size=1),
    threshold=st.sampled_from([0.0, 0.3, 0.6]),
    seed=st.integers(0, 2**31),
)
@settings(max_examples=150, deadline=None)
def test_a_detector_equals_a_loop_over_positions(features, threshold, seed):
    judged = random_predictions(seed)
    sampled = torch.where(torch.rand(5) < 0.7, judged.prediction, torch.randint(2, WORDS, (5,)))
    words, layers = torch.randn(WORDS, WIDTH), torch.randn(LAYERS, WORDS, WIDTH)
    passes = SimpleNamespace(  # the states depend on the token alone
        embeddings=lambda: words,
        filled=lambda: (fill(judged, sampled), None),
        hidden_states=lambda: (layers[:, judged.gold], layers[:, sampled]),
    )
    table = {(g, s) for g in range(2, WORDS) for s in range(2, WORDS) if torch.rand(()) < 0.6}
    blocked = {(g, s) for g in range(2, WORDS) for s in range(2, WORDS) if torch.rand(()) < 0.2}
    eligible = torch.rand(WORDS) < 0.8
    coefficients = {name: float(torch.randn(())) for name in FEATURES if name in features}
    alone = features == {"table"}
    model = None if alone else AcceptanceModel(coefficients, 0.3)
    setting = setting_of(TrueNegativeOptions(), table, blocked, vocabulary_of(WORDS))
    sources = {name: ALTERNATIVES.look_up(name, "")(setting) for name in sorted(features)}
    never = TokenLists(setting.exclusions.pair_keys, WORDS)
    detector = Detector(sources, threshold, WORDS, model, eligible=eligible, blocked=never)
    found = detector.find(judged, judged.prediction, passes)

    for row in range(5):
        g, r = int(judged.gold[row]), int(judged.prediction[row])
        accepted = bool(judged.whole_word[row]) and g != r
        if "table" in features:
            accepted &= (g, r) in table
        probability = 0.0
        if not alone:
            accepted &= bool(eligible[g]) and bool(eligible[r]) and (g, r) not in blocked
            scores = {
                "table": float(accepted),
                "embedding": cosine(words[g], words[r]),
                "context": sum(cosine(layer[g], layer[int(sampled[row])]) for layer in layers) / LAYERS,
            }
            if "context" in features:
                accepted &= int(sampled[row]) == r
            total = 0.3 + sum(value * scores[name] for name, value in coefficients.items())
            probability = 1 / (1 + math.exp(-total))
            accepted &= probability >= threshold
        assert bool(found.is_false_negative[row]) == accepted
        if not alone:
            assert float(found.acceptance[row]) == pytest.approx(probability if accepted else 0.0, abs=1e-5)
    assert (found.acceptance is None) == alone


@pytest.mark.parametrize("chance", [0.0, 0.49, 0.5, 0.6, 1.0])
def test_a_source_with_grades_accepts_from_the_threshold_on(chance):
    class Graded(torch.nn.Module):
        is_certain = False

        def accepts(self, batch, tokens, model):
            return torch.full(tokens.shape, chance)

    judged = random_predictions(1)
    mistakes = judged.whole_word & judged.gold.ne(judged.prediction)
    assert mistakes.any()
    found = Detector({"graded": Graded()}, 0.5, WORDS).find(judged, judged.prediction, SimpleNamespace())
    assert torch.equal(found.is_false_negative, mistakes & (chance >= 0.5))
    assert torch.equal(found.acceptance, torch.where(found.is_false_negative, chance, 0.0))
