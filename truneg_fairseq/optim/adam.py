"""Adam as BERT and ELECTRA use it, on torch's multi-tensor kernels. Imports torch only."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.optim.adamw import adamw

_LOW_PRECISION = (torch.float16, torch.bfloat16)
_FUSED_DEVICES = ("cpu", "cuda")


class _Rule(NamedTuple):
    """The numbers of one update; parameters that share them are updated together."""

    lr: float
    betas: tuple[float, float]
    eps: float
    weight_decay: float
    bias_correction: bool


class ElectraAdam(torch.optim.Optimizer):
    """Adam with decoupled weight decay, by default without bias correction.

    Of gradient g: m = b1 m + (1 - b1) g, v = b2 v + (1 - b2) g^2, p = p - lr (m / (sqrt(v) + eps) + weight_decay p).
    With bias correction m is divided by 1 - b1^t and v by 1 - b2^t at step t: torch's AdamW.

    The state has the keys of torch's AdamW: ``exp_avg`` (m), ``exp_avg_sq`` (v), ``step`` (t, counted either way). It
    is fp32 for parameters of 16 bits, which are updated one at a time in fp32 and rounded once.

    Of the options lr, eps and weight_decay are >= 0, betas (the decay of m and of v) in [0, 1).
    """

    supports_memory_efficient_fp16 = True
    # fairseq's way of loading leaves the state on the CPU; load_state_dict below does what it is for.
    disable_mem_eff_fp16_loading_hack = True

    def __init__(
        self,
        params: Iterable[Any],
        *,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.01,
        bias_correction: bool = False,
    ) -> None:
        options = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, {**options, "bias_correction": bias_correction})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates every parameter that has a gradient; returns what the closure returned."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        by_rule: dict[_Rule, list[Tensor]] = defaultdict(list)  # groups that differ in name only: fewer, larger kernels
        for group in self.param_groups:
            rule = _Rule(*(group[name] for name in _Rule._fields))
            by_rule[rule].extend(p for p in group["params"] if p.grad is not None)
        for rule, parameters in by_rule.items():
            wide = [parameter for parameter in parameters if parameter.dtype not in _LOW_PRECISION]
            if wide:
                self._update(rule, wide, wide)
            for narrow in parameters:
                if narrow.dtype in _LOW_PRECISION:  # one at a time: fp32 copies of all would cost what 16 bits save
                    copy = narrow.float()
                    self._update(rule, [narrow], [copy])
                    narrow.copy_(copy)
        return loss

    def _update(self, rule: _Rule, owners: list[Tensor], values: list[Tensor]) -> None:
        """Updates the values in place, from the gradients and the state of their owners."""
        states = [self._state_of(owner) for owner in owners]
        steps = [state["step"] for state in states]
        if not rule.bias_correction:
            torch._foreach_add_(steps, 1)
            # At an infinite step 1 - b^t is exactly 1: torch's AdamW without its bias correction.
            devices = {value.device for value in values}
            endless = {device: torch.full((), math.inf, device=device) for device in devices}
            steps = [endless[value.device] for value in values]
        adamw(
            values,
            [owner.grad.to(value.dtype) for owner, value in zip(owners, values, strict=True)],  # type: ignore[union-attr]
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [],
            steps,
            fused=all(value.device.type in _FUSED_DEVICES for value in values) or None,  # None: foreach where it can
            amsgrad=False,
            beta1=rule.betas[0],
            beta2=rule.betas[1],
            lr=rule.lr,
            weight_decay=rule.weight_decay,
            eps=rule.eps,
            maximize=False,
        )

    def _state_of(self, parameter: Tensor) -> dict[str, Tensor]:
        state: dict[str, Tensor] = self.state[parameter]
        if not state:
            state["step"] = torch.zeros((), device=parameter.device)
            for key in ("exp_avg", "exp_avg_sq"):
                state[key] = torch.zeros_like(parameter, dtype=_state_dtype(parameter))
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Takes over the state of an optimizer over parameters of the same shapes; the options of the groups stay those
        of this one. Another number of groups, or of parameters in a group, or another shape is a ValueError.
        """
        saved, own = ([len(g["params"]) for g in groups] for groups in (state_dict["param_groups"], self.param_groups))
        if saved != own:
            raise ValueError(f"found groups of {saved} parameters, expected {own}")
        parameters = list(chain.from_iterable(group["params"] for group in self.param_groups))
        indices = chain.from_iterable(group["params"] for group in state_dict["param_groups"])
        loaded: defaultdict[Tensor, dict[str, Tensor]] = defaultdict(dict)
        for index, parameter in zip(indices, parameters, strict=True):
            if index in state_dict["state"]:
                loaded[parameter] = _to_parameter(state_dict["state"][index], parameter)
        self.state = loaded


def _to_parameter(state: Mapping[str, Any], parameter: Tensor) -> dict[str, Tensor]:
    """A copy of a parameter's state, on its device."""
    moved = {"step": torch.as_tensor(state["step"], dtype=torch.float32).to(parameter.device, copy=True)}
    for key in ("exp_avg", "exp_avg_sq"):
        if state[key].shape != parameter.shape:
            raise ValueError(f"found {key} of shape {tuple(state[key].shape)}, expected {tuple(parameter.shape)}")
        moved[key] = state[key].to(parameter.device, _state_dtype(parameter), copy=True)
    return moved


def _state_dtype(parameter: Tensor) -> torch.dtype:
    return torch.float32 if parameter.dtype in _LOW_PRECISION else parameter.dtype
