"""What a criterion can have a task do for it: fairseq tells tasks more than criterions.

Only the task's instance is extended, never its class.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import one_line_errors


def before_each_epoch(task: Any, check: Callable[[Any], object]) -> None:
    """Has a check made on the model at the start of each epoch, before the first batch is read.

    A criterion sees the model in the first training step only. By then fairseq's thread is reading data, and Python's
    exit, with which an error ends the run, aborts where a thread is inside torch.

    Args:
        task: a fairseq task.
        check: takes the model; may raise :class:`~truneg_fairseq.errors.TrueNegError`.
    """
    stock_begin_epoch = task.begin_epoch

    def begin_epoch(epoch: int, model: Any) -> None:
        with one_line_errors():
            check(model)
        stock_begin_epoch(epoch, model)

    task.begin_epoch = begin_epoch
