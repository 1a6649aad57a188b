"""The mathematics against slow, obvious formulas."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.losses import setting_of, vocabulary_of

from truneg_fairseq.objectives import Objective, TrueNegativeOptions
from truneg_fairseq.objectives.loss import least_likely
from truneg_fairseq.objectives.passes import most_likely
from truneg_fairseq.objectives.terms import expected_distances, sentence_divergence, word_distances

PAD = 1
VOCABULARY = 9


tokens = st.integers(2, VOCABULARY - 1)
pairs = st.sets(st.tuples(tokens, tokens), max_size=30)


BATCH = (torch.tensor([[4, 4]]), torch.tensor([[True, True]]))


@st.composite
def batches(draw):
    """Rows of tokens with padding at the right, and which of them are masked."""
    width = draw(st.integers(1, 7))
    rows, masks = [], []
    for _ in range(draw(st.integers(1, 4))):
        length = draw(st.integers(1, width))
        rows.append([draw(tokens) for _ in range(length)] + [PAD] * (width - length))
        masks.append([draw(st.booleans()) for _ in range(length)] + [False] * (width - length))
    return torch.tensor(rows), torch.tensor(masks)


@given(
    batch=batches(),
    table=pairs,
    continuing=st.sets(tokens, max_size=4),
    agreeable=st.sampled_from(["random", "synonyms", "gold"]),
    weight=st.sampled_from([1.0, 1.0, 0.5, 0.0]),
    temperature=st.sampled_from([1.0, 1.0, 2.5]),
    seed=st.integers(0, 2**31),
)
@example(  # a table that lists the gold word, which is predicted; and one without pairs
    batch=BATCH, table={(4, 4)}, continuing=set(), agreeable="gold", weight=1.0, temperature=1.0, seed=1
)
@example(batch=BATCH, table=set(), continuing=set(), agreeable="random", weight=1.0, temperature=1.0, seed=1)
@settings(max_examples=150, deadline=None)
def test_hard_correction_equals_a_loop_over_tokens(batch, table, continuing, agreeable, weight, temperature, seed):
    original, masked = batch
    torch.manual_seed(seed)
    positions = masked.nonzero().tolist()
    logits = torch.randn(len(positions), VOCABULARY, dtype=torch.double)
    for index, (row, column) in enumerate(positions):  # make the interesting predictions frequent
        gold = int(original[row, column])
        wanted = {"random": None, "gold": gold, "synonyms": next((s for g, s in sorted(table) if g == gold), None)}
        if wanted[agreeable] is not None:
            logits[index, wanted[agreeable]] += 20
    logits.requires_grad_(True)
    options = TrueNegativeOptions(hc_weight=weight, softmax_temperature=temperature, synonym_table="unread")
    vocabulary = vocabulary_of(VOCABULARY, tuple(continuing))
    objective = Objective(options, setting_of(options, table, vocabulary=vocabulary, padding=PAD))
    labels, places = original.masked_fill(~masked, PAD), masked.view(-1).nonzero().squeeze(1)
    judged, result = objective.step(objective.predict(logits, labels, original.masked_fill(masked, 0), places), None)
    corrected = judged.is_false_negative
    result.loss.backward()

    reference = logits.detach().clone().requires_grad_(True)
    expected_loss = torch.zeros((), dtype=torch.double)
    expected_plain = 0.0
    expected_corrected = []
    for index, (row, column) in enumerate(positions):
        w = int(original[row, column])
        r = max(range(VOCABULARY), key=lambda token: float(reference[index, token]))
        next_token = int(original[row, column + 1]) if column + 1 < original.size(1) else None
        is_whole = not {w, next_token} & continuing and not (next_token is None and continuing)
        is_corrected = r != w and is_whole and (w, r) in table
        expected_corrected.append(is_corrected)
        z = reference[index] / temperature
        nll = torch.logsumexp(z, 0) - z[w]
        expected_loss = expected_loss + nll * ((1 - weight) if is_corrected else 1)
        plain = reference[index].detach()
        expected_plain += float(torch.logsumexp(plain, 0) - plain[w])
    assert corrected.tolist() == expected_corrected
    rows = {row for (row, _), is_corrected in zip(positions, expected_corrected, strict=True) if is_corrected}
    assert (int(result.counts["corrected"]), int(result.counts["corrected_sentences"])) == (
        sum(expected_corrected),
        len(rows),
    )
    assert result.loss.item() == pytest.approx(expected_loss.item(), rel=1e-5, abs=1e-6)
    assert float(result.counts["loss"]) == pytest.approx(expected_plain, rel=1e-5, abs=1e-6)
    if positions:
        expected_loss.backward()
        torch.testing.assert_close(logits.grad, reference.grad, rtol=1e-5, atol=1e-6)
        if weight == 1:
            assert torch.all(logits.grad[corrected] == 0)


@given(count=st.integers(0, 12), share=st.floats(0, 1), seed=st.integers(0, 2**31))
@settings(max_examples=60, deadline=None)
def test_the_least_likely_gold_words_are_truncated(count, share, seed):
    torch.manual_seed(seed)
    logits, gold = torch.randn(count, VOCABULARY), torch.randint(0, VOCABULARY, (count,))
    counted = torch.rand(count) < 0.7
    rows = [row for row in range(count) if counted[row]]
    rows.sort(key=lambda row: float(logits[row].softmax(0)[gold[row]]))
    dropped = least_likely(F.cross_entropy(logits, gold, reduction="none"), counted, share).nonzero().flatten().tolist()
    assert set(dropped) == set(rows[: len(dropped)])
    assert abs(len(dropped) - share * len(rows)) <= 0.5 + 1e-4


@given(size=st.sampled_from([9, 511, 512, 640, 1000]), kinds=st.integers(1, 3), seed=st.integers(0, 2**31))
@settings(max_examples=60, deadline=None)
def test_the_prediction_is_the_first_of_the_largest(size, kinds, seed):
    """Also of equal logits, infinite ones and NaN."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.tensor([1.0, -torch.inf, torch.nan] if kinds == 3 else [1.0, 0.0])[:kinds]
    logits = values[torch.randint(0, kinds, (5, size), generator=generator)]
    logits[0, size // 2 :] = 2
    for dtype in (torch.float32, torch.bfloat16):
        assert torch.equal(most_likely(logits.to(dtype)), logits.argmax(1))


vectors = st.lists(st.floats(-3, 3, width=32), min_size=4, max_size=4)


@given(
    rows=st.lists(vectors, min_size=4, max_size=4),
    choices=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.booleans()), min_size=1, max_size=8),
)
@example(rows=[[1.0, 0.0], [1.4e-22, 0.0]], choices=[(0, 1, True)])
@example(rows=[[0.0, 0.0], [1.0, 2.0]], choices=[(0, 1, True), (1, 0, True)])
@settings(max_examples=150, deadline=None)
def test_word_distance_equals_autograd_through_the_formula(rows, choices):
    embeddings = torch.tensor(rows, requires_grad=True)
    gold, prediction, counted = (torch.tensor(column) for column in zip(*choices, strict=True))
    total = word_distances(embeddings, gold, prediction, counted).sum()
    total.backward()

    reference = torch.tensor(rows, dtype=torch.double, requires_grad=True)
    expected = torch.zeros((), dtype=torch.double)
    for g, p, counts in choices:
        e, r = reference[g], reference[p]
        if counts and g != p and torch.any(e * e > 1e-40) and torch.any(r * r > 1e-40):
            expected = expected + 1 - (e @ r) / (e.norm() * r.norm())
    gradient = torch.zeros_like(reference)
    if expected.requires_grad:
        expected.backward()
        gradient = reference.grad
    assert torch.isfinite(total)
    own_gradient = embeddings.grad.to_dense()
    assert torch.isfinite(own_gradient).all()
    smallest = min((float(v.detach().norm()) for v in reference if v.detach().norm() > 0), default=1.0)
    if smallest > 1e-3:  # below, fp32 has no digits left to compare
        assert float(total) == pytest.approx(float(expected), abs=1e-5)
        torch.testing.assert_close(own_gradient.double(), gradient, rtol=1e-3, atol=1e-4 / smallest)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_word_distance_is_computed_in_fp32(dtype):
    # In half precision the squares of these entries overflow or lose the difference.
    embeddings = torch.tensor([[300.0, 1.0], [300.0, -1.0]], dtype=dtype)
    exact = 1 - (300.0**2 - 1) / (300.0**2 + 1)
    total = word_distances(embeddings, torch.tensor([0]), torch.tensor([1]), torch.tensor([True]))
    assert total.dtype == torch.float32
    assert float(total) == pytest.approx(exact, rel=1e-2)


@given(seed=st.integers(0, 2**31), count=st.integers(0, 5), zero=st.booleans())
@settings(max_examples=60, deadline=None)
def test_expected_distance_equals_autograd_through_the_formula(seed, count, zero):
    torch.manual_seed(seed)
    embeddings = torch.randn(7, 4)
    embeddings[2] *= 0 if zero else 1
    embeddings.requires_grad_()
    logits = torch.randn(count, 7, requires_grad=True)
    gold, counted = torch.randint(0, 7, (count,)), torch.rand(count) < 0.7
    total = expected_distances(embeddings, logits, gold, counted).sum()
    total.backward()

    reference, words = logits.detach().double().requires_grad_(), embeddings.detach().double()
    lengths = words.norm(dim=1).clamp(min=1e-30)
    distance = 1 - words[gold] @ words.T / lengths[gold][:, None] / lengths
    expected = (reference.softmax(1) * distance).sum(1)[counted].sum()
    expected.backward()
    assert float(total.detach()) == pytest.approx(float(expected.detach()), abs=1e-5)
    torch.testing.assert_close(logits.grad.double(), reference.grad, rtol=1e-4, atol=1e-6)
    assert embeddings.grad is None, "they measure the distance"


@given(seed=st.integers(0, 2**31), with_gradient=st.booleans())
@settings(max_examples=50, deadline=None)
def test_sentence_divergence_equals_autograd_through_the_formula(seed, with_gradient):
    torch.manual_seed(seed)
    predicted = torch.randn(2, 3, 5, requires_grad=True)
    original = torch.randn(2, 3, 5, requires_grad=with_gradient)
    counted = torch.rand(2, 3) < 0.7
    total = torch.where(counted, sentence_divergence(predicted, original), 0).sum()
    total.backward()

    leaves = [states.detach().clone().requires_grad_() for states in (predicted, original)]
    p, q = (states.exp() / states.exp().sum(-1, keepdim=True) for states in leaves)
    expected = (p * (p / q).log()).sum(-1)[counted].sum()
    expected.backward()
    torch.testing.assert_close(predicted.grad, leaves[0].grad, rtol=1e-3, atol=1e-5)
    if with_gradient:
        torch.testing.assert_close(original.grad, leaves[1].grad, rtol=1e-3, atol=1e-5)
    assert float(total) == pytest.approx(float(expected), abs=1e-4)
