"""Hooks on what fairseq's trainer tells its task and its criterion.

Only the instance is extended, never its class.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairseq.distributed import DistributedTimeoutWrapper, LegacyDistributedDataParallel, ModuleProxyWrapper
from torch.nn.parallel import DistributedDataParallel

from ..errors import one_line_errors

_WRAPPERS = (DistributedDataParallel, DistributedTimeoutWrapper, LegacyDistributedDataParallel, ModuleProxyWrapper)


def unwrap(model: Any) -> Any:
    """The model inside the wrappers of data parallelism."""
    while isinstance(model, _WRAPPERS):
        model = model.module
    return model


def masked_lm_of(model: Any) -> Any:
    """The encoder with the prediction head: ELECTRA's generator, or the model's only encoder."""
    model = unwrap(model)
    return getattr(model, "generator", None) or model.encoder


def before_each_epoch(task: Any, check: Callable[[Any], object]) -> None:
    """Has a check made on the model at the start of each epoch, before the first batch is read.

    A criterion sees the model in the first training step only. By then fairseq's thread is reading data, and Python's
    exit, with which an error ends the run, aborts where a thread is inside torch.
    """
    stock_begin_epoch = task.begin_epoch

    def begin_epoch(epoch: int, model: Any) -> None:
        with one_line_errors():
            check(model)
        stock_begin_epoch(epoch, model)

    task.begin_epoch = begin_epoch


def before_each_step(task: Any, before: Callable[[Any, Any, Any, int], object]) -> None:
    """Has a function called before each training step: of every micro-batch, never while validating.

    It takes the batch, the model, the criterion and the number of updates that have been made.
    """
    stock_train_step = task.train_step

    def train_step(
        sample: Any, model: Any, criterion: Any, optimizer: Any, update_num: int, *args: Any, **kwargs: Any
    ) -> Any:
        with one_line_errors():
            before(sample, model, criterion, update_num)
        return stock_train_step(sample, model, criterion, optimizer, update_num, *args, **kwargs)

    task.train_step = train_step


def follow_device(task: Any, criterion: Any) -> None:
    """Has the buffers of a criterion moved to the device of the model before each batch.

    fairseq's trainer moves a criterion without parameters only where there is one worker, and fairseq-validate never.
    """

    def moved(step: Callable[..., Any]) -> Callable[..., Any]:
        def on_device(sample: Any, model: Any, *args: Any, **kwargs: Any) -> Any:
            device = next(model.parameters()).device
            if any(buffer.device != device for buffer in criterion.buffers()):
                criterion.to(device)
            return step(sample, model, *args, **kwargs)

        return on_device

    task.train_step, task.valid_step = moved(task.train_step), moved(task.valid_step)


def before_each_attempt(criterion: Any, before: Callable[[], object]) -> None:
    """Has a function called before each attempt at an update, ahead of its first micro-batch.

    An update whose fp16 gradients overflow is attempted again with the next batches, under the same number. fairseq's
    trainer sets the criterion to training before each attempt, and at no other time.
    """
    stock_train = criterion.train

    def train(mode: bool = True) -> Any:
        if mode:
            before()
        return stock_train(mode)

    criterion.train = train
