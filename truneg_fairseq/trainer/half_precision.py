"""fp16 and bf16: resuming to the bit, and all parameters in one call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

_COPIES = "fp32_parameters"  # of an optimizer's state, beside the wrapped optimizer's own


def save_fp32_copies() -> None:
    """fairseq trains fp32 copies of 16-bit parameters, and saves the 16 bits only: a run that continues begins with
    rounded weights. (Memory-efficient fp16 and bf16 have no copies.) Copies of other weights than were saved with them
    (averaged, or of another precision) stay what they are.
    """
    from fairseq.optim.fp16_optimizer import _FP16OptimizerMixin

    stock_state_dict, stock_load_state_dict = _FP16OptimizerMixin.state_dict, _FP16OptimizerMixin.load_state_dict

    def state_dict(self: Any) -> dict[str, Any]:
        return {**stock_state_dict(self), _COPIES: [copy.detach() for copy in _copies(self)]}

    def load_state_dict(
        self: Any, state_dict: Mapping[str, Any], optimizer_overrides: Mapping[str, Any] | None = None
    ) -> None:
        state = dict(state_dict)
        saved = state.pop(_COPIES, [])
        stock_load_state_dict(self, state, optimizer_overrides)
        copies, dtype = _copies(self), self.fp16_params[0].dtype
        if [copy.shape for copy in copies] == [value.shape for value in saved]:
            for copy, value in zip(copies, saved, strict=True):
                exact = value.to(copy.device)
                copy.data = torch.where(exact.to(dtype).eq(copy.to(dtype)), exact, copy.data)

    _FP16OptimizerMixin.state_dict, _FP16OptimizerMixin.load_state_dict = state_dict, load_state_dict


def copy_together() -> None:
    """fairseq copies between 16 bits and fp32 one parameter at a time, three times an update: with ELECTRA-small's 402
    that is more than a thousand calls. (Joined parameters are one tensor, which needs nothing.)
    """
    from fairseq.optim.fp16_optimizer import _FP16OptimizerMixin

    stock_gradients = _FP16OptimizerMixin._sync_fp16_grads_to_fp32
    stock_parameters = _FP16OptimizerMixin._sync_fp32_params_to_fp16
    stock_zero = _FP16OptimizerMixin.zero_grad

    def gradients_to_fp32(self: Any) -> None:
        if not self._needs_sync:
            return
        given = [p.grad for p in self.fp16_params]
        own = [] if self.has_flat_params else [copy.grad for copy in self.fp32_params]
        if not own or any(gradient is None for gradient in (*given, *own)):
            stock_gradients(self)
        else:
            torch._foreach_copy_(own, given)
            self._needs_sync = False

    def zero_gradients(self: Any) -> None:
        if self.has_flat_params:
            stock_zero(self)
            return
        gradients = [copy.grad for copy in self.fp32_params]
        for copy in self.fp32_params:
            copy.grad = None
        stock_zero(self)
        for copy, gradient in zip(self.fp32_params, gradients, strict=True):
            copy.grad = gradient
        if kept := [gradient for gradient in gradients if gradient is not None]:
            torch._foreach_zero_(kept)

    def parameters_to_16_bits(self: Any) -> None:
        if self.has_flat_params:
            stock_parameters(self)
            return
        with torch.no_grad():
            torch._foreach_copy_(list(self.fp16_params), list(self.fp32_params))

    _FP16OptimizerMixin.zero_grad = zero_gradients
    _FP16OptimizerMixin._sync_fp16_grads_to_fp32 = gradients_to_fp32
    _FP16OptimizerMixin._sync_fp32_params_to_fp16 = parameters_to_16_bits


def _copies(optimizer: Any) -> list[Tensor]:
    """One tensor per parameter, or one flat tensor per device (without ``--fp16-no-flatten-grads``)."""
    copies = optimizer.fp32_params
    return list(copies.values() if isinstance(copies, dict) else copies)
