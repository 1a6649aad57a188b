"""Trainings and data under a real SLURM of one node."""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path

import pytest
from support.cli_runs import NO_DROPOUT, RECIPES, assert_one_line, largest_difference, parameters, training
from support.commands import run_command, start_command, truneg
from support.glue_files import write_data, write_glue, write_model
from support.slurm import free_port, running_slurm

from truneg_fairseq.results.result import read_results

pytestmark = pytest.mark.slow

LAUNCHER = ("--launcher", "slurm", "--slurm", "cpus-per-task=1")
UPDATES = ("--criterion", "masked_lm_hc", "--tokenization", "wordpiece", *NO_DROPOUT, "--max-update", 5)


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    with running_slurm(tmp_path_factory.mktemp("slurm")) as slurm:
        yield slurm


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
