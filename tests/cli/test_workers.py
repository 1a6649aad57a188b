"""Several data-parallel workers: spawned, torchrun, hydra under torchrun."""

from __future__ import annotations

import shutil

import pytest
from cli_runs import (
    EVERYTHING,
    LAUNCHES,
    NO_DROPOUT,
    RATES,
    TORCHRUN,
    hydra,
    largest_difference,
    logged,
    parameters,
    training,
)
from conftest import (
    run_command,
)


def sums(output: str) -> dict[str, float]:
    return {key: float(logged(output, "train")[-1][f"train_{key}"]) for key in RATES}


@pytest.fixture(scope="module")
def one_worker(data_bin, tmp_path_factory):
    """Five updates of one worker with two micro-batches each."""
    save = tmp_path_factory.mktemp("one")
    result = run_command(training(data_bin, save, *EVERYTHING, *NO_DROPOUT, "--max-update", 5, "--update-freq", 2))
    return result.stdout, parameters(save / "checkpoint_last.pt")


@pytest.mark.parametrize(
    ("launch", "backend"), [("spawned", "legacy_ddp"), ("torchrun", "pytorch_ddp"), ("spawned", "pytorch_ddp")]
)
def test_two_gloo_workers_equal_one_with_two_micro_batches(launch, backend, one_worker, data_bin, tmp_path):
    command = training(data_bin, tmp_path, *EVERYTHING, *NO_DROPOUT, "--max-update", 5, "--ddp-backend", backend)
    result = run_command(LAUNCHES[launch](command))
    output, expected = one_worker
    assert largest_difference(parameters(tmp_path / "checkpoint_last.pt"), expected) < 1e-6
    actual_sums, expected_sums = sums(result.stdout), sums(output)
    for rate in ("accuracy", "hc_pred", "hc_iter"):
        assert actual_sums[rate] == expected_sums[rate], rate
    for rate in ("loss", "objective", "sr", "kl"):
        assert actual_sums[rate] == pytest.approx(expected_sums[rate], abs=2e-3), rate
    steps, expected_steps = logged(result.stdout, "train_inner"), logged(output, "train_inner")
    assert len(steps) == len(expected_steps) == 5, "one job of two workers, not two jobs"
    for step, expected_step in zip(steps, expected_steps, strict=True):
        assert [step[r] for r in ("accuracy", "hc_pred", "hc_iter")] == [
            expected_step[r] for r in ("accuracy", "hc_pred", "hc_iter")
        ]


def test_two_workers_resume(data_bin, tmp_path):
    """What the first worker reads from the checkpoint reaches the second one with weights_only on."""
    command = training(data_bin, tmp_path, *EVERYTHING, "--distributed-world-size", 2, "--disable-validation")
    run_command([*command, "--max-update", 2])
    result = run_command([*command, "--max-update", 4])
    assert "@ 2 updates" in result.stdout
    assert len(logged(result.stdout, "train_inner")) == 2


def test_of_several_workers_one_builds_the_table(binarized, wordnet, tmp_path):
    data = tmp_path / "data-bin"
    shutil.copytree(binarized, data, ignore=shutil.ignore_patterns("*synonyms*"))
    command = training(data, tmp_path / "run", "--criterion", "masked_lm_hc", "--max-update", 1)
    result = run_command([*command, "--distributed-world-size", 2])
    assert (result.stdout + result.stderr).count("synonyms from wordnet: 100%") == 1


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
