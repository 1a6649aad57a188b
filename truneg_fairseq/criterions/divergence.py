"""A loss or gradient that is no number, told in one line."""

from __future__ import annotations

import sys

from ..errors import TrueNegError, one_line_errors


def stop_if_diverged() -> None:
    """Ends a training whose loss or gradient is no number; to be called by a criterion before its forward pass.

    fairseq's trainer finds the gradients' norm to be no number and, while it handles that error, computes the batch
    once more to find the layer. Only then does this end the training: in any other update nothing is computed for it.

    Raises:
        SystemExit: with one line.
    """
    error = sys.exc_info()[1]
    with one_line_errors():
        if isinstance(error, FloatingPointError):
            reason = str(error).splitlines()[0].rstrip(".")
            raise TrueNegError(
                f"training stopped: {reason}; expected finite losses; lower --lr, or use fp32 or bf16 in place of fp16"
            )
