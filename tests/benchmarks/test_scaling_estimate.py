"""The arithmetic of benchmarks/scaling.py, and what it reads from fairseq's log."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.commands import benchmark


@pytest.fixture(scope="module")
def scaling():
    with benchmark("scaling") as module:
        yield module


@pytest.mark.parametrize(("workers", "sent"), [(1, 0), (2, 80), (4, 120), (8, 140)])
def test_ring(scaling, workers, sent):
    """Each of n workers sends n - 1 of n parts twice: to sum them, and to spread the sums."""
    assert scaling.ring_bytes(80, workers) == sent


@given(size=st.floats(1, 1e12), workers=st.integers(2, 1000))
@settings(max_examples=30)
def test_reduced_bytes_are_those_of_the_ring(scaling, size, workers):
    assert scaling.reduced_bytes(scaling.ring_bytes(size, workers), workers) == pytest.approx(size)


def test_estimate(scaling):
    """50 MB over 4 workers are 75 MB from each: 7.5 ms at 10 GB/s, after the 20 ms of the update."""
    assert scaling.estimate_seconds(0.02, 50e6, 4, 10e9) == pytest.approx(0.0275)
    assert scaling.estimate_seconds(0.02, 50e6, 1, 10e9) == 0.02


@given(constant=st.floats(0, 10), slope=st.floats(1e-6, 1e-2))
@settings(max_examples=30)
def test_fit_of_a_line_is_the_line(scaling, constant, slope):
    tokens = [512, 1024, 2048, 4096]
    line = scaling.fit_line(tokens, [constant + slope * count for count in tokens])
    assert line == pytest.approx((constant, slope, 1), rel=1e-6, abs=1e-9)


def test_fit_of_what_is_no_line(scaling):
    """y = 0, 0, 3 at x = 0, 1, 2: 1.5 x - 0.5, which leaves 1.5 of the 6 squared."""
    assert scaling.fit_line([0, 1, 2], [0, 0, 3]) == pytest.approx((-0.5, 1.5, 0.75))


def log_line(name, **stats):
    return f"2026-01-01 00:00:00 | INFO | {name} | {json.dumps({key: str(stats[key]) for key in stats})}\n"


def test_seconds_are_the_log_s(scaling):
    assert scaling.logged_seconds(log_line("train_inner", loss=9, wps=1024.5, wpb=4098)) == 4
    assert scaling.logged_seconds(log_line("train_inner", loss=9, wps=0, wpb=4098)) is None, "the first update"
    assert scaling.logged_seconds(log_line("train", loss=9, wps=1024.5, wpb=4098)) is None, "the epoch"
    assert scaling.logged_seconds("2026-01-01 00:00:00 | INFO | fairseq.trainer | begin training epoch 1\n") is None


def test_parameters_are_the_trained_ones(scaling):
    line = "| INFO | fairseq_cli.train | num. {} model params: {} (num. trained: {})\n"
    assert scaling.logged_parameters(line.format("shared", "13,548,803", "13,548,800")) == 13_548_800
    assert scaling.logged_parameters(line.format("expert", "0", "0")) is None
    assert scaling.logged_parameters("| INFO | fairseq.trainer | begin training epoch 1\n") is None


def test_updates_are_read_as_they_are_printed(scaling, monkeypatch):
    """Seconds and bytes are those between two lines; the first update only starts both."""
    counter = iter([1000, 5000, 5800, 6800])  # at the start, then at each of three updates
    monkeypatch.setattr(scaling, "loopback_bytes", lambda: next(counter))
    lines = [log_line("train_inner", wps=wps, wpb=100) for wps in (0, 50, 25)]
    process = type("Process", (), {"stdout": ["begin\n", *lines, log_line("train", wps=10, wpb=100)]})()
    updates, parameters, output = scaling._follow(process, scaling.Launch(jobs=1, workers=2))
    assert updates == [(2, 400), (4, 500)]
    assert parameters is None
    assert output == process.stdout
