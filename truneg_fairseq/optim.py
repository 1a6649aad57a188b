"""ELECTRA's optimizer ``electra_adam`` and schedule ``electra_linear``, and which parameters decay at which rate.

An optimizer of fairseq is given parameters without names, or fp32 copies, which keep ``param_group`` alone: a model
tags its parameters when it is built. fairseq reads the fields' types at run time: no ``from __future__ import
annotations`` here, and built-in types only.
"""

import ast
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from typing import Any

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.optim import FairseqOptimizer, register_optimizer
from fairseq.optim.lr_scheduler import FairseqLRScheduler, register_lr_scheduler
from omegaconf import II
from torch import Tensor, nn

from .errors import TrueNegError, one_line_errors
from .flags import check, option, select

_FUSED_DEVICES = ("cpu", "cuda")
_LAYER = re.compile(r"(?P<stack>(?:.*?\.)?)layers\.(?P<index>\d+)\.")
_EMBEDDING = re.compile(r"(?P<stack>(?:.*?\.)?)(?:embed\w*|layernorm_embedding)\.")


class ElectraAdam(torch.optim.AdamW):
    """torch's AdamW without bias correction, as BERT and ELECTRA use it; steps are counted all the same.

    Of gradient g: m = b1 m + (1 - b1) g, v = b2 v + (1 - b2) g^2, p = p - lr (m / (sqrt(v) + eps) + weight_decay p).
    """

    def __init__(self, params: Iterable[Any], *, lr: float, eps: float = 1e-6, **options: Any) -> None:
        super().__init__(params, lr=lr, eps=eps, **options)
        parameters = chain.from_iterable(group["params"] for group in self.param_groups)
        fused = all(p.device.type in _FUSED_DEVICES and p.is_floating_point() for p in parameters)
        for group in self.param_groups:
            group["fused"] = fused or None  # None: torch's choice

    def _init_group(self, group: dict[str, Any], *lists: Any) -> Any:
        """At an infinite step 1 - b^t is exactly 1: no bias correction."""
        found = super()._init_group(group, *lists)
        steps = lists[-1]
        if steps:
            torch._foreach_add_(steps, 1)
            endless = {device: torch.full((), math.inf, device=device) for device in {step.device for step in steps}}
            steps[:] = [endless[step.device] for step in steps]
        return found

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Takes over the averages; the options stay this one's."""
        own, saved = self.state_dict()["param_groups"], state_dict["param_groups"]
        if [len(group["params"]) for group in own] == [len(group["params"]) for group in saved]:
            saved = [{**mine, "params": group["params"]} for mine, group in zip(own, saved, strict=True)]
        super().load_state_dict({**state_dict, "param_groups": saved})


def parameter_depths(names: Iterable[str]) -> dict[str, int]:
    """The distance of every parameter from the output of its own stack of n layers (``layers.0``, ``layers.1``, ...).

    Top layer: 1; bottom layer: n; what is named ``embed*`` or ``layernorm_embedding`` beside the layers: n + 1; all
    else is a head: 0.
    """
    names = list(names)
    layers: dict[str, int] = {}
    for match in filter(None, map(_LAYER.match, names)):
        layers[match["stack"]] = max(layers.get(match["stack"], 0), int(match["index"]) + 1)

    def depth(name: str) -> int:
        if layer := _LAYER.match(name):
            return layers[layer["stack"]] - int(layer["index"])
        embedding = _EMBEDDING.match(name) if layers else None
        return layers.get(embedding["stack"], max(layers.values())) + 1 if embedding else 0

    return {name: depth(name) for name in names}


def tag_parameters(model: nn.Module) -> None:
    """Sets ``param_group`` of every parameter to its depth, the largest of its names': a tied head is an embedding."""
    named = list(model.named_parameters(remove_duplicate=False))
    depths = parameter_depths(name for name, _ in named)
    deepest: dict[nn.Parameter, int] = {}
    for name, parameter in named:
        deepest[parameter] = max(deepest.get(parameter, 0), depths[name])
    for parameter, depth in deepest.items():
        parameter.param_group = depth  # type: ignore[attr-defined]


def electra_linear(finished: int, total: int, warmup: float) -> float:
    """Linear decay times linear warm-up (ELECTRA's released code), as a share of the peak learning rate.

    All three are numbers of updates. Both factors act at once: the largest value is 1 - warmup / total, and not 1.
    """
    decay = max(0.0, 1 - finished / total)
    return decay * min(1.0, finished / warmup) if warmup else decay


@dataclass
class ElectraAdamConfig(FairseqDataclass):
    """Options of ``--optimizer electra_adam``."""

    adam_betas: Any = option((0.9, 0.999), "decay of the averages of gradient and squared gradient, in [0, 1)")
    # Above 0: a parameter without gradient, such as the embedding of a word that never occurs, would become 0 / 0.
    adam_eps: float = option(1e-6, "added to the root of the squared gradient's average", gt=0)
    weight_decay: float = option(0.01, "decoupled weight decay of all parameters but LayerNorms and biases", ge=0)
    layer_lr_decay: float = option(
        1.0,
        "learning rate of a layer relative to that of the layer above it, in (0, 1]: heads have --lr, the top layer d, "
        "the embeddings below n layers d^(n+1); 0.8 in ELECTRA's fine-tuning. Needs a model of this package, which "
        "tags its parameters",
        gt=0,
        le=1,
    )
    lr: Any = field(default=II("optimization.lr"))


@dataclass
class ElectraLinearConfig(FairseqDataclass):
    """Options of ``--lr-scheduler electra_linear``."""

    warmup_updates: int = option(0, "warm-up updates", ge=0)
    warmup_ratio: float = option(
        0.0, "warm-up as a share of --total-num-update, in [0, 1], instead of --warmup-updates", ge=0, le=1
    )
    total_num_update: int = option(
        0, "updates of the run, after which the learning rate is 0 (default: --max-update)", ge=0
    )
    max_update: int = field(default=II("optimization.max_update"))
    lr: Any = field(default=II("optimization.lr"))


@register_optimizer("electra_adam", dataclass=ElectraAdamConfig)
class FairseqElectraAdam(FairseqOptimizer):
    """:class:`ElectraAdam` with groups by depth and by whether weight decay applies, the deepest last.

    Biases and LayerNorm, of one dimension, do not decay. The groups depend on the model alone, not on the options: a
    checkpoint fits whatever these are. Untagged parameters have depth 0. fairseq shows the learning rate of the heads.
    """

    def __init__(self, cfg: ElectraAdamConfig, params: Iterable[Tensor]) -> None:
        super().__init__(cfg)
        members: dict[tuple[int, bool], list[Tensor]] = {}
        tagged = False  # by tag_parameters()
        for parameter in params:
            depth = getattr(parameter, "param_group", None)
            tagged |= depth is not None
            members.setdefault((depth or 0, parameter.ndim > 1), []).append(parameter)
        with one_line_errors():
            check(select(ElectraAdamConfig, cfg))
            if cfg.layer_lr_decay != 1 and not tagged:
                raise TrueNegError(
                    f"--layer-lr-decay {cfg.layer_lr_decay}: found a model that does not say to which layer a "
                    "parameter belongs, expected one of this package's (such as --arch truneg_bert_base or "
                    "electra_base), with --fp16-no-flatten-grads in fp16"
                )
        groups = [
            {"params": of_it, "weight_decay": cfg.weight_decay * decays, "lr_scale": cfg.layer_lr_decay**depth}
            for (depth, decays), of_it in sorted(members.items(), key=itemgetter(0))
        ]
        rate = cfg.lr[0] if isinstance(cfg.lr, Sequence) else cfg.lr
        # A sequence (YAML) or its text (command line); torch checks the range.
        betas = ast.literal_eval(cfg.adam_betas) if isinstance(cfg.adam_betas, str) else cfg.adam_betas
        self._optimizer = ElectraAdam(groups, lr=rate, betas=tuple(map(float, betas)), eps=cfg.adam_eps)
        self.set_lr(rate)

    @property
    def supports_flat_params(self) -> bool:
        """Whether all parameters may be joined to one: only where all are treated alike."""
        return bool(self.cfg.weight_decay == 0 and self.cfg.layer_lr_decay == 1)

    def set_lr(self, lr: float) -> None:
        """Gives each group its share of a learning rate."""
        for group in self.param_groups:
            group["lr"] = lr * group["lr_scale"]

    def clip_grad_norm(self, max_norm: float, aggregate_norm_fn: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        """As in fairseq, with one call for the norms of all gradients instead of two for each."""
        parameters = list(self.params)
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        if not gradients:
            return parameters[0].new_zeros((), dtype=torch.float32)
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients, 2, dtype=torch.float32)))
        if aggregate_norm_fn is not None:
            norm = aggregate_norm_fn(norm)
        if max_norm > 0:
            torch._foreach_mul_(gradients, (max_norm / (norm + 1e-6)).clamp_(max=1))
        return norm


@register_lr_scheduler("electra_linear", dataclass=ElectraLinearConfig)
class FairseqElectraLinear(FairseqLRScheduler):
    """:func:`electra_linear` times ``--lr``: update k (from 1) runs with the rate for k - 1 finished updates."""

    def __init__(self, cfg: ElectraLinearConfig, optimizer: FairseqOptimizer) -> None:
        super().__init__(cfg, optimizer)
        self._total = cfg.total_num_update or cfg.max_update
        with one_line_errors():
            check(select(ElectraLinearConfig, cfg))
            if self._total <= 0:
                raise TrueNegError(
                    "--lr-scheduler electra_linear: found neither --max-update nor --total-num-update, expected the "
                    "number of updates of the run; for --max-epoch E pass --total-num-update with E times the updates "
                    "of an epoch (num_updates in the log at the end of the first one)"
                )
            if cfg.warmup_updates and cfg.warmup_ratio:
                raise TrueNegError(
                    f"--warmup-ratio {cfg.warmup_ratio}: found --warmup-updates {cfg.warmup_updates} too; expected one"
                )
        self._warmup = cfg.warmup_updates or cfg.warmup_ratio * self._total
        (self._lr,) = cfg.lr if isinstance(cfg.lr, Sequence) else [cfg.lr]
        self.step_update(0)

    def step_update(self, num_updates: int) -> float:
        """Sets and returns the learning rate for the update after ``num_updates`` finished ones."""
        self.optimizer.set_lr(self._lr * electra_linear(num_updates, self._total, self._warmup))
        return float(self.optimizer.get_lr())
