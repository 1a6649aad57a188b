"""What the commands tell: one-line errors, and the rates of checkpoints."""

from __future__ import annotations

import os

import pytest
from support.cli_runs import assert_one_line, logged, training
from support.commands import REPOSITORY, run_command, truneg

from truneg_fairseq.commands.main import main
from truneg_fairseq.results.result import examples_in
from truneg_fairseq.results.training_facts import QUANTITIES, find_runs, measured, updates_of


def test_errors_leave_fairseq_train_as_one_line(data_bin, tmp_path):
    command = training(data_bin, tmp_path, "--criterion", "masked_lm_sr_word", "--untie-weights-roberta")
    result = run_command(command, check=False)
    assert_one_line(result, "--sr-word-weight 1.0: the model does not tie its output to the embeddings")
    assert "Start iterating over samples" not in result.stdout, "it ends before a thread reads data"


@pytest.mark.slow
def test_an_old_torch_is_refused_in_one_line(tmp_path):
    record = tmp_path / "torch-2.4.1.dist-info" / "METADATA"  # what pip leaves beside an older release
    record.parent.mkdir()
    record.write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.4.1\n")
    old = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{REPOSITORY}"}
    line = "2.4.1: expected 2.6 or later; run pip install 'torch>=2.6'"
    training = truneg("train", "DATA-BIN", "--arch", "roberta_base")
    assert_one_line(run_command(training, check=False, env=old), f"torch {line}")
    assert f"WRONG  torch: {line}" in run_command(truneg("doctor"), check=False, env=old).stdout


def test_a_model_that_is_not_there_is_named(tmp_path):
    line = f"error: {tmp_path}: is a folder, expected a fairseq checkpoint; give a file such as"
    with pytest.raises(SystemExit, match=line):
        main(["evaluate", str(tmp_path), "--data", str(tmp_path), "--task", "held-out=valid"])
    with pytest.raises(SystemExit, match="error: NOPE: no such file"):
        main(["explain", "--checkpoint", "NOPE", "A car."])


def test_evaluate_measures_what_validation_logged(data_bin, tmp_path):
    hard_correction = ("--criterion", "masked_lm_hc", "--tokenization", "wordpiece")
    result = run_command(training(data_bin, tmp_path, *hard_correction, "--max-update", 40))
    valid = logged(result.stdout, "valid")[-1]
    output = tmp_path / "rates.jsonl"
    held_out = ("--data", data_bin, "--task", "held-out=valid", "--batch-size", 4)
    shown = run_command(truneg("evaluate", tmp_path / "checkpoint_last.pt", *held_out, "--results", output))
    (line,) = find_runs([str(tmp_path)])[0].results
    assert updates_of(line) == 40
    values = {name: measured(line, name) for name in QUANTITIES}
    for name, (value, low, high) in values.items():
        assert low - 1e-3 <= value <= high + 1e-3, name
    assert values["bits"][1] < values["bits"][2]
    logs = {"bits": "loss", "accuracy": "accuracy", "hc_pred": "hc_pred", "hc_iter": "hc_iter"}
    for name, log in logs.items():
        digits = 3 if name == "bits" else 4
        assert round(values[name][0], digits) == pytest.approx(float(valid[f"valid_{log}"]), abs=1e-4), name
    assert shown.stdout.count("people accept it with") == len(examples_in(line)) <= 10
    chances = [example.acceptance for example in examples_in(line)]
    assert chances == sorted(chances, reverse=True)
