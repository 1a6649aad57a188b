"""Several data-parallel workers on CPUs: torchrun, a scheduler, hydra under torchrun."""

from __future__ import annotations

import shutil

import pytest
from support.cli_runs import (
    EVERYTHING,
    NO_DROPOUT,
    RATES,
    TORCHRUN,
    assert_one_line,
    hydra,
    largest_difference,
    logged,
    parameters,
    run_on_two_workers,
    training,
)
from support.commands import run_command


def sums(output: str) -> dict[str, float]:
    return {key: float(logged(output, "train")[-1][f"train_{key}"]) for key in RATES}


FIVE_UPDATES = (*EVERYTHING, *NO_DROPOUT, "--max-update", 5)


@pytest.fixture(scope="module")
def one_worker(data_bin, tmp_path_factory):
    """Five updates of one worker with two micro-batches each."""
    save = tmp_path_factory.mktemp("one")
    result = run_command(training(data_bin, save, *FIVE_UPDATES, "--update-freq", 2))
    return result.stdout, parameters(save / "checkpoint_last.pt")


def assert_equals_one_worker(stdout, save, one_worker):
    output, expected = one_worker
    assert largest_difference(parameters(save / "checkpoint_last.pt"), expected) < 1e-6
    actual_sums, expected_sums = sums(stdout), sums(output)
    for rate in ("accuracy", "hc_pred", "hc_iter"):
        assert actual_sums[rate] == expected_sums[rate], rate
    for rate in ("loss", "objective", "sr", "kl"):
        assert actual_sums[rate] == pytest.approx(expected_sums[rate], abs=2e-3), rate
    steps, expected_steps = logged(stdout, "train_inner"), logged(output, "train_inner")
    assert len(steps) == len(expected_steps) == 5, "one job of two workers, not two jobs"
    for step, expected_step in zip(steps, expected_steps, strict=True):
        assert all(step[rate] == expected_step[rate] for rate in ("accuracy", "hc_pred", "hc_iter"))


@pytest.mark.slow
def test_two_workers_of_torchrun_equal_one_with_two_micro_batches(one_worker, binarized, wordnet, tmp_path):
    """On data without a table."""
    data = shutil.copytree(binarized, tmp_path / "data", ignore=shutil.ignore_patterns("*synonyms*"))
    command = training(data, tmp_path / "run", *FIVE_UPDATES, "--ddp-backend", "pytorch_ddp")
    result = run_command([*TORCHRUN, *command[1:]])
    assert_equals_one_worker(result.stdout, tmp_path / "run", one_worker)


def test_two_workers_of_a_scheduler_equal_one_with_two_micro_batches(one_worker, data_bin, tmp_path):
    command = training(data_bin, tmp_path, *FIVE_UPDATES, "--ddp-backend", "legacy_ddp")
    assert_equals_one_worker(run_on_two_workers(command, tmp_path), tmp_path, one_worker)


def test_workers_on_cpus_are_torchruns(data_bin, tmp_path):
    command = training(data_bin, tmp_path, *EVERYTHING, "--max-update", 1, "--distributed-world-size", 2)
    assert_one_line(run_command(command, check=False), "--distributed-world-size 2: expected torchrun, which starts")
    assert not list(tmp_path.iterdir())


def test_a_worker_leaves_its_group_when_it_has_ended(data_bin, tmp_path):
    meeting = ("--distributed-no-spawn", "--distributed-init-method", f"file://{tmp_path}/meeting")
    command = training(data_bin, tmp_path / "run", "--criterion", "masked_lm", "--max-update", 1, *meeting)
    look = (
        "import fairseq_cli.train as train, torch.distributed as group\n"
        "train.main = lambda cfg, main=train.main: (main(cfg), print('before:', group.is_initialized()))\n"
        "train.cli_main(); print('after:', group.is_initialized())"
    )
    said = run_command([command[0], "-c", look, *command[3:], "--distributed-rank", 0]).stdout.splitlines()
    assert [line for line in said if line.startswith(("before", "after"))] == ["before: True", "after: False"]


@pytest.mark.slow
def test_hydra_under_torchrun(data_bin, tmp_path):
    """hydra loads plugins after it has looked for a launcher: rank and rendezvous are given as overrides."""
    overrides = (
        "distributed_training.distributed_world_size=2 distributed_training.distributed_rank=$RANK "
        "distributed_training.distributed_init_method=env:// distributed_training.distributed_no_spawn=true "
        "distributed_training.distributed_backend=gloo optimization.max_update=2"
    )
    command = " ".join(map(str, hydra(data_bin, tmp_path, "sr_word")))
    result = run_command([*TORCHRUN, "--no_python", "bash", "-c", f"{command} {overrides}"], cwd=tmp_path)
    assert (result.stdout + result.stderr).count("[train_inner]") == 2, "one job of two workers, not two jobs"


COUNTED = """
import sys, fairseq, truneg_fairseq.synonyms.build as build_module
build = build_module.new_table
def counted(*arguments):
    open(sys.argv[1] + "/builds", "a").write("built\\n")
    return build(*arguments)
build_module.new_table = counted
from fairseq_cli.train import cli_main; cli_main()
"""


@pytest.mark.slow
def test_one_of_several_workers_builds_the_table(binarized, wordnet, tmp_path):
    data = tmp_path / "data-bin"
    shutil.copytree(binarized, data, ignore=shutil.ignore_patterns("*synonyms*"))
    command = training(data, tmp_path / "run", *EVERYTHING, "--disable-validation", "--max-update", 1)
    run_on_two_workers([command[0], "-c", COUNTED, *command[3:]], tmp_path)
    assert (data / "builds").read_text() == "built\n"
    assert (data / "synonyms.npz").exists()
