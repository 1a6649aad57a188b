"""The process of a run: what it imports, how it ends, and its environment; runs side by side."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial, wraps
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from support.commands import command_environment

import truneg_fairseq.finetuning.run_finetuning as finetuning_run
from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.evaluation.models import OpeningOptions
from truneg_fairseq.evaluation.yardstick import Task
from truneg_fairseq.experiments import evaluation
from truneg_fairseq.experiments.evaluation import Asked
from truneg_fairseq.finetuning import FinetuneOptions
from truneg_fairseq.launch import process
from truneg_fairseq.launch.jobs import devices_of, run_jobs
from truneg_fairseq.launch.process import PACKAGES, run_logged
from truneg_fairseq.results.result import NamedModel

TRAP = "from pathlib import Path\nPath(__file__).with_name('trapped').touch()\nraise ImportError(__file__)\n"


@pytest.mark.slow
def test_nothing_is_imported_from_the_current_folder(tmp_path, monkeypatch):
    """A clone of fairseq, or a file with the name of a package, where the command is given and the run is."""
    (tmp_path / "fairseq").mkdir()
    for name in ("filelock.py", "fairseq/__init__.py"):
        (tmp_path / name).write_text(TRAP, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    # An empty name, as "$PYTHONPATH:/x" has it where there was none, means the current folder.
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", os.environ.get("PYTHONPATH", "")]))
    flags = ["fp32", "--save-dir", str(tmp_path), "--arch", "no_such_model"]
    command = [sys.executable, "-m", "truneg_fairseq.launch.process", *flags]
    code = run_logged(command, folder=PACKAGES, log=tmp_path / "log", poll=lambda: None)
    assert code == 2
    assert "invalid choice: 'no_such_model'" in (tmp_path / "log").read_text()
    assert not list(tmp_path.rglob("trapped"))


def test_rank_variables_of_another_launcher_are_not_passed_to_trainings(tmp_path, monkeypatch):
    """fairseq-train would wait for the other ranks."""
    for name, value in {"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "host", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    code = "import os; print(*(name in os.environ for name in ('WORLD_SIZE', 'RANK', 'MASTER_ADDR', 'PATH')))"
    run_logged([sys.executable, "-c", code], folder=tmp_path, log=tmp_path / "log", poll=lambda: None)
    assert (tmp_path / "log").read_text() == "False False False True\n"


SAVES = """
import pathlib, signal, sys, time
def save(number, frame):
    pathlib.Path("told").touch()
    time.sleep(1)
    pathlib.Path("saved").touch()
    sys.exit(75)
signal.signal(signal.SIGTERM, save)
pathlib.Path("begun").touch()
time.sleep(100)
"""


@pytest.mark.parametrize(
    ("error", "patience", "files"),
    [(SystemExit, 60, {"told", "saved"}), (KeyboardInterrupt, 60, set()), (SystemExit, 0.1, {"told"})],
)
def test_sigterm_lets_a_command_save_for_a_while_and_ctrl_c_does_not(error, patience, files, tmp_path, monkeypatch):
    monkeypatch.setattr(process, "_PATIENCE", patience)

    def poll():
        if (tmp_path / "begun").exists():
            raise error

    with pytest.raises(error):
        run_logged([sys.executable, "-c", SAVES], folder=tmp_path, log=tmp_path / "log", poll=poll)
    assert {path.name for path in tmp_path.iterdir()} == {"begun", "log", *files}


STOPPED_TWICE = """
import signal, sys
from pathlib import Path
from types import SimpleNamespace
from truneg_fairseq.launch.jobs import run_jobs
from truneg_fairseq.launch.process import run_logged
folder = Path(sys.argv[1])
def execute(run, job):
    run_logged([sys.executable, "-c", sys.argv[2]], folder=folder, log=folder / "log", poll=lambda: job.progress(0))
run_jobs(execute, [SimpleNamespace(name="one")], [None], lengths=[1])
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR2])
def test_a_signal_that_is_sent_twice_lets_a_job_save(number, tmp_path):
    """As ``timeout`` does it: to the process and to its group."""
    command = [sys.executable, "-c", STOPPED_TWICE, str(tmp_path), SAVES]
    with subprocess.Popen(command, env=command_environment(), stderr=subprocess.PIPE) as started:
        while not (tmp_path / "begun").exists():
            assert started.poll() is None, started.stderr.read()
            time.sleep(0.05)
        started.send_signal(number)
        started.send_signal(number)
        time.sleep(0.1)
        started.send_signal(number)
        assert started.wait(60) == os.EX_TEMPFAIL
    assert (tmp_path / "saved").exists()


CALLS = """
import sys
from functools import partial
from pathlib import Path
from truneg_fairseq.finetuning.task import read_info
from truneg_fairseq.launch.process import call_logged, read_tail, run_logged
folder = Path(sys.argv[1])
names = {"log": folder / "log", "poll": lambda: None}
assert call_logged(partial(read_info, folder=folder / "none"), device="7", **names) == 1
shell = ["sh", "-c", "echo $CUDA_VISIBLE_DEVICES"]
assert run_logged(shell, folder=folder, device="7", **names | {"log": folder / "gpu"}) == 0
call_logged(partial(read_tail, path=folder / "fifo"), device=None, **names)
"""


def test_an_evaluation_is_logged_and_ends_with_the_command_that_was_killed(tmp_path):
    """By SIGKILL of the command alone, as the kernel kills where memory ends."""
    os.mkfifo(tmp_path / "fifo")
    with (
        subprocess.Popen([sys.executable, "-c", CALLS, str(tmp_path)], env=command_environment()) as parent,
        (tmp_path / "fifo").open("w"),  # waits until it is read
    ):
        children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
        assert children
        parent.kill()
        deadline = time.monotonic() + 60
        while any(is_running(Path("/proc", number)) for number in children):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    lines = (tmp_path / "log").read_text().splitlines()
    assert lines[1].startswith(f"truneg_fairseq: error: {tmp_path}/none/info.json: no such file")
    assert (tmp_path / "gpu").read_text() == "7\n"


def is_running(process: Path) -> bool:
    """A process that ended and that nobody asked for is a zombie."""
    return process.exists() and (process / "stat").read_text().split()[2] != "Z"


def test_a_call_is_kept_as_json_and_only_functions_of_the_package_are_called(tmp_path, monkeypatch):
    asked = Asked(NamedModel("a", Path("b")), Task("sts", ("c",), limit=2), Path("d"), (NamedModel("e", Path("f")),))
    options = FinetuneOptions(models=["a"], prepared=Path("b"), output=Path("c"), seeds=[1, 2], lr=0.1)
    wanted = {
        evaluation.measure: {"asked": [asked], "options": OpeningOptions(data=Path("d"), cpu=True)},
        finetuning_run.finetune_all: {"options": options},
    }
    found = []
    for function, keywords in wanted.items():
        process.keep_call(tmp_path / "kept.json", partial(function, **keywords))
        keep = wraps(function)(lambda **keywords: found.append(keywords))  # stands in its place
        monkeypatch.setattr(sys.modules[function.__module__], function.__name__, keep)
        process.call_kept(tmp_path / "kept.json")
    assert found == list(wanted.values())
    for name in ("os:system", "truneg_fairseq.launch.process:os.system", "truneg_fairseq.launch.process:partial"):
        call = {"folder": str(tmp_path), "function": name, "arguments": {"command": "touch ran"}}
        (tmp_path / "job.json").write_text(json.dumps(call))
        with pytest.raises(TrueNegError, match="expected a function of this version"):
            process.call_kept(tmp_path / "job.json")
    assert not (tmp_path / "ran").exists()


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


def test_devices(monkeypatch):
    assert devices_of(3, cpu=True) == [None] * 3
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert devices_of(2, cpu=False) == ["0", "1"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7,2")
    assert devices_of(2, cpu=False) == ["4", "7"]
    assert devices_of(4, cpu=False) == ["4", "7", "2", "4"]
