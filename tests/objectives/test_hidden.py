"""The loss without logits: that of the logits, its gradients too."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from truneg_fairseq import TrueNegativeLoss
from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.objectives import Alternatives, hidden
from truneg_fairseq.objectives.soft_targets import SoftTargets, Target, soft_cross_entropy


def case(seed, positions, width, words, dtype=torch.float64):
    """States, matrix, bias, gold words, coefficients, and soft targets with shares that sum to less than 1."""
    generator = torch.Generator().manual_seed(seed)
    states, matrix, bias = (
        torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)
        for shape in ((positions, width), (words, width), (words,))
    )
    gold = torch.randint(words, (positions,), generator=generator)
    coefficient = torch.rand(positions, generator=generator) * torch.rand(positions, generator=generator).gt(0.3)
    listed = torch.randint(words, (positions, 3), generator=generator)
    listed[:, 0] = gold  # words may repeat
    soft = [
        SoftTargets(torch.full((positions,), 0.2), listed, torch.tensor([0.5, 0.5, 0.0]).expand(positions, 3)),
        SoftTargets(torch.rand(positions, generator=generator) * 0.5),
    ]
    return [states, matrix, bias], gold, coefficient, soft


def by_logits(inputs, gold, coefficient, soft, temperature, keep, allowed):
    states, matrix, bias = inputs
    logits = states @ matrix.T if bias is None else states @ matrix.T + bias
    best = logits.detach().masked_fill(~allowed, -torch.inf).argmax(1)
    plain = F.cross_entropy(logits.detach(), gold, reduction="none")
    log_probabilities = (logits.detach() / temperature).log_softmax(1)
    losses = soft_cross_entropy(
        logits, log_probabilities, Target.of(gold, soft), coefficient.ne(0), temperature=temperature, allowed=allowed
    )
    return (coefficient * keep(best) * losses).sum(), plain, best


@given(
    seed=st.integers(0, 2**31),
    positions=st.integers(0, 17),
    words=st.integers(11, 700),
    with_bias=st.booleans(),
    kinds=st.sets(st.integers(0, 1), min_size=1),
    temperature=st.sampled_from([1.0, 0.7, 2.0]),
    weight=st.sampled_from([0.0, 0.6, 1.0]),
    block=st.integers(1, 9),
    incoming=st.sampled_from([1.0, 0.37]),
    some_allowed=st.booleans(),
)
@settings(max_examples=80, deadline=None)
def test_the_blocks_have_the_loss_and_the_gradients_of_the_logits(
    seed, positions, words, with_bias, kinds, temperature, weight, block, incoming, some_allowed
):
    inputs, gold, coefficient, soft = case(seed, positions, 6, words)
    soft, inputs = [soft[kind] for kind in kinds], inputs if with_bias else [*inputs[:2], None]
    allowed = torch.rand(words, generator=torch.Generator().manual_seed(seed)).lt(0.7) if some_allowed else None
    keep = lambda best: 1 - weight * (best % 2)  # noqa: E731  (of words with odd numbers)
    found = []
    for by_blocks in (False, True):
        leaves = [None if each is None else each.clone().requires_grad_() for each in inputs]
        if by_blocks:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(hidden, "_FEWEST", block)
                patch.setattr(hidden, "_ENTRIES", 1)
                target = Target.of(gold, soft)
                factors = {"keep": lambda rows, best: keep(best), "temperature": temperature, "allowed": allowed}
                total, plain, best = hidden.cross_entropy_of_hidden(*leaves, target, coefficient, **factors)
        else:
            everything = torch.ones(words, dtype=torch.bool) if allowed is None else allowed
            total, plain, best = by_logits(leaves, gold, coefficient, soft, temperature, keep, everything)
        (total * incoming).backward()
        gradients = [torch.zeros_like(each) if each.grad is None else each.grad for each in leaves if each is not None]
        found.append((total.detach(), plain, best, *gradients))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(other, one, rtol=1e-6, atol=1e-6)  # shares are fp32


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5), (torch.bfloat16, 2e-2)]
)
@pytest.mark.parametrize("autocast", [False, True])
def test_of_hidden_is_as_exact_as_its_inputs(dtype, tolerance, autocast):
    """Largest differences from the loss of float64 logits of the same inputs, relative to the largest value."""
    inputs, gold, _, _ = case(3, 70, 24, 900, dtype)
    labels, found = gold.index_fill(0, torch.arange(0, 70, 4), -100), []
    for exact in (True, False):
        leaves = [each.clone().to(torch.float64 if exact else dtype).requires_grad_() for each in inputs]
        loss_fn = TrueNegativeLoss()
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast and not exact):
            if exact:
                loss = loss_fn(leaves[0] @ leaves[1].T + leaves[2], labels)
            else:
                loss = loss_fn.of_hidden(leaves[0], leaves[1], labels, bias=leaves[2])
        loss.backward()
        assert loss.dtype == (torch.float64 if exact or (dtype == torch.float64 and not autocast) else torch.float32)
        found.append([loss.detach(), *(each.grad for each in leaves)])
    for exact, other in zip(*found, strict=True):
        error = (other.double() - exact).abs().max() / exact.abs().max()
        assert error < (2e-2 if autocast else tolerance)


def test_a_frozen_head_a_batch_without_a_label_and_what_of_hidden_refuses():
    inputs, gold, _, _ = case(1, 5, 4, 20, torch.float32)
    loss_fn, states = TrueNegativeLoss(), inputs[0].requires_grad_()
    loss = loss_fn.of_hidden(states, inputs[1], gold)
    loss.backward(retain_graph=True)
    with pytest.raises(TrueNegError, match="a second backward pass"):
        loss.backward()
    states.grad = None
    nothing = loss_fn.of_hidden(states, inputs[1], torch.full_like(gold, -100))
    nothing.backward()
    assert nothing.item() == 0 and not states.grad.any()
    mine = {"hc_weight": 1.0, "hc_detector": "likely", "ideas": {"likely": Likely()}}
    for options in ({"reduction": "none"}, {"sr_word_weight": 1.0, "sr_word_form": "expected"}, mine):
        with pytest.raises(TrueNegError, match=r"of_hidden: .*; expected"):
            TrueNegativeLoss.for_symbols(range(20), **options).of_hidden(states, inputs[1], gold)


class Likely(Alternatives):
    """A user's source, which looks at the logits."""

    def accepts(self, batch, tokens, model):
        return batch.logits.detach().softmax(1).gather(1, tokens[:, None]).squeeze(1)
