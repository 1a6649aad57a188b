"""A forked command is the command: what it sees, how it ends, and what a training computes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.cli_runs import EVERYTHING, largest_difference, parameters, training
from support.command_server import CUDA
from support.commands import ENVIRONMENT, HARMLESS, command_environment, run_command, stand_ins, wait_until

pytestmark = pytest.mark.skipif(CUDA or sys.platform != "linux", reason="no command is forked here")

STATE = """
import json, logging, multiprocessing.spawn, os, sys, threading

def state():
    main = sys.modules["__main__"]
    preparation = multiprocessing.spawn.get_preparation_data("worker")
    return {
        "main": [__name__, __file__, __spec__, __package__, main.__file__, vars(main) is globals()],
        "argv": sys.argv, "path": sys.path, "cwd": os.getcwd(),
        "environment": {name: value for name, value in os.environ.items() if not name.startswith("KMP_")},
        "spawn": [preparation.get(name) for name in ("init_main_from_path", "sys_path", "orig_dir", "dir")],
        "logging": [[str(handler) for handler in logging.root.handlers], logging.root.level],
        "files": os.listdir("/proc/self/fd"), "input": sys.stdin.read(), "threads": threading.active_count(),
        "imported": [name for name in ("fairseq", "truneg_fairseq", "fairseq_cli") if name in sys.modules],
    }

states = [state()]
import fairseq
from fairseq import metrics, utils
import torch
states += [state(), [fairseq.__spec__.origin, fairseq.metrics is metrics]]
states += [[fairseq.criterions.__name__, "fairseq.utils" in sys.modules]]
states += [torch.get_num_threads(), torch.is_grad_enabled(), str(torch.get_default_dtype())]
print(json.dumps(states))
"""
ENDS = {
    "nothing": ("print('done')", 0),
    "code": ("import sys; print('end'); sys.exit(3)", 3),
    "message": ("import sys; print('end'); sys.exit('a message')", 1),
    "error": ("raise ValueError('of the command')", 1),
    "signal": ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", -15),
    "thread": ("import threading, time; threading.Timer(0.2, lambda: print('late')).start(); print('end')", 0),
    "atexit": ("import atexit; atexit.register(print, 'at exit'); print('end')", 0),
    "unflushed": ("import sys; sys.stdout.write('no newline'); sys.stderr.write('neither')", 0),
}


@pytest.mark.slow
def test_it_sees_what_a_fresh_process_sees(tmp_path):
    (tmp_path / "state.py").write_text(STATE)
    command = [sys.executable, "state.py", "--flag", "a b"]
    fresh, forked = (json.loads(run_command(command, cwd=tmp_path, fresh=f).stdout) for f in (True, False))
    assert fresh[0]["imported"] == []
    for one, other in zip(fresh, forked, strict=True):
        assert one == other


@pytest.mark.parametrize("end", ENDS)
def test_it_ends_as_a_fresh_process_ends(end, tmp_path):
    program, code = ENDS[end]
    (tmp_path / "end.py").write_text(program)
    fresh, forked = (run_command([sys.executable, tmp_path / "end.py"], fresh=f, check=False) for f in (True, False))
    assert forked.returncode == fresh.returncode == code
    assert forked.stdout == fresh.stdout
    assert forked.stderr.splitlines()[-1:] == fresh.stderr.splitlines()[-1:]


def test_each_draws_its_own_random_numbers(tmp_path):
    (tmp_path / "draw.py").write_text(
        "import random, numpy, torch; print(random.random(), numpy.random.rand(), float(torch.rand(())))"
    )
    draws = [run_command([sys.executable, tmp_path / "draw.py"]).stdout.split() for _ in range(2)]
    assert not set(draws[0]) & set(draws[1])


def test_what_the_start_may_matter_to_is_fresh():
    changed = dict(command_environment().items() ^ ENVIRONMENT.items())
    assert all(name.startswith(HARMLESS) for name in changed), f"an import or a test set a variable for good: {changed}"

    code = ("-c", "import sys; print(sys.executable)")
    assert run_command([sys.executable, *code]).stdout == f"{stand_ins().python}\n"
    for command, env in (
        ([sys.executable, *code], {"NLTK_DATA": "elsewhere"}),
        ([sys.executable, "-X", "dev", *code], {}),
        ([stand_ins().python, *code], {"RANK": "0"}),
    ):
        assert run_command(command, env=env).stdout == f"{sys.executable}\n"


def test_a_stand_in_is_its_command(tmp_path):
    """It prints to the same pipe, hands on a signal, ends alike, and takes its command along where it is killed."""
    code = (
        "import os, signal, sys, time; sys.stdout.reconfigure(errors='replace'); "
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7)); "
        "print(os.getpid(), sys.executable, flush=True); time.sleep(60)"
    )
    for number, status in ((signal.SIGTERM, 7), (signal.SIGKILL, -9)):
        command = [stand_ins().python, "-c", code]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as process:
            pid, python = process.stdout.readline().split()
            assert int(pid) != process.pid and python == str(stand_ins().python)
            process.send_signal(number)
            assert process.wait(10) == status
        wait_until(lambda: not Path(f"/proc/{pid}").exists())  # noqa: B023


@pytest.mark.slow
def test_a_training_computes_the_same(data_bin, tmp_path):
    files = []
    for fresh in (True, False):
        run_command(training(data_bin, tmp_path / str(fresh), *EVERYTHING, "--max-update", 3), fresh=fresh)
        files.append(tmp_path / str(fresh) / "checkpoint_last.pt")
    assert largest_difference(*map(parameters, files)) == 0
