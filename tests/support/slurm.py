"""A real SLURM of one node on loopback, of Debian's packages slurm-wlm and munge; it starts as root in a second."""

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

from .commands import command_environment, run_command

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

    def submit(self, script: Path, *options: object) -> str:
        """Submits a batch script and returns the number of its job."""
        return self.run("sbatch", "--parsable", *options, script).stdout.strip()

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


@contextlib.contextmanager
def running_slurm(folder: Path) -> Iterator[Slurm]:
    """Starts SLURM in a folder and stops it; skips the test where it cannot be started."""
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
