"""Runs side by side: so many at a time, each with its device, and all ended by the first error."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import pytest

from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.launch.jobs import devices_of, run_jobs

RUNS = [SimpleNamespace(name=str(number)) for number in range(6)]


def test_as_many_runs_as_devices_go_side_by_side():
    together, devices, at_work = threading.Barrier(3, timeout=20), [], []

    def execute(run, job):
        devices.append(job.device)
        at_work.append(job.device)
        together.wait()  # never passed by fewer than three
        assert sorted(at_work) == ["0", "1", "2"]  # no device twice, and never more than three
        together.wait()
        job.progress(5)
        at_work.remove(job.device)
        together.wait()

    run_jobs(execute, RUNS, ["0", "1", "2"], lengths=[10] * 6)
    assert sorted(devices) == ["0", "0", "1", "1", "2", "2"]


def test_the_first_error_ends_the_others():
    started = threading.Event()
    seen = []

    def execute(run, job):
        seen.append(run.name)
        if run.name == "0":
            started.set()
            while True:  # what a training does: it goes on until its progress is refused
                job.progress(1)
                time.sleep(0.01)
        assert started.wait(20)
        raise TrueNegError("run 1 failed")

    with pytest.raises(TrueNegError, match="run 1 failed"):
        run_jobs(execute, RUNS, [None, None], lengths=[10] * 6)
    assert sorted(seen) == ["0", "1"]


def test_an_interrupt_in_a_run_is_the_commands():
    def execute(run, job):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_jobs(execute, RUNS, [None], lengths=[10] * 6)


def test_devices(monkeypatch):
    import torch

    assert devices_of(3, cpu=True) == [None] * 3
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert devices_of(2, cpu=False) == ["0", "1"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7,2")
    assert devices_of(2, cpu=False) == ["4", "7"]
    assert devices_of(4, cpu=False) == ["4", "7", "2", "4"]
