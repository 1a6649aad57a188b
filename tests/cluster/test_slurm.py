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
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.cli_runs import RECIPES, largest_difference, parameters
from support.commands import command_environment, run_command, truneg, wait_until

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


@pytest.fixture(scope="module")
def slurm(tmp_path_factory) -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """Runs commands of a SLURM that it starts in a folder and stops; skips the tests where it cannot be started."""
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
    host, cpus = socket.gethostname(), max(2, os.cpu_count() or 1)
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        ports = {"controller": one.getsockname()[1], "node": other.getsockname()[1]}
    configuration.write_text(CONFIGURATION.format(folder=folder, host=host, cpus=cpus, **ports))
    environment = {"SLURM_CONF": str(configuration)}

    def run(*command: object, check: bool = True) -> subprocess.CompletedProcess[str]:
        time.sleep(0.2)  # what waits asks again and again
        return run_command(command, check=check, env=environment)

    try:
        for daemon in (["slurmctld", "-f", configuration], ["slurmd", "-f", configuration, "-N", host]):
            subprocess.run(daemon, env=command_environment(**environment), check=True)
        asked = ("sinfo", "--noheader", "--format=%T")
        wait_until(lambda: run(*asked, check=False).stdout == "idle\n", log=folder / "slurmctld.log")
        yield run
    finally:
        for name in ("slurmd", "slurmctld", "munged"):
            with contextlib.suppress(OSError, ValueError):
                os.kill(int((folder / f"{name}.pid").read_text()), 15)


@pytest.mark.slow
def test_an_array_of_jobs_is_an_experiment_and_a_preempted_job_goes_on(slurm, data_bin, tmp_path):
    given = ("--cpu", "--set", f"paths.data={data_bin}", "updates=40", "training.log-interval=1")
    file, arms = RECIPES.parent / "experiments" / "tiny.yaml", ("baseline", "synonyms")
    output = tmp_path / "jobs"
    options = ("--array=0-1", "--cpus-per-task=1", f"--output={tmp_path}/job-%a.log")
    job = slurm("sbatch", "--parsable", *options, SCRIPT, file, output, 1, " ".join(arms), *given).stdout.strip()
    log = output / "runs" / "baseline" / "seed-1" / "train" / "train.log"
    wait_until(lambda: log.exists() and '"num_updates": "10"' in log.read_text(), log=tmp_path / "job-0.log")
    slurm("scancel", "--signal=USR2", f"{job}_0")

    def states() -> set[str]:
        return set(slurm("squeue", "--noheader", "--states=all", "--format=%T", "--jobs", job).stdout.split())

    wait_until(lambda: not states() & {"PENDING", "RUNNING", "COMPLETING"}, log=tmp_path / "job-0.log")
    assert states() == {"COMPLETED"}, (tmp_path / "job-0.log").read_text()
    assert "Restarts=1 " in slurm("scontrol", "show", "job", f"{job}_0").stdout
    trained = log.stat().st_mtime_ns
    run_command(truneg("experiment", file, "--output", output, "--set", "seeds=1", *given))
    assert log.stat().st_mtime_ns == trained
    assert all(arm in (output / "comparison.md").read_text() for arm in arms)
    here = tmp_path / "here"
    run_command(truneg("experiment", file, "--output", here, "--only", "baseline", "--set", "seeds=1", *given))
    model = Path("runs", "baseline", "seed-1", "train", "model.pt")
    assert largest_difference(parameters(output / model), parameters(here / model)) == 0


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
