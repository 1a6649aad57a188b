"""A training whose loss or gradient is NaN or infinite, explained in one line."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import torch
from fairseq.nan_detector import NanDetector
from torch import Tensor

from ..trainer.stopping import EXIT_DIVERGED
from .task_hooks import before_each_attempt, before_each_step, unwrap


def explain_nan(task: Any, criterion: Any) -> None:
    """Has a training that meets NaN end with one line: the update, and what was NaN first.

    fairseq's trainer finds the norm of the gradients to be NaN or infinite and, while it handles that error, computes
    the batches once more, to search the layers (which ends in a StopIteration on models whose encoder returns a dict).
    Only then does this search. Until then it keeps the batches of the update, which the trainer holds anyway.
    """
    batches: list[Any] = []

    def before_step(sample: Any, model: Any, criterion: Any, update: int) -> None:
        error = sys.exc_info()[1]
        if isinstance(error, FloatingPointError):
            reason = str(error).splitlines()[0].rstrip(".")
            print(
                f"truneg_fairseq: error: training stopped: {reason} in update {update + 1}, first of all "
                f"{_first_broken(batches, unwrap(model), criterion)}; expected finite numbers; lower --lr, or use "
                "fp32 or bf16 in place of fp16",
                file=sys.stderr,
                flush=True,
            )
            sys.exit(EXIT_DIVERGED)
        batches.append(sample)

    before_each_attempt(criterion, batches.clear)
    before_each_step(task, before_step)


def _first_broken(batches: list[Any], model: Any, criterion: Any) -> str:
    """Looks at the parameters, then at the loss and the gradients of each batch."""
    name = _broken((name, parameter.detach()) for name, parameter in model.named_parameters())
    if name is not None:
        return f"the parameter {name} (before this update)"
    _remove_search(model)
    # The same dropout and the same samples: the trainer seeds before each update.
    torch.manual_seed(torch.initial_seed())
    for generator in getattr(criterion, "step_generators", ()):
        generator.begin()
    for number, batch in enumerate(batches, start=1):
        where = f" of micro-batch {number}" if len(batches) > 1 else ""
        model.zero_grad()
        loss, _, log = criterion(model, batch)
        if not torch.isfinite(loss).all():
            parts = (name for name in ("gen_loss", "disc_loss", "sr_sum", "kl_sum") if name in log)
            part = _broken((name, torch.as_tensor(log[name])) for name in parts)
            return f"the loss{where}" + (f" ({part})" if part else "")
        loss.backward()
        # What lies nearest to the loss comes last among a model's parameters.
        name = _broken((n, p.grad) for n, p in reversed(list(model.named_parameters())) if p.grad is not None)
        if name is not None:
            return f"the gradient of {name}{where}"
    return "nothing in this worker's batches (look at the other workers, or at an overflow of their sum)"


def _remove_search(model: Any) -> None:
    """Takes away the hooks of fairseq's own search, which fail where a module's output is a dict without tensors."""
    for module in model.modules():
        for hooks in (module._forward_hooks, module._backward_hooks):
            for key in [key for key, hook in hooks.items() if isinstance(getattr(hook, "__self__", None), NanDetector)]:
                del hooks[key]


def _broken(tensors: Iterable[tuple[str, Tensor]]) -> str | None:
    """The name of the first tensor with NaN or infinity."""
    values = ((name, each.coalesce().values() if each.is_sparse else each) for name, each in tensors)
    return next((name for name, each in values if not torch.isfinite(each).all()), None)
