"""ELECTRA's Adam on a GPU: the kernel's numbers, where the state lies, and no waiting for the device."""

from __future__ import annotations

import copy

import pytest
import torch

from truneg_fairseq.optim import ElectraAdam

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def update(optimizer: ElectraAdam, parameters: list[torch.Tensor], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for parameter in parameters:
        parameter.grad = torch.randn(parameter.shape, generator=generator).to(parameter)
    optimizer.step()


@pytest.mark.parametrize("bias_correction", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_updates_are_those_of_the_cpu(dtype, bias_correction):
    torch.manual_seed(1)
    on_host = [torch.randn(shape).to(dtype).requires_grad_() for shape in ((300, 7), (5,))]
    on_device = [parameter.detach().cuda().requires_grad_() for parameter in on_host]
    both = [ElectraAdam(p, lr=0.01, bias_correction=bias_correction) for p in (on_host, on_device)]
    for seed in range(20):
        for optimizer, parameters in zip(both, (on_host, on_device), strict=True):
            update(optimizer, parameters, seed)
    tolerance = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 4e-2}[dtype]
    for host, device in zip(on_host, on_device, strict=True):
        assert (host - device.cpu()).abs().max() < tolerance


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_a_state_from_the_cpu_goes_to_the_device_and_trains_on_exactly(dtype):
    whole = [torch.randn(9, 3, device="cuda").to(dtype).requires_grad_()]
    first = ElectraAdam(whole, lr=0.01)
    update(first, whole, 1)
    saved = copy.deepcopy(first.state_dict())
    for state in saved["state"].values():
        state.update({key: value.cpu() for key, value in state.items()})
    resumed = [whole[0].detach().clone().requires_grad_()]
    second = ElectraAdam(resumed, lr=0.01)
    second.load_state_dict(saved)
    assert {value.device.type for value in second.state[resumed[0]].values()} == {"cuda"}
    update(first, whole, 2)
    update(second, resumed, 2)
    assert torch.equal(whole[0], resumed[0])


def test_a_step_never_waits_for_the_device():
    parameters = [torch.randn(shape, device="cuda").requires_grad_() for shape in ((300, 7), (5,))]
    optimizer = ElectraAdam(parameters, lr=0.01)
    update(optimizer, parameters, 1)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        optimizer.step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
