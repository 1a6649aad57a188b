"""What the commands tell: one-line errors, fallbacks, and the rates of checkpoints."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from support.cli_runs import assert_one_line, logged, training
from support.commands import REPOSITORY, run_command, truneg

from truneg_fairseq.results.training_facts import find_runs


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
    saved = run_command(truneg("evaluate", tmp_path, "--data", tmp_path, "--task", "held-out=valid"), check=False)
    assert_one_line(saved, f"{tmp_path}: is a folder, expected a fairseq checkpoint; give a file such as")
    missing = run_command(truneg("explain", "--checkpoint", "NOPE", "A car."), check=False)
    assert_one_line(missing, "NOPE: no such file")


@pytest.mark.slow
def test_missing_wordnet_is_one_line_with_the_ways_to_get_it(binarized, tmp_path):
    data = tmp_path / "data-bin"
    shutil.copytree(binarized, data, ignore=shutil.ignore_patterns("*synonyms*"))
    nowhere = tmp_path / "python"  # an interpreter environment whose NLTK data folders do not exist
    hide = (
        "import nltk.data; nltk.data.path[:] = [p for p in nltk.data.path if p.startswith('/nowhere')]; "
        "import sys; sys.argv = sys.argv[1:]; from fairseq_cli.train import cli_main; cli_main()"
    )
    command = training(data, tmp_path / "run", "--criterion", "masked_lm_hc", "--max-update", 1)
    result = run_command(
        [command[0], "-c", hide, "fairseq-train", *command[3:]], check=False, env={"HOME": str(nowhere)}
    )
    assert_one_line(result, "WordNet: not found in NLTK's data folders; get it with 'truneg wordnet'")
    assert not list(data.glob("synonyms*"))


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="permissions")
def test_an_unwritable_data_folder_falls_back_to_the_cache(binarized, wordnet, tmp_path):
    """Root may write everywhere: the command gives that right up."""
    data, cache = tmp_path / "data-bin", tmp_path / "cache"
    shutil.copytree(binarized, data, ignore=shutil.ignore_patterns("*synonyms*"))
    data.chmod(0o555)
    command = training(data, tmp_path / "run", "--criterion", "masked_lm_hc", "--max-update", 1)
    drop = "import ctypes, os, sys; ctypes.CDLL(None).prctl(24, 1, 0, 0, 0); os.execv(sys.argv[1], sys.argv[1:])"
    try:
        result = run_command([sys.executable, "-c", drop, *command], env={"XDG_CACHE_HOME": str(cache)})
    finally:
        data.chmod(0o755)
    assert f"{data}: cannot be written (Permission denied); the synonym table belongs in {cache}" in result.stdout
    assert f"synonym table {cache}" in result.stdout
    assert not (data / "synonyms.npz").exists()
    assert len(list((cache / "truneg_fairseq").glob("wordnet-*.npz"))) == 1


def test_evaluate_measures_what_validation_logged(data_bin, tmp_path):
    hard_correction = ("--criterion", "masked_lm_hc", "--tokenization", "wordpiece")
    result = run_command(training(data_bin, tmp_path, *hard_correction, "--max-update", 40))
    valid = logged(result.stdout, "valid")[-1]
    output = tmp_path / "rates.jsonl"
    held_out = ("--data", data_bin, "--task", "held-out=valid", "--batch-size", 4)
    shown = run_command(truneg("evaluate", tmp_path / "checkpoint_last.pt", *held_out, "--results", output))
    (measured,) = find_runs([str(tmp_path)])[0].measurements
    assert measured.updates == 40
    for name, (value, low, high) in measured.values.items():
        assert low - 1e-3 <= value <= high + 1e-3, name
    assert measured.values["bits"][1] < measured.values["bits"][2]
    logs = {"bits": "loss", "accuracy": "accuracy", "hc_pred": "hc_pred", "hc_iter": "hc_iter"}
    for name, log in logs.items():
        digits = 3 if name == "bits" else 4
        assert round(measured.values[name][0], digits) == pytest.approx(float(valid[f"valid_{log}"]), abs=1e-4), name
    assert shown.stdout.count("people accept it with") == len(measured.examples) <= 10
    chances = [example.acceptance for example in measured.examples]
    assert chances == sorted(chances, reverse=True)


@pytest.mark.slow
def test_evaluate_compares_checkpoints_on_the_last_ones_samples(data_bin, tmp_path):
    """Converted weights know nothing of the training's sample length: the trained checkpoint decides for all."""
    stock = ("--criterion", "masked_lm", "--max-update", 3, "--disable-validation")
    run_command(training(data_bin, tmp_path / "long", *stock, "--tokens-per-sample", 48))
    run_command(training(data_bin, tmp_path / "short", *stock))
    long, short = (tmp_path / name / "checkpoint_last.pt" for name in ("long", "short"))

    def measured(*checkpoints: Path) -> list[dict]:
        output = tmp_path / f"rates-{len(checkpoints)}.jsonl"
        common = ("--data", data_bin, "--task", "held-out=valid", "--results", output)
        run_command(truneg("evaluate", *checkpoints, *common))
        return [json.loads(line) for line in output.read_text().splitlines()]

    together, alone = measured(long, short), measured(long)
    assert [record["model"] for record in together] == ["long", "short"]
    assert together[0]["metrics"]["bits"] != alone[0]["metrics"]["bits"]
    (tmp_path / "rates-1.jsonl").unlink()
    assert together[1] == measured(short)[0]
