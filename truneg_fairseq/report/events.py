"""TensorBoard's files as fairseq writes them (``--tensorboard-logdir``): a folder a kind of statistics."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..errors import TrueNegError, reason
from .logs import Log

EVENT_FILES = "events.out.tfevents.*"


def read_events(files: Sequence[Path], log: Log) -> Log:
    """Adds the scalars of TensorBoard's files to a log; the folder's name is the name of the statistics.

    fairseq writes the value of the last update there, where its text log has a mean: what the log has stays.
    """
    try:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    except ImportError:
        raise TrueNegError(
            f"{files[0]}: the package tensorboard is not installed; expected it, to read this file; pip install "
            "'truneg_fairseq[report]'"
        ) from None
    known = set(log.series)
    for file in sorted(files):
        try:
            events = EventAccumulator(str(file), size_guidance={"scalars": 0})
            events.Reload()
            names = events.Tags()["scalars"]
        except Exception as error:  # its reader fails on other files in many ways
            raise TrueNegError(f"{file}: cannot be read ({reason(error)}); expected a file of TensorBoard") from None
        for name in names:
            if (file.parent.name, name) not in known:
                for event in events.Scalars(name):
                    log.add(file.parent.name, event.step, {name: event.value})
    return log
