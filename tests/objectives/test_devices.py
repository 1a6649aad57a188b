"""The loss on a device that this machine need not have: it follows the logits, and never waits for the device."""

from __future__ import annotations

import subprocess
import sys
import traceback
from pathlib import Path

import pytest
import torch
from support.losses import LOSSES, WORDS, loss_of
from torch._subclasses.fake_tensor import FakeTensorMode

DEVICE = "pretend:0"


def pretend_backend() -> None:
    """Fake tensors of it know their device, and refuse others, copies of numbers from the host, and what waits."""
    backend = pytest.importorskip("torch.utils.backend_registration")

    class Pretended(backend._DummyBackendModule):
        def get_amp_supported_dtype(self):
            return [torch.bfloat16, torch.float16]

    backend._setup_privateuseone_for_python_backend("pretend", Pretended())


def train_and_evaluate(loss_fn) -> None:
    with FakeTensorMode() as mode:
        for module in loss_fn.modules():
            buffers = {name: mode.from_tensor(value) for name, value in module._buffers.items() if value is not None}
            module._buffers.update(buffers)
        logits = torch.randn(2, 5, WORDS, device=DEVICE, requires_grad=True)
        embeddings = torch.randn(WORDS, 8, device=DEVICE, requires_grad=True)
        labels = torch.zeros(2, 5, dtype=torch.long, device=DEVICE)
        for items in (None, 7):
            given = {"input_ids": labels.clone(), "embeddings": embeddings, "num_items": items}
            loss = loss_fn(logits, labels, **given)
            loss.sum().backward()
            with torch.no_grad():
                loss_fn(logits, labels, **given)
        assert loss.device == logits.grad.device == torch.device(DEVICE)
        if loss_fn.reduction != "none" and not loss_fn.needs_logits:
            states = torch.randn(2, 5, 8, device=DEVICE, requires_grad=True)
            loss_fn.of_hidden(states, embeddings, labels, **given).backward()
            assert states.grad.device == torch.device(DEVICE)


def test_the_loss_follows_the_logits_to_their_device_and_never_waits():
    """In a process of its own: a backend that is new after the first backward pass is unknown to autograd."""
    backend = pytest.importorskip("torch.utils.backend_registration")
    if not hasattr(backend, "_setup_privateuseone_for_python_backend"):
        pytest.skip("this torch has no pretended backend")
    paths = {"PYTHONPATH": ":".join(map(str, [*sys.path, Path(__file__).parents[1]]))}
    run = subprocess.run([sys.executable, __file__], capture_output=True, text=True, env=paths, check=False)
    assert run.stdout.split() == [*LOSSES], run.stderr


if __name__ == "__main__":
    pretend_backend()
    for name in LOSSES:
        try:
            for reduction in ("mean", "sum") if name.startswith("sr") else ("mean", "none"):
                train_and_evaluate(loss_of(name, reduction=reduction))
            print(name)
        except Exception:
            print(f"{name}:\n{traceback.format_exc()}", file=sys.stderr)
