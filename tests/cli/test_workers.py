"""Several data-parallel workers on CPUs: torchrun, a scheduler, hydra under torchrun."""

from __future__ import annotations

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


def test_two_workers_equal_one_with_two_micro_batches(data_bin, tmp_path):
    """As under a scheduler, with every objective; ELECTRA's noise is in tests/criterions/test_electra.py."""
    common = (*EVERYTHING, *NO_DROPOUT, "--max-update", 5)
    expected = run_command(training(data_bin, tmp_path / "one", *common, "--update-freq", 2)).stdout
    found = run_on_two_workers(training(data_bin, tmp_path / "two", *common, "--ddp-backend", "legacy_ddp"), tmp_path)
    assert largest_difference(*(parameters(tmp_path / name / "checkpoint_last.pt") for name in ("one", "two"))) < 1e-6
    ends = [logged(output, "train")[-1] for output in (found, expected)]
    for rate in RATES:
        assert float(ends[0][f"train_{rate}"]) == pytest.approx(float(ends[1][f"train_{rate}"]), abs=2e-3), rate
    assert {f"valid_{rate}" for rate in RATES} <= logged(expected, "valid")[-1].keys()
    steps, expected_steps = logged(found, "train_inner"), logged(expected, "train_inner")
    assert len(steps) == len(expected_steps) == 5, "one job of two workers, not two jobs"
    for step, other in zip(steps, expected_steps, strict=True):
        assert all(step[rate] == other[rate] for rate in ("accuracy", "hc_pred", "hc_iter"))


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
