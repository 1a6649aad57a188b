"""The loss on a device that this machine need not have: it follows the logits, and never waits for the device."""

from __future__ import annotations

import pytest
import torch
from support.losses import LOSSES, WORDS, loss_of
from torch._subclasses.fake_tensor import FakeTensorMode

backend = pytest.importorskip("torch.utils.backend_registration", reason="torch's pretended backend: found none")


@pytest.fixture(scope="module")
def device() -> str:
    """A pretended backend: fake tensors know their device, and refuse others, copies of numbers and what waits."""
    if not hasattr(backend, "_setup_privateuseone_for_python_backend"):
        pytest.skip("torch's pretended backend: found none")

    class Pretended(backend._DummyBackendModule):
        def get_amp_supported_dtype(self):
            return [torch.bfloat16, torch.float16]

        def is_available(self):  # or DataParallel would take it
            return False

    backend._setup_privateuseone_for_python_backend("pretend", Pretended())  # once in a process
    return "pretend:0"


@pytest.mark.parametrize("reduction", ["mean", "none"])
@pytest.mark.parametrize("name", LOSSES)
def test_the_loss_follows_the_logits_to_their_device_and_never_waits(name, reduction, device):
    if reduction == "none" and name.startswith("sr"):
        pytest.skip("soft regularization has no loss for each token")
    loss_fn = loss_of(name, reduction=reduction)
    with FakeTensorMode() as mode:
        for module in loss_fn.modules():
            buffers = {name: mode.from_tensor(value) for name, value in module._buffers.items() if value is not None}
            module._buffers.update(buffers)
        logits = torch.randn(2, 5, WORDS, device=device, requires_grad=True)
        embeddings = torch.randn(WORDS, 8, device=device, requires_grad=True)
        labels = torch.zeros(2, 5, dtype=torch.long, device=device)
        for items in (None, 7):
            given = {"input_ids": labels.clone(), "embeddings": embeddings, "num_items": items}
            loss = loss_fn(logits, labels, **given)
            loss.sum().backward()
            with torch.no_grad():
                loss_fn(logits, labels, **given)
    assert loss.device == logits.grad.device == torch.device(device)
