"""Registers the optimizer ``electra_adam`` and the schedule ``electra_linear`` with fairseq.

fairseq reads the fields' types at run time: no ``from __future__ import annotations`` here, and built-in types only.
"""

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.optim import FairseqOptimizer, register_optimizer
from fairseq.optim.lr_scheduler import FairseqLRScheduler, register_lr_scheduler
from omegaconf import II
from torch import Tensor

from ..errors import TrueNegError, one_line_errors
from ..options import check, option, select
from .adam import ElectraAdam
from .parameter_groups import depth_of, parameter_groups
from .schedule import electra_linear


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
    """:class:`ElectraAdam` with groups of its own: no decay of LayerNorm and biases, learning rates by layer.

    The learning rate that fairseq sets and shows is the heads'; each group has its share of it.
    """

    def __init__(self, cfg: ElectraAdamConfig, params: Iterable[Tensor]) -> None:
        super().__init__(cfg)
        parameters = list(params)
        with one_line_errors():
            check(select(ElectraAdamConfig, cfg))
            tagged = any(depth_of(parameter) is not None for parameter in parameters)
            if not self.supports_flat_params and not tagged and all(parameter.ndim == 1 for parameter in parameters):
                raise TrueNegError(
                    "--optimizer electra_adam: found all parameters joined to one, expected them apart, as weight "
                    "decay and learning rate differ between them; add --fp16-no-flatten-grads"
                )
            if cfg.layer_lr_decay != 1 and not tagged:
                raise TrueNegError(
                    f"--layer-lr-decay {cfg.layer_lr_decay}: found a model that does not say to which layer a "
                    "parameter belongs, expected one of this package's (such as --arch truneg_bert_base or "
                    "electra_base)"
                )
        groups = parameter_groups(parameters, weight_decay=cfg.weight_decay, layer_lr_decay=cfg.layer_lr_decay)
        rate = cfg.lr[0] if isinstance(cfg.lr, Sequence) else cfg.lr
        # A sequence (YAML) or its text (command line).
        betas = ast.literal_eval(cfg.adam_betas) if isinstance(cfg.adam_betas, str) else cfg.adam_betas
        first, second = map(float, betas)
        if not (0 <= first < 1 and 0 <= second < 1):
            raise ValueError(f"--adam-betas: found {betas}, expected two numbers in [0, 1) such as (0.9,0.999)")
        self._optimizer = ElectraAdam(groups, lr=rate, betas=(first, second), eps=cfg.adam_eps)
        self.set_lr(rate)

    @property
    def supports_flat_params(self) -> bool:
        """Whether one joined parameter does: only where all are treated alike."""
        return bool(self.cfg.weight_decay == 0 and self.cfg.layer_lr_decay == 1)

    def get_lr(self) -> float:
        """The learning rate of the heads."""
        return self._lr

    def set_lr(self, lr: float) -> None:
        """Gives each group its share of a learning rate."""
        self._lr = lr
        for group in self.param_groups:
            group["lr"] = lr * group["lr_scale"]

    def clip_grad_norm(self, max_norm: float, aggregate_norm_fn: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        """As in fairseq, with one call for the norms of all gradients instead of two for each.

        ``max_norm`` 0 only measures; ``aggregate_norm_fn`` makes the norm over all workers from that of this worker.
        Returns the norm before, a fp32 scalar.
        """
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

    def load_state_dict(
        self, state_dict: Mapping[str, Any], optimizer_overrides: Mapping[str, Any] | None = None
    ) -> None:
        """The averages of a checkpoint; the options are this run's anyway, with or without --optimizer-overrides."""
        self._optimizer.load_state_dict(state_dict)


@register_lr_scheduler("electra_linear", dataclass=ElectraLinearConfig)
class FairseqElectraLinear(FairseqLRScheduler):
    """:func:`electra_linear` times ``--lr``: update k (from 1) runs with the rate for k - 1 finished updates.

    A function of the number of finished updates alone: nothing is saved, resuming is exact.
    """

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
        self._warmup = cfg.warmup_updates or cfg.warmup_ratio * self._total
        (self._lr,) = cfg.lr if isinstance(cfg.lr, Sequence) else [cfg.lr]
        self.step_update(0)

    def step_update(self, num_updates: int) -> float:
        """Sets and returns the learning rate for the update after ``num_updates`` finished ones."""
        self.optimizer.set_lr(self._lr * electra_linear(num_updates, self._total, self._warmup))
        return float(self.optimizer.get_lr())
