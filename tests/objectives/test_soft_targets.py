"""Soft targets and position weights against autograd through the formula."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from support.losses import setting_of, vocabulary_of

from truneg_fairseq.objectives import EncoderPasses, MaskedPredictions, TokenLists, TrueNegativeOptions, soft_targets
from truneg_fairseq.objectives.options import FLAT
from truneg_fairseq.objectives.soft_targets import Target, soft_cross_entropy
from truneg_fairseq.registry import ALTERNATIVES

PAD = 1
WORDS = 13
KINDS = ("uniform", "table:flat", "table", "embedding", "embedding:flat", "teacher")


def cross_entropy(logits, gold, counted, soft, temperature=1.0, kept=1.0):
    log_probabilities = F.log_softmax(logits.detach() / temperature, dim=-1, dtype=torch.float32)
    return (
        kept * soft_cross_entropy(logits, log_probabilities, Target.of(gold, soft), counted, temperature=temperature)
    ).sum()


def random_table(seed: int) -> set[tuple[int, int]]:
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.rand(WORDS, WORDS, generator=generator).lt(0.3).nonzero().tolist()
    return {(g, s) for g, s in chosen if g != s and g > 4}  # tokens up to 4 have no synonyms


def naive_targets(kind, row, gold, whole, table, embeddings, taught, share):
    """What one soft target adds to the target of one position, fp64, shape (V,)."""
    target, q, words = (*torch.zeros(2, WORDS, dtype=torch.double), embeddings.detach().double())
    cosines = [float(words[word] @ words[gold] / (words[word].norm() * words[gold].norm())) for word in range(WORDS)]
    if kind == "uniform":
        q += 1
    elif kind.startswith("table") and whole:
        for other in (other for one, other in table if one == gold):
            q[other] = 1 if kind.endswith(FLAT) else math.exp(cosines[other] / 0.1) * (cosines[other] >= 0.3)
    elif kind.startswith("embedding"):
        for word in sorted({*range(WORDS)} - {gold}, key=cosines.__getitem__)[-10:]:
            q[word] = 1 if kind.endswith(FLAT) else math.exp(cosines[word] / 0.1)
    elif kind == "teacher":
        q += taught[row].exp()
    q /= q.sum().clamp(min=1e-30)
    a = share if q.sum() > 0 else 0.0
    target[gold] = -a
    return target + a * q


def batch_of(logits, gold, counted, whole, embeddings):
    positions = torch.arange(len(gold), device=gold.device)
    batch = MaskedPredictions(logits, gold[None], positions, gold, gold, counted, whole)
    return batch, EncoderPasses(batch, TrueNegativeOptions(), embeddings=lambda: embeddings, encode=lambda *_: ())


def targets_of(kinds, share, table, taught, batch, model):
    """Of the sources, flat or not, each with the same share."""
    setting = setting_of(TrueNegativeOptions(), table, vocabulary=vocabulary_of(WORDS))
    vars(setting)["teacher"] = lambda _: taught
    made = [(ALTERNATIVES.look_up(kind.removesuffix(FLAT), "")(setting), kind.endswith(FLAT)) for kind in kinds]
    return [source.to(batch.gold.device).target(batch, model, share, flat=flat) for source, flat in made]


@given(
    kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=3),
    share=st.floats(0, 1),
    temperature=st.sampled_from([1.0, 1.0, 2.5]),
    partly=st.booleans(),
    count=st.integers(0, 6),
    block=st.sampled_from([1, 1 << 22]),
    seed=st.integers(0, 2**31),
)
@settings(max_examples=120, deadline=None)
def test_loss_and_gradient_equal_autograd_through_the_formula(kinds, share, temperature, partly, count, block, seed):
    torch.manual_seed(seed)
    table = random_table(seed)
    gold = torch.randint(2, WORDS, (count,))
    counted = torch.rand(count) < 0.8
    whole = counted & (torch.rand(count) < 0.8)
    gold_or_pad = torch.where(counted, gold, PAD)
    kept = torch.rand(count) if partly else torch.ones(count)
    embeddings = torch.randn(WORDS, 5).requires_grad_()
    taught = torch.randn(count, WORDS).requires_grad_()
    logits = torch.randn(count, WORDS).requires_grad_()
    share /= max(1, len(kinds))
    batch, model = batch_of(logits, gold_or_pad, counted, whole, embeddings)
    with pytest.MonkeyPatch.context() as patch:  # cosines are taken in blocks
        patch.setattr(soft_targets, "_BLOCK_ENTRIES", block)
        soft = targets_of(kinds, share, table, taught, batch, model)
    result = cross_entropy(logits, gold_or_pad, counted, soft, temperature, kept)
    result.backward()

    reference = logits.detach().double().requires_grad_()
    expected = reference.sum() * 0
    for row in range(count):
        if not counted[row]:
            continue
        word = int(gold[row])
        with torch.no_grad():
            facts = (row, word, bool(whole[row]), table, embeddings, taught, share)
            target = sum((naive_targets(kind, *facts) for kind in kinds), torch.zeros(WORDS, dtype=torch.double))
            target[word] += 1
        expected = expected - kept[row] * (target * (reference[row] / temperature).log_softmax(0)).sum()
    expected.backward()
    assert float(result.detach()) == pytest.approx(float(expected.detach()), rel=1e-4, abs=1e-4)
    torch.testing.assert_close(logits.grad.double(), reference.grad, rtol=1e-4, atol=1e-5)
    assert embeddings.grad is None
    assert taught.grad is None, "q carries no gradient"


@given(table=st.sets(st.tuples(st.integers(0, WORDS - 1), st.integers(0, WORDS - 1)), max_size=30))
@settings(max_examples=60, deadline=None)
def test_token_lists_are_the_table(table):
    """Also of rows and tokens that the vocabulary does not have."""
    keys = np.array([gold * WORDS + synonym for gold, synonym in sorted(table)], dtype=np.int64)
    lists, words = TokenLists(keys, WORDS), range(WORDS + 2)
    pairs = torch.cartesian_prod(torch.tensor(words), torch.tensor(words))
    assert set(map(tuple, pairs[lists.contains(*pairs.unbind(1))].tolist())) == table
    for gold, row in enumerate(lists.tokens(torch.tensor(words)).tolist()):
        assert [token for token in row if token >= 0] == [word for word in words if (gold, word) in table]
