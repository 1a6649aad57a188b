"""The process of a run: what it imports, how it ends, and its environment."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import torch
from support.commands import command_environment

from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.launch import process
from truneg_fairseq.launch.process import PACKAGES, peak_memory_mb, run_logged

TRAP = "from pathlib import Path\nPath(__file__).with_name('trapped').touch()\nraise ImportError(__file__)\n"


@pytest.mark.slow
@pytest.mark.parametrize("output", ["here", "run"])
def test_nothing_is_imported_from_the_current_folder(output, tmp_path, monkeypatch):
    """A clone of fairseq, or a file with the name of a package, in the folder where the command is given."""
    here, run = tmp_path / "here", tmp_path / output
    (here / "fairseq").mkdir(parents=True)
    run.mkdir(exist_ok=True)
    for name in ("filelock.py", "fairseq/__init__.py"):
        (here / name).write_text(TRAP, encoding="utf-8")
    monkeypatch.chdir(here)
    # An empty name, as "$PYTHONPATH:/x" has it where there was none, means the current folder.
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", os.environ.get("PYTHONPATH", "")]))
    flags = ["fp32", "--save-dir", str(run), "--arch", "no_such_model"]
    command = [sys.executable, "-m", "truneg_fairseq.launch.process", *flags]
    code = run_logged(command, folder=PACKAGES, log=run / "log", poll=lambda: None)
    assert code == 2
    assert "invalid choice: 'no_such_model'" in (run / "log").read_text()
    assert not list(here.rglob("trapped"))


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


KEPT = """
import sys
from functools import partial, wraps
from importlib import import_module
from pathlib import Path
from truneg_fairseq.results.result import NamedModel
from truneg_fairseq.evaluation.yardstick import Task
from truneg_fairseq.experiments.evaluation import Asked
from truneg_fairseq.experiments.run import Run, execute_alone
from truneg_fairseq.experiments.settings import Arm, Evaluations, Experiment, Model
from truneg_fairseq.experiments.training import Pretraining
from truneg_fairseq.finetuning import FinetuneOptions
from truneg_fairseq.evaluation.models import OpeningOptions
from truneg_fairseq.launch import process
made = FinetuneOptions(models=["a"], prepared=Path("b"), output=Path("c"), seeds=[1, 2], lr=0.1)
asked = Asked(NamedModel("a", Path("b")), Task("sts", ("c",), limit=2), Path("d"), (NamedModel("e", Path("f")),))
evaluations = Evaluations(tasks={"sts": asked.task})
arms = {"a": Arm(options={"lr": [0.1, 1], "fp16": True}, synonym_table=Path("t"))}
named = {"training": {"lr": 1}, "updates": 2, "arms": arms, "evaluations": evaluations}
experiment = Experiment(data=Path("d"), model=Model(arch="a"), **named)
training = Pretraining(seed=1, folder=Path("f"), cpu=True, experiment=experiment, arm="a")
wanted = {
    "experiments.evaluation:measure": {"asked": [asked], "options": OpeningOptions(data=Path("d"), cpu=True)},
    "experiments.run:execute_alone": {"run": Run(training, Path("r")), "late": True},
    "finetuning.run:finetune_all": {"options": made},
}
calls, found = [], []
for name, keywords in wanted.items():
    module, _, function = name.partition(":")
    module = import_module(f"truneg_fairseq.{module}")
    calls.append(partial(getattr(module, function), **keywords))
process.keep_calls(Path(sys.argv[1]), calls)
for call in calls:  # in their places stand functions that keep what they get
    @wraps(call.func)
    def keep(**keywords):
        found.append(keywords)
    setattr(sys.modules[call.func.__module__], call.func.__name__, keep)
process.call_kept(Path(sys.argv[1]))
assert found == list(wanted.values()), found
"""


def test_a_call_is_kept_as_json_and_only_functions_of_the_package_are_called(tmp_path):
    subprocess.run([sys.executable, "-c", KEPT, tmp_path / "kept.json"], env=command_environment(), check=True)
    for name in ("os:system", "truneg_fairseq.launch.process:os.system", "truneg_fairseq.launch.process:partial"):
        call = {"function": name, "arguments": {"command": "touch ran"}}
        (tmp_path / "job.json").write_text(json.dumps({"folder": str(tmp_path), "calls": [call]}))
        with pytest.raises(TrueNegError, match="expected functions of this version"):
            process.call_kept(tmp_path / "job.json")
    assert not (tmp_path / "ran").exists()


def test_the_peak_of_memory_is_not_that_of_the_process_that_started_it():
    """Linux carries ru_maxrss over fork and exec."""
    code = "from truneg_fairseq.launch.process import peak_memory_mb; print(peak_memory_mb(cpu=True))"
    block = bytearray(1_500 << 20)
    block[:: 1 << 12] = b"x" * len(block[:: 1 << 12])
    printed = subprocess.run(
        [sys.executable, "-c", code], env=command_environment(), capture_output=True, text=True, check=True
    ).stdout
    assert 10 < float(printed) < 1_000


def test_the_memory_of_a_gpu_is_not_main_memory(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: 250_000_000)
    assert peak_memory_mb(cpu=False) == 250.0
