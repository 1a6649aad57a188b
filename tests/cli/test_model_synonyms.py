"""--synonym-source model through the real commands: workers, checkpoints, hydra."""

from __future__ import annotations

import re
import shutil

import pytest
from support.cli_runs import (
    NO_DROPOUT,
    assert_one_line,
    kill_after_43_updates,
    largest_difference,
    logged,
    parameters,
    run_on_two_workers,
    training,
)
from support.commands import run_command

# Untrained embeddings of 32 numbers have many neighbours at so low a threshold.
MODEL = (
    *("--criterion", "masked_lm_hc", "--tokenization", "wordpiece", "--synonym-source", "model"),
    *("--model-synonyms-threshold", 0.05, "--model-synonyms-warmup", 2),
)
RATES = ("accuracy", "hc_pred", "hc_iter", "model_pairs")


def numbers(output: str, name: str, part: str = "train_inner") -> list[float]:
    return [float(line[name]) for line in logged(output, part)]


@pytest.mark.slow
def test_nothing_but_the_model_is_needed(binarized, tmp_path):
    data = tmp_path / "data-bin"
    shutil.copytree(binarized, data, ignore=shutil.ignore_patterns("*synonyms*"))
    command = training(data, tmp_path / "run", *MODEL, "--model-synonyms-every", 3, "--max-update", 8)
    result = run_command(command, env={"NLTK_DATA": str(tmp_path)}, fresh=True)
    pairs = numbers(result.stdout, "model_pairs")
    assert pairs[:4] == [0, 0, 0, 0], "two updates of warm-up, and two of the three shards"
    assert min(pairs[4:]) > 10
    assert len(set(pairs[4:7])) == 1, "three updates with one table"
    assert pairs[7] != pairs[4]
    assert numbers(result.stdout, "valid_model_pairs", "valid")[-1] == pairs[7]
    assert set(numbers(result.stdout, "hc_pred")[:4]) == {0.0}
    assert max(numbers(result.stdout, "hc_pred")) > 0
    assert not list(data.glob("*synonyms*"))


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["legacy_ddp", "pytorch_ddp"])
def test_two_gloo_workers_equal_one_with_two_micro_batches(backend, binarized, tmp_path):
    options = (*MODEL, *NO_DROPOUT, "--model-synonyms-every", 2, "--max-update", 8)
    one = run_command(training(binarized, tmp_path / "one", *options, "--update-freq", 2))
    command = training(binarized, tmp_path / "two", *options, "--ddp-backend", backend)
    two = run_on_two_workers(command, tmp_path)
    files = [tmp_path / name / "checkpoint_last.pt" for name in ("one", "two")]
    assert largest_difference(*map(parameters, files)) < 1e-6
    for rate in RATES:
        assert numbers(two, rate) == numbers(one.stdout, rate), rate
    assert max(numbers(one.stdout, "hc_pred")) > 0


@pytest.mark.slow
def test_killed_and_resumed_training_is_bit_identical(binarized, tmp_path):
    """Tables are put in use at updates 26, 51 and 76: the kill is in the middle of one."""
    options = (*MODEL, "--model-synonyms-every", 25, "--save-interval-updates", 40, "--disable-validation")
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    expected = run_command(training(binarized, whole, *options, "--max-update", 80))
    kill_after_43_updates(training(binarized, broken, *options, "--max-update", 100_000), tmp_path / "log")
    resumed = run_command(training(binarized, broken, *options, "--max-update", 80))
    start = int(re.search(r"Loaded checkpoint \S+ \(epoch \d+ @ (\d+) updates\)", resumed.stdout).group(1))
    assert 26 < start < 76
    pairs = numbers(resumed.stdout, "model_pairs")
    assert pairs == numbers(expected.stdout, "model_pairs")[start:]
    assert pairs[0] > 0
    assert pairs[0] != pairs[-1], "another table was put in use after the resume"
    assert max(numbers(resumed.stdout, "hc_pred")) > 0
    assert largest_difference(parameters(whole / "checkpoint_last.pt"), parameters(broken / "checkpoint_last.pt")) == 0


@pytest.mark.slow
def test_two_workers_resume_with_the_table_of_the_first_one(binarized, tmp_path):
    options = (*MODEL, "--model-synonyms-every", 4, "--disable-validation")
    options = (*options, "--save-interval-updates", 8, "--max-update", 14)
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    expected = run_on_two_workers(training(binarized, whole, *options), tmp_path)
    resumed.mkdir()
    (whole / "checkpoint_1_8.pt").rename(resumed / "checkpoint_last.pt")
    result = run_on_two_workers(training(binarized, resumed, *options), tmp_path)
    assert "@ 8 updates" in result
    for rate in RATES:
        assert numbers(result, rate) == numbers(expected, rate)[8:], rate
    assert len(numbers(result, "hc_pred")) == 6
    assert max(numbers(result, "hc_pred")) > 0
    files = [folder / "checkpoint_last.pt" for folder in (whole, resumed)]
    assert largest_difference(*map(parameters, files)) == 0


@pytest.mark.slow
def test_other_settings_cannot_resume_but_start_from_the_weights(binarized, tmp_path):
    first = tmp_path / "first"
    run_command(training(binarized, first, *MODEL, "--model-synonyms-every", 2, "--max-update", 6))
    again = training(binarized, first, *MODEL, "--model-synonyms-every", 3, "--max-update", 9)
    result = run_command(again, check=False)
    assert_one_line(result, "checkpoint: its synonyms from the model have --model-synonyms-every 2, but found 3")
    start = ("--finetune-from-model", first / "checkpoint_last.pt", "--max-update", 6)
    result = run_command(training(binarized, tmp_path / "second", *MODEL, "--model-synonyms-every", 3, *start))
    pairs = numbers(result.stdout, "model_pairs")
    assert pairs[:4] == [0, 0, 0, 0], "the warm-up begins again"
    assert pairs[4] > 0
