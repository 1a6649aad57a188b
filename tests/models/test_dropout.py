"""Dropout and attention on the CPU against torch's own operations with the same elements kept."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from truneg_fairseq.models.encoder import attend, dropout

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12, torch.bfloat16: 3e-2}


def kept_of(shape: tuple[int, ...], probability: float, seed: int) -> torch.Tensor:
    """Which elements the generator's state keeps."""
    torch.manual_seed(seed)
    return dropout(torch.ones(shape), probability).ne(0)


@settings(max_examples=30, deadline=None)
@given(
    shape=st.lists(st.integers(0, 7), min_size=1, max_size=3),
    probability=st.floats(0.001, 0.999),
    seed=st.integers(0, 1000),
)
def test_what_is_kept_is_scaled_and_gets_the_gradient(shape, probability, seed):
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    kept = kept_of(tuple(shape), probability, seed)
    torch.manual_seed(seed)
    dropped = dropout(x, probability)
    levels = 65_536
    scale = levels / (levels - round(probability * levels))
    torch.testing.assert_close(dropped, x * kept * scale)
    weight = torch.randn(shape, dtype=torch.float64)
    (dropped * weight).sum().backward()
    torch.testing.assert_close(x.grad, weight * kept * scale)


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.9])
def test_every_element_is_dropped_with_the_probability(probability):
    """Each of the four elements that share a random number, and neighbours independently."""
    count = 200_000
    kept = kept_of((count, 4), probability, seed=5).double()
    deviation = math.sqrt(probability * (1 - probability) / count)
    assert (kept.mean(dim=0) - (1 - probability)).abs().max() < 4.5 * deviation
    correlation = torch.corrcoef(kept.T) - torch.eye(4)
    assert correlation.abs().max() < 4.5 / math.sqrt(count)
    following = torch.corrcoef(torch.stack([kept[:-1, 3], kept[1:, 0]]))[0, 1]
    assert abs(following) < 4.5 / math.sqrt(count)
    assert torch.equal(kept_of((count, 4), probability, seed=5).double(), kept)


def test_nothing_and_everything():
    x = torch.randn(3, 5)
    assert dropout(x, 0.0) is x
    assert dropout(x, 1.0).eq(0).all()
    heads = torch.randn(1, 2, 3, 4)
    assert attend(heads, heads, heads, None, 1.0).eq(0).all()


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_attention_equals_plain_attention_with_the_same_dropout(dtype, padded):
    probability, shape = 0.25, (3, 2, 7, 4)
    lengths = torch.tensor([7, 4, 1])[:, None, None, None]
    attended = torch.arange(7).expand(3, 1, 1, 7) < lengths if padded else None
    parts = [torch.randn(shape, dtype=dtype).requires_grad_() for _ in range(3)]
    kept = kept_of((6, 7, 7), probability, seed=2).view(3, 2, 7, 7)
    torch.manual_seed(2)
    actual = attend(*parts, attended, probability)
    query, key, value = wide = [part.detach().double().requires_grad_() for part in parts]
    scores = query @ key.transpose(2, 3) / 2
    scores = scores if attended is None else scores.masked_fill(~attended, -torch.inf)
    expected = (scores.softmax(-1) * kept * 4 / 3) @ value
    tolerance = {"atol": TOLERANCE[dtype], "rtol": TOLERANCE[dtype], "check_dtype": False}
    assert actual.dtype == dtype
    torch.testing.assert_close(actual, expected, **tolerance)
    weight = torch.randn(shape, dtype=dtype)
    (actual * weight).sum().backward()
    (expected * weight).sum().backward()
    for own, reference in zip(parts, wide, strict=True):
        torch.testing.assert_close(own.grad, reference.grad, **tolerance)


def test_attention_without_dropout_is_torchs():
    parts = [torch.randn(2, 2, 5, 4) for _ in range(3)]
    attended = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])[:, None, None]
    assert torch.equal(
        attend(*parts, attended, 0.0), F.scaled_dot_product_attention(*parts, attn_mask=attended, dropout_p=0.0)
    )
    nearly = attend(*parts, attended, 1e-9)  # no weight is dropped, but by the other way
    torch.testing.assert_close(nearly, attend(*parts, attended, 0.0), atol=1e-6, rtol=1e-5)


def test_a_sequence_of_padding_alone_stays_a_number():
    parts = [torch.randn(1, 1, 3, 4, requires_grad=True) for _ in range(3)]
    context = attend(*parts, torch.zeros(1, 1, 1, 3, dtype=torch.bool), 0.5)
    context.sum().backward()
    assert context.isfinite().all()
    assert all(part.grad.isfinite().all() for part in parts)
