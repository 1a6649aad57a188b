"""Progress: a bar on a terminal, whole lines elsewhere."""

from __future__ import annotations

import io
import re
import time

from truneg_fairseq import workers
from truneg_fairseq.workers import Progress


def test_a_terminal_gets_a_bar():
    stream = io.StringIO()
    stream.isatty = lambda: True
    for _ in Progress(range(3), desc="work", file=stream, mininterval=0):
        pass
    assert stream.getvalue().count("\r") >= 3
    assert "100%|" in stream.getvalue()


def test_a_log_gets_whole_lines_now_and_then(monkeypatch):
    monkeypatch.setattr(workers, "SECONDS_A_LINE", 0.0)
    stream = io.StringIO()
    for _ in Progress(range(3), desc="work", unit=" files", file=stream):
        pass
    assert "\r" not in stream.getvalue()
    lines = stream.getvalue().splitlines()
    assert len(lines) >= 2
    assert all(re.match(r"work: +\d+% [0-3]/3 \[", line) for line in lines), lines


def test_a_log_gets_at_most_one_progress_line_per_interval(monkeypatch):
    monkeypatch.setattr(workers, "SECONDS_A_LINE", 0.2)
    stream = io.StringIO()
    with Progress(total=5, file=stream) as bar:
        for _ in range(30):
            bar.set_description("a run")
            bar.refresh()
            Progress.write("beside it", file=io.StringIO())
            time.sleep(0.02)
    lines = stream.getvalue().splitlines()
    assert 2 <= len(lines) <= 5
    assert all(line.startswith("a run: ") for line in lines)


def test_a_log_gets_nothing_of_what_is_quick():
    stream = io.StringIO()
    with Progress(total=5, file=stream) as bar:
        bar.update(5)
    assert stream.getvalue() == ""
