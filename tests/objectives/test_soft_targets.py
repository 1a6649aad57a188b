"""Soft targets and position weights against autograd through the formula."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from truneg_fairseq.objectives import SynonymLists
from truneg_fairseq.objectives.cross_entropy import least_likely, masked_cross_entropy
from truneg_fairseq.objectives.soft_targets import (
    SoftTargets,
    embedding_targets,
    self_targets,
    soft_cross_entropy,
    synonym_targets,
    teacher_targets,
    uniform_targets,
)

PAD = 1
WORDS = 9
SMOOTHINGS = ("uniform", "synonyms", "cosine", "embedding", "teacher", "self")


def random_table(seed: int) -> set[tuple[int, int]]:
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.rand(WORDS, WORDS, generator=generator).lt(0.3).nonzero().tolist()
    return {(g, s) for g, s in chosen if g != s and g > 4}  # tokens up to 4 have no synonyms


def lists_of(table: set[tuple[int, int]]) -> SynonymLists:
    pairs = torch.tensor(sorted(table), dtype=torch.long).view(-1, 2)
    return SynonymLists(pairs[:, 0], pairs[:, 1], WORDS)


def naive_targets(kind, row, gold, whole, table, embeddings, visible, share):
    """What one smoothing adds to the target of one position, fp64, shape (V,)."""
    target = torch.zeros(WORDS, dtype=torch.double)
    q = torch.zeros(WORDS, dtype=torch.double)
    if kind == "uniform":
        q += 1 / WORDS
    elif kind in ("synonyms", "cosine") and whole:
        for other in range(WORDS):
            if (gold, other) not in table:
                continue
            if kind == "synonyms":
                q[other] = 1
                continue
            e, r = embeddings[gold].double(), embeddings[other].double()
            cosine = e @ r / (e.norm() * r.norm())
            if cosine >= 0.2:
                q[other] = (cosine / 0.3).exp()
        if q.sum():
            q /= q.sum()
    elif kind == "embedding":
        words = embeddings.detach().double()
        cosines = {word: words[word] @ words[gold] / (words[word].norm() * words[gold].norm()) for word in range(WORDS)}
        del cosines[gold]
        for word in sorted(cosines, key=cosines.get)[-4:]:
            q[word] = (cosines[word] / 0.3).exp()
        q /= q.sum()
    elif kind == "teacher":
        for word in visible[row].argsort(descending=True)[:3].tolist():
            q[word] = visible[row][word].exp()
        q /= q.sum()
    elif kind == "self":
        q = visible[row].double().exp()
        q /= q.sum()
    a = share if q.sum() > 0 else 0.0
    target[gold] = -a
    return target + a * q


@given(
    kinds=st.lists(st.sampled_from(SMOOTHINGS), max_size=3),
    share=st.floats(0, 1),
    temperature=st.sampled_from([1.0, 1.0, 2.5]),
    graded=st.booleans(),
    count=st.integers(0, 6),
    seed=st.integers(0, 2**31),
)
@settings(max_examples=120, deadline=None)
def test_loss_and_gradient_equal_autograd_through_the_formula(kinds, share, temperature, graded, count, seed):
    torch.manual_seed(seed)
    table = random_table(seed)
    gold = torch.randint(2, WORDS, (count,))
    counted = torch.rand(count) < 0.8
    whole = counted & (torch.rand(count) < 0.8)
    gold_or_pad = torch.where(counted, gold, PAD)
    kept = torch.rand(count) if graded else torch.ones(count)
    embeddings = torch.randn(WORDS, 5).requires_grad_()
    visible = torch.randn(count, WORDS).requires_grad_()
    logits = torch.randn(count, WORDS).requires_grad_()
    share /= max(1, len(kinds))
    by_cosine = {"gold": gold_or_pad, "embeddings": embeddings, "temperature": 0.3, "threshold": 0.2}
    synonyms = lists_of(table).of(gold_or_pad)
    makers = {
        "uniform": lambda: uniform_targets(counted, share),
        "synonyms": lambda: synonym_targets(synonyms, whole, share),
        "cosine": lambda: synonym_targets(synonyms, whole, share, **by_cosine),
        "embedding": lambda: embedding_targets(embeddings, gold_or_pad, counted, share, temperature=0.3, neighbours=4),
        "teacher": lambda: teacher_targets(visible, counted, share, words=3),
        "self": lambda: self_targets(visible, counted, share),
    }
    soft = [makers[kind]() for kind in kinds]
    result = soft_cross_entropy(logits, gold_or_pad, kept, soft, temperature=temperature, ignore_index=PAD)
    result.objective.backward()

    reference = logits.detach().double().requires_grad_()
    expected, plain = reference.sum() * 0, 0.0
    for row in range(count):
        if not counted[row]:
            continue
        word = int(gold[row])
        with torch.no_grad():
            facts = (row, word, bool(whole[row]), table, embeddings, visible, share)
            target = sum((naive_targets(kind, *facts) for kind in kinds), torch.zeros(WORDS, dtype=torch.double))
            target[word] += 1
        expected = expected - kept[row] * (target * (reference[row] / temperature).log_softmax(0)).sum()
        plain -= float(reference[row].detach().log_softmax(0)[word])
    expected.backward()
    assert float(result.objective.detach()) == pytest.approx(float(expected.detach()), rel=1e-4, abs=1e-4)
    assert float(result.plain) == pytest.approx(plain, rel=1e-4, abs=1e-4)
    torch.testing.assert_close(logits.grad.double(), reference.grad, rtol=1e-4, atol=1e-5)
    assert embeddings.grad is None
    assert visible.grad is None, "q carries no gradient"


@given(seed=st.integers(0, 2**31), weight=st.floats(0, 1), temperature=st.sampled_from([1.0, 0.7]))
@settings(max_examples=40, deadline=None)
def test_without_smoothing_the_loss_equals_hard_correction(seed, weight, temperature):
    torch.manual_seed(seed)
    logits = torch.randn(5, WORDS)
    gold = torch.randint(1, WORDS, (5,))
    corrected = torch.rand(5) < 0.5
    leaves = [logits.clone().requires_grad_() for _ in range(2)]
    options = {"temperature": temperature, "ignore_index": PAD}
    hard = masked_cross_entropy(leaves[0], gold, corrected, correction_weight=weight, **options)
    soft = soft_cross_entropy(leaves[1], gold, 1 - weight * corrected.float(), **options)
    for result in (hard, soft):
        result.objective.backward()
    assert float(hard.objective.detach()) == pytest.approx(float(soft.objective.detach()), rel=1e-5, abs=1e-5)
    torch.testing.assert_close(leaves[0].grad, leaves[1].grad)


@given(count=st.integers(0, 12), share=st.floats(0, 1), seed=st.integers(0, 2**31))
@settings(max_examples=60, deadline=None)
def test_the_least_likely_gold_words_are_truncated(count, share, seed):
    torch.manual_seed(seed)
    logits, gold, counted = torch.randn(count, WORDS), torch.randint(0, WORDS, (count,)), torch.rand(count) < 0.7
    rows = [row for row in range(count) if counted[row]]
    rows.sort(key=lambda row: float(logits[row].softmax(0)[gold[row]]))
    dropped = least_likely(logits, gold, counted, share).nonzero().flatten().tolist()
    assert set(dropped) == set(rows[: len(dropped)])
    assert abs(len(dropped) - share * len(rows)) <= 0.5 + 1e-4


def test_a_kept_share_of_zero_has_no_gradient_at_all():
    logits = torch.randn(3, WORDS, requires_grad=True)
    soft = uniform_targets(torch.ones(3, dtype=torch.bool), 0.5)
    kept = torch.tensor([1.0, 0.0, 1.0])
    soft_cross_entropy(logits, torch.tensor([2, 3, 4]), kept, [soft], ignore_index=PAD).objective.backward()
    assert logits.grad[1].eq(0).all()
    assert logits.grad[0].ne(0).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_it_is_computed_in_fp32_and_answers_in_the_type_of_the_logits(dtype):
    logits = torch.randn(4, 1000, generator=torch.Generator().manual_seed(1)).to(dtype).requires_grad_()
    exact = logits.detach().float().requires_grad_()
    gold = torch.tensor([5, 6, 7, 8])
    soft = self_targets(logits * 2, torch.ones(4, dtype=torch.bool), 0.3)
    assert soft.probability.dtype == torch.float32
    results = [soft_cross_entropy(leaf, gold, torch.ones(4), [soft], ignore_index=PAD) for leaf in (logits, exact)]
    for result in results:
        assert result.objective.dtype == torch.float32
        result.objective.backward()
    assert logits.grad.dtype == dtype
    assert float(results[0].objective.detach()) == pytest.approx(float(results[1].objective.detach()), rel=1e-6)
    torch.testing.assert_close(logits.grad.float(), exact.grad, rtol=2e-2, atol=1e-3)


def test_synonym_lists_are_the_table():
    table = {(2, 3), (2, 8), (7, 2), (8, 0)}
    synonyms = lists_of(table)
    found = {(gold, int(s)) for gold in range(WORDS) for s in synonyms.of(torch.tensor([gold]))[0] if s >= 0}
    assert found == table
    assert lists_of(set()).of(torch.arange(WORDS)).eq(-1).all()
    assert {buffer.dtype for buffer in synonyms.half().buffers()} == {torch.int32}


def test_cosines_are_taken_in_blocks(monkeypatch):
    from truneg_fairseq.objectives import soft_targets

    embeddings = torch.randn(WORDS, 4)
    gold, synonyms = torch.tensor([2, 3]), torch.tensor([[4, 5, 6], [7, -1, -1]])
    arguments = {"gold": gold, "embeddings": embeddings, "threshold": -1.0}
    whole = synonym_targets(synonyms, torch.ones(2, dtype=torch.bool), 0.1, **arguments)
    monkeypatch.setattr(soft_targets, "_BLOCK_ENTRIES", 1)
    blocks = synonym_targets(synonyms, torch.ones(2, dtype=torch.bool), 0.1, **arguments)
    assert torch.equal(whole.probability, blocks.probability)
    assert isinstance(blocks, SoftTargets)


@pytest.mark.parametrize("kind", ["uniform", "synonyms", "embedding", "teacher", "self"])
def test_no_step_waits_for_the_device(kind):
    """On "meta" whatever needs a value on the host is an error."""
    logits = torch.randn(4, WORDS, device="meta", requires_grad=True)
    gold = torch.ones(4, dtype=torch.long, device="meta")
    counted = gold.ne(PAD)
    soft = {
        "uniform": lambda: uniform_targets(counted, 0.1),
        "synonyms": lambda: synonym_targets(
            lists_of({(2, 3)}).to("meta").of(gold), counted, 0.1, gold=gold, embeddings=logits.new_zeros(WORDS, 3)
        ),
        "embedding": lambda: embedding_targets(logits.new_zeros(WORDS, 3), gold, counted, 0.1),
        "teacher": lambda: teacher_targets(logits, counted, 0.1),
        "self": lambda: self_targets(logits, counted, 0.1),
    }[kind]()
    kept = counted.float().masked_fill(least_likely(logits, gold, counted, 0.1), 0.0)
    soft_cross_entropy(logits, gold, kept, [soft], ignore_index=PAD).objective.backward()
    assert logits.grad.shape == (4, WORDS)
