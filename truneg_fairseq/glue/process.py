"""The process of one fine-tuning run: ``python -m truneg_fairseq.glue.process PRECISION FLAGS...``

It is fairseq-train with these flags; at its end it notes in the run's folder what the run has taken. Each run has a
process of its own: its peak memory is its own, and one that is killed takes nothing along.
"""

from __future__ import annotations

import contextlib
import json
import resource
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from filelock import FileLock, Timeout

from ..errors import TrueNegError, one_line_errors
from ..files import replacing_text
from ..finetuning import run as fairseq_run

FINISHED_NAME = "finished.json"
"""Tells that training has ended: ``wall_seconds``, over all of its starts, and ``peak_memory_mb``."""


def main(argv: Sequence[str]) -> None:
    """Trains.

    Args:
        argv: one of :data:`fairseq_run.PRECISIONS`, then fairseq-train's flags, with ``--save-dir``.
    """
    precision, *flags = argv
    folder = Path(flags[flags.index("--save-dir") + 1])
    with one_line_errors(), _alone(folder):
        fairseq_run.start_fairseq()
        fairseq_run.train(flags, precision=precision)
        with replacing_text(folder / FINISHED_NAME) as stream:
            json.dump(_used(folder, cpu="--cpu" in flags), stream)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Holds the folder: a command that was killed may have left its run behind, still at work."""
    try:
        with FileLock(folder / ".lock", timeout=0):
            yield
    except Timeout:
        raise TrueNegError(
            f"{folder}: another process trains there; wait for its end, or end it and start again"
        ) from None


def _used(folder: Path, *, cpu: bool) -> dict[str, float]:
    import torch

    state = torch.load(folder / "checkpoint_last.pt", map_location="cpu", weights_only=True)["extra_state"]
    workers = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e6
    memory = max(fairseq_run.peak_memory_mb(cpu=cpu), workers)
    return {"wall_seconds": round(float(state["previous_training_time"]), 1), "peak_memory_mb": round(memory, 1)}


if __name__ == "__main__":
    main(sys.argv[1:])
elif __name__ == "__mp_main__":  # a spawned worker: the package came before fairseq
    fairseq_run.log_as_fairseq()
    fairseq_run.start_fairseq()
