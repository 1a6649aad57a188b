"""Trainings and data under a real SLURM of one node on loopback, of Debian's packages slurm-wlm and munge; it starts as
root in a second.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.cli_runs import NO_DROPOUT, RECIPES, assert_one_line, largest_difference, parameters, training
from support.commands import command_environment, run_command, start_command, truneg
from support.glue_files import write_data, write_glue, write_model

from truneg_fairseq.results.result import read_results

pytestmark = pytest.mark.slow

LAUNCHER = ("--launcher", "slurm", "--slurm", "cpus-per-task=1")
UPDATES = ("--criterion", "masked_lm_hc", "--tokenization", "wordpiece", *NO_DROPOUT, "--max-update", 5)


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


def script(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(("#!/bin/bash", f"#SBATCH --output={path.with_suffix('.log')}", *lines, "")))
    return path


def wait_for(text: str, log: Path) -> None:
    deadline = time.monotonic() + 240
    while text not in (so_far := log.read_text() if log.exists() else ""):
        assert time.monotonic() < deadline, so_far[-3000:]
        time.sleep(0.02)


def line(command: list[object]) -> str:
    return shlex.join(map(str, command))


def test_the_tasks_of_srun_join_one_training(slurm, data_bin, tmp_path):
    """On CPUs by torchrun: a task is one of two nodes."""
    nodes = ("--nnodes", 2, "--nproc_per_node", 1, "--rdzv_backend", "c10d", "--rdzv_id", "one")
    torchrun = [sys.executable, "-m", "torch.distributed.run", *nodes, "--rdzv_endpoint", f"localhost:{free_port()}"]
    command = [*torchrun, *training(data_bin, tmp_path / "run", *UPDATES)[1:]]
    slurm.run("srun", "--ntasks=2", *command)
    run_command(training(data_bin, tmp_path / "one", *UPDATES, "--update-freq", 2))
    ends = [parameters(tmp_path / name / "checkpoint_last.pt") for name in ("run", "one")]
    assert largest_difference(*ends) < 1e-6


def test_an_array_of_jobs_binarizes_the_same_bytes(slurm, tmp_path):
    (tmp_path / "text").mkdir()
    for number in range(3):
        (tmp_path / "text" / f"{number}.txt").write_text(f"a cat sat {number}\n\nthe dog\n" * 20)
    (tmp_path / "vocab.txt").write_text("\n".join("[PAD] [UNK] [CLS] [SEP] [MASK] a the cat dog sat 0 1 2".split()))

    def binarize(output: str) -> list[object]:
        return truneg(
            *("data", "binarize", "--train", tmp_path / "text", "--tokenizer", tmp_path / "vocab.txt"),
            *("--output-dir", tmp_path / output, "--workers", 1),
        )

    run_command(binarize("local"))
    shard = '${SLURM_ARRAY_TASK_ID:+--shard "$SLURM_ARRAY_TASK_ID/2"}'
    jobs = script(tmp_path / "binarize.sh", f"{line(binarize('array'))} {shard}")
    array = slurm.submit(jobs, "--array=1-2")
    assert slurm.wait(slurm.submit(jobs, f"--dependency=afterok:{array}")) == "COMPLETED"
    for name in ("train.bin", "train.idx", "dict.txt"):
        assert (tmp_path / "array" / name).read_bytes() == (tmp_path / "local" / name).read_bytes()


def test_a_preempted_training_is_requeued_and_ends_with_the_same_weights(slurm, data_bin, tmp_path):
    updates = (*UPDATES[:-1], 60)
    command = line(["srun", *training(data_bin, tmp_path / "run", *updates)])
    requeue = '[ $? -eq 75 ] && scontrol requeue "$SLURM_JOB_ID"'
    job = slurm.submit(script(tmp_path / "job.sh", "#SBATCH --requeue --open-mode=append", f"{command} ; {requeue}"))
    wait_for('"num_updates": "10"', tmp_path / "job.log")
    slurm.run("scancel", "--signal=USR1", f"{job}.0")
    wait_for('"num_updates": "60"', tmp_path / "job.log")
    slurm.wait(job)
    assert "Restarts=1 " in slurm.run("scontrol", "show", "job", job).stdout
    run_command(training(data_bin, tmp_path / "undisturbed", *updates))
    ends = [parameters(tmp_path / name / "checkpoint_last.pt") for name in ("run", "undisturbed")]
    assert largest_difference(*ends) == 0


def test_slurm_jobs_are_submitted_once_survive_kills_and_equal_local_runs(slurm, data_bin, tmp_path):
    def experiment(output: str, *options: object) -> list[object]:
        values = (f"paths.data={data_bin}", "seeds=1", "training.log-interval=1")
        common = ("--cpu", "--set", *values, "--output", tmp_path / output)
        return truneg("experiment", RECIPES.parent / "experiments" / "tiny.yaml", *common, *options)

    on_slurm = experiment("jobs", *LAUNCHER)
    train = tmp_path / "jobs" / "runs" / "baseline" / "seed-1" / "train"
    first = start_command(on_slurm, tmp_path / "out", tmp_path / "err", fresh=True, env=slurm.environment)
    wait_for('"num_updates": "3"', train / "train.log")
    first.kill()  # the jobs go on
    first.wait()
    listed = [each.split() for each in slurm.run("squeue", "--noheader", "--format=%A %j").stdout.splitlines()]
    job = next(number for number, name in listed if name.startswith("baseline"))
    slurm.run("scancel", "--batch", "--signal=USR2", job)
    slurm.run(*on_slurm)
    submitted = slurm.run("squeue", "--noheader", "--states=all", "--format=%j").stdout
    assert submitted.count("baseline-seed-1") == submitted.count("synonyms-seed-1") == 1
    assert "Restarts=1 " in slurm.run("scontrol", "show", "job", job).stdout
    run_command(experiment("here"))
    for arm in ("baseline", "synonyms"):
        ends = [
            parameters(tmp_path / name / "runs" / arm / "seed-1" / "train" / "model.pt") for name in ("jobs", "here")
        ]
        assert largest_difference(*ends) == 0


def test_glue_in_a_job_gives_the_local_scores(slurm, tmp_path):
    data = write_data(tmp_path / "data")
    prepared, model = write_glue(tmp_path / "glue", data, ["RTE"]), write_model(tmp_path, data)

    def glue(output: str, *options: object) -> list[object]:
        given = (model, "--prepared", prepared, "--output", tmp_path / output, "--tasks", "RTE")
        return truneg("finetune", *given, "--seeds", 1, "--epochs", 1, "--max-length", 16, "--cpu", *options)

    slurm.run(*glue("job", *LAUNCHER))
    run_command(glue("here"))
    (job,), (here,) = (read_results([tmp_path / name / "results.jsonl"]) for name in ("job", "here"))
    assert (job.metrics, job.examples) == (here.metrics, here.examples)


def test_a_job_that_fails_is_named_with_the_end_of_its_log(slurm, data_bin, tmp_path):
    values = (f"paths.data={data_bin}", "seeds=1", "training.lr=no-number")
    experiment = RECIPES.parent / "experiments" / "tiny.yaml"
    command = truneg("experiment", experiment, "--cpu", "--output", tmp_path / "run", "--set", *values)
    result = slurm.run(*command, "--only", "baseline", "--launcher", "slurm", check=False)
    assert_one_line(result, "baseline seed 1: job ")
    assert "no-number" in result.stderr
