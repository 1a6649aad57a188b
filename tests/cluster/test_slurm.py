"""An experiment under a real SLURM of one node on loopback, of Debian's packages slurm-wlm and munge; it starts as root
in a second.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.cli_runs import RECIPES, largest_difference, parameters
from support.commands import command_environment, run_command, truneg

SCRIPT = RECIPES.parent / "experiments" / "slurm.sh"

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "scancel")
CONFIGURATION = """
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.sock,cred_expire=5
SlurmctldPort={controller}
SlurmdPort={node}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmdSpoolDir={folder}/spool
StateSaveLocation={folder}/state
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=tests Nodes={host} Default=YES State=UP OverSubscribe=FORCE:4
"""


@dataclass(frozen=True)
class Slurm:
    """A running SLURM."""

    environment: dict[str, str]

    def run(self, *command: object, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Runs one of SLURM's commands to its end."""
        return run_command(command, check=check, env=self.environment)

    def submit(self, *options: object) -> str:
        """Submits a batch script and returns the number of its job."""
        return self.run("sbatch", "--parsable", *options).stdout.strip()

    def state(self, job: str) -> str:
        """The state of a job, such as RUNNING; of an array that of the task that is furthest behind."""
        states = self.run("squeue", "--noheader", "--states=all", "--format=%T", "--jobs", job).stdout.split()
        order = ("PENDING", "RUNNING", "COMPLETING", "FAILED", "CANCELLED", "TIMEOUT", "COMPLETED")
        return min(states, key=order.index)

    def wait(self, job: str, seconds: float = 240) -> str:
        """Waits for the end of a job and returns its state."""
        deadline = time.monotonic() + seconds
        while (state := self.state(job)) in ("PENDING", "RUNNING", "COMPLETING"):
            assert time.monotonic() < deadline, self.run("scontrol", "show", "job", job).stdout
            time.sleep(0.2)
        return state


@pytest.fixture(scope="module")
def slurm(tmp_path_factory) -> Iterator[Slurm]:
    """Starts SLURM in a folder and stops it; skips the tests where it cannot be started."""
    folder = tmp_path_factory.mktemp("slurm")
    lacking = [program for program in PROGRAMS if shutil.which(program) is None]
    if lacking or os.geteuid() != 0:
        pytest.skip(f"needs SLURM (apt install slurm-wlm munge) and root; not there: {', '.join(lacking) or 'root'}")
    for name in ("state", "spool"):
        (folder / name).mkdir()
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    files = ("key-file=munge.key", "socket=munge.sock", "pid-file=munged.pid", "log-file=munged.log", "seed-file=seed")
    subprocess.run(["munged", "--force", *(f"--{file.replace('=', f'={folder}/')}" for file in files)], check=True)
    configuration = folder / "slurm.conf"
    host = socket.gethostname()
    configuration.write_text(
        CONFIGURATION.format(
            folder=folder, host=host, controller=free_port(), node=free_port(), cpus=max(2, os.cpu_count() or 1)
        )
    )
    slurm = Slurm(command_environment(SLURM_CONF=str(configuration)))
    try:
        subprocess.run(["slurmctld", "-f", configuration], env=slurm.environment, check=True)
        subprocess.run(["slurmd", "-f", configuration, "-N", host], env=slurm.environment, check=True)
        deadline = time.monotonic() + 30
        while slurm.run("sinfo", "--noheader", "--format=%T", check=False).stdout.strip() != "idle":
            assert time.monotonic() < deadline, (folder / "slurmctld.log").read_text()[-2000:]
            time.sleep(0.1)
        yield slurm
    finally:
        for name in ("slurmd", "slurmctld", "munged"):
            with contextlib.suppress(OSError, ValueError):
                os.kill(int((folder / f"{name}.pid").read_text()), 15)


def free_port() -> int:
    """A port on which nothing listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_for(text: str, log: Path) -> None:
    deadline = time.monotonic() + 240
    while text not in (so_far := log.read_text() if log.exists() else ""):
        assert time.monotonic() < deadline, so_far[-3000:]
        time.sleep(0.02)


@pytest.mark.slow
def test_an_array_of_jobs_is_an_experiment_and_a_preempted_job_goes_on(slurm, data_bin, tmp_path):
    given = ("--cpu", "--set", f"paths.data={data_bin}", "updates=40", "training.log-interval=1")
    file, arms = RECIPES.parent / "experiments" / "tiny.yaml", ("baseline", "synonyms")
    output = tmp_path / "jobs"
    options = ("--array=0-1", "--cpus-per-task=1", f"--output={tmp_path}/job-%a.log")
    job = slurm.submit(*options, SCRIPT, file, output, 1, " ".join(arms), *given)
    wait_for('"num_updates": "10"', output / "runs" / "baseline" / "seed-1" / "train" / "train.log")
    slurm.run("scancel", "--signal=USR2", f"{job}_0")
    assert slurm.wait(job) == "COMPLETED", (tmp_path / "job-0.log").read_text()
    assert "Restarts=1 " in slurm.run("scontrol", "show", "job", f"{job}_0").stdout
    run_command(truneg("experiment", file, "--output", output, "--set", "seeds=1", *given))
    run_command(truneg("experiment", file, "--output", tmp_path / "here", "--set", "seeds=1", *given))
    for arm in arms:
        model = Path("runs", arm, "seed-1", "train", "model.pt")
        assert largest_difference(parameters(output / model), parameters(tmp_path / "here" / model)) == 0
    assert (output / "comparison.md").read_text() == (tmp_path / "here" / "comparison.md").read_text()


def test_the_script_does_one_arm_and_seed_for_each_number(tmp_path):
    """Without SLURM: `srun` and `scontrol` are stubs that say what they are asked for."""
    for name, end in (("srun", 75), ("scontrol", 0)):
        (tmp_path / name).write_text(f'#!/bin/bash\necho {name} "$@"; exit {end}\n')
        (tmp_path / name).chmod(0o755)
    variables = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_ARRAY_TASK_ID": "4", "SLURM_JOB_ID": "17"}
    command = [SCRIPT, "my file.yaml", "out", 3, "baseline synonyms", "--cpu"]
    done = run_command(command, check=False, env=command_environment(**variables))
    asked = "srun truneg experiment my file.yaml --output out --cpu --only synonyms --set first_seed=2 seeds=2"
    assert done.stdout.splitlines() == [asked, "scontrol requeue 17"]
    assert done.returncode == 75
