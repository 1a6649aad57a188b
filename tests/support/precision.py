"""A criterion's loss and gradients in fp16 and bf16 against fp32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

BOUNDS = {torch.float16: (5e-5, 0.002), torch.bfloat16: (2e-4, 0.015)}
"""Of the loss, relative; of all gradients together, norm of the difference over the norm (docs/explain/method.md)."""


def loss_and_gradient(
    made: tuple[Any, Any, dict[str, Any]], rounded: torch.dtype, dtype: torch.dtype
) -> tuple[float, torch.Tensor]:
    """Of one batch; the parameters are those that ``rounded`` can hold, the arithmetic is that of ``dtype``."""
    model, criterion, sample = made
    model.to(rounded).to(dtype).train()
    criterion.to(rounded).to(dtype).train()
    loss, size, _ = criterion(model, sample)
    (loss.float() / size).backward()
    gradients = [parameter.grad.float().flatten() for parameter in model.parameters() if parameter.grad is not None]
    return float(loss.detach()) / int(size), torch.cat(gradients)


def assert_close_to_fp32(build: Callable[[], tuple[Any, Any, dict[str, Any]]], dtype: torch.dtype) -> None:
    """``build`` makes model, criterion and batch, the same ones each time."""
    exact, exact_gradient = loss_and_gradient(build(), dtype, torch.float32)
    loss, gradient = loss_and_gradient(build(), dtype, dtype)
    loss_bound, gradient_bound = BOUNDS[dtype]
    difference = float((gradient - exact_gradient).norm() / exact_gradient.norm())
    print(f"{dtype}: loss {abs(loss / exact - 1):.1e}, gradients {difference:.1e}")
    assert loss == pytest.approx(exact, rel=loss_bound)
    assert 0 < difference <= gradient_bound, "0: the arithmetic was that of fp32"
