"""Resuming fp16 and bf16 to the bit."""

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


def _copies(optimizer: Any) -> list[Tensor]:
    """One tensor per parameter, or one flat tensor per device (without ``--fp16-no-flatten-grads``)."""
    copies = optimizer.fp32_params
    return list(copies.values() if isinstance(copies, dict) else copies)
