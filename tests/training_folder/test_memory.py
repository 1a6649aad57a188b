"""The memory that a training shares with the processes that read data."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest
from support.cli_runs import training
from support.signals import start_and_wait

MOST = 50  # MiB: what the updates in between may take; without the repair it is 100 and more


def private_memory(pid: int) -> float:
    """MiB that no other process shares."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("Private_Dirty:"))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_collecting_garbage_copies_nothing(data_bin, tmp_path):
    """Python does it hours after the start: here, the training and each reader are told to."""
    code = (
        "import gc, signal, sys; sys.argv[:1] = []\n"
        "signal.signal(signal.SIGUSR2, lambda *_: print('collected', gc.collect(), flush=True))\n"
        "from fairseq_cli.train import cli_main; cli_main()"
    )
    options = ("--criterion", "masked_lm", "--disable-validation", "--num-workers", 1, "--max-update", 10**6)
    command, log = training(data_bin, tmp_path / "run", *options), tmp_path / "log"
    process = start_and_wait(
        [sys.executable, "-c", code, "train", *command[3:]], log, '"num_updates": "30"', fresh=True
    )
    readers = [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
    assert readers
    try:
        for number, pid in enumerate((process.pid, *readers), start=1):
            before = private_memory(pid)
            os.kill(pid, signal.SIGUSR2)
            deadline = time.monotonic() + 60
            while log.read_text().count("collected") < number:
                assert time.monotonic() < deadline
                time.sleep(0.1)
            assert private_memory(pid) - before < MOST
    finally:
        process.kill()
        process.wait()
