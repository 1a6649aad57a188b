"""Detectors and soft targets through fairseq-train: with ELECTRA and without, killed and resumed, on two workers."""

from __future__ import annotations

import math
import re
from types import SimpleNamespace

import pytest
from support.cli_runs import (
    NO_DROPOUT,
    kill_after_43_updates,
    largest_difference,
    logged,
    parameters,
    run_on_two_workers,
    training,
)
from support.commands import PLUGIN, REPOSITORY, fairseq_train, run_command
from support.electra import ELECTRA_MODEL, ELECTRA_TRAINING

# Small models are near to nothing: with threshold 0 every mistake is corrected a little.
DETECTOR = ("--hc-weight", 1, "--hc-detector", "embedding+context", "--hc-graded", "--hc-threshold", 0)
MASKED_LM = ("--criterion", "masked_lm_true_neg", *DETECTOR, "--sr-sent-weight", 0.1, "--target-smoothing", "self")
ELECTRA = (*DETECTOR, "--discriminator-false-negatives", "soft", "--target-smoothing", "synonyms")
RATES = ("loss", "objective", "hc_pred", "hc_iter", "hc_acceptance")


def electra(data, save, *arguments):
    log = ("--log-format", "json", "--log-interval", 1, "--no-epoch-checkpoints", "--data-buffer-size", 0)
    options = (*ELECTRA_TRAINING, *ELECTRA_MODEL, *log, "--save-dir", save)
    return fairseq_train(data, "--user-dir", PLUGIN, *options, *arguments)


STYLES = {
    "masked_lm": (training, (*MASKED_LM, "--tokenization", "wordpiece")),
    "electra": (electra, (*ELECTRA, "--tokenization", "wordpiece", "--total-num-update", 100)),
}


@pytest.mark.slow
@pytest.mark.parametrize("style", STYLES)
def test_killed_and_resumed_training_is_bit_identical(style, data_bin, tmp_path):
    train, options = STYLES[style]
    options = (*options, "--save-interval-updates", 40, "--disable-validation")
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    first = run_command(train(data_bin, whole, *options, "--max-update", 50))
    steps = logged(first.stdout, "train_inner")
    assert len(steps) == 50
    assert all(math.isfinite(float(step[rate])) for step in steps for rate in RATES)
    assert max(float(step["hc_pred"]) for step in steps) > 1
    assert 0 < max(float(step["hc_acceptance"]) for step in steps) < 100
    kill_after_43_updates(train(data_bin, broken, *options, "--max-update", 100_000), tmp_path / "log")
    resumed = run_command(train(data_bin, broken, *options, "--max-update", 50))
    assert 0 < int(re.search(r"Loaded checkpoint \S+ \(epoch \d+ @ (\d+) updates\)", resumed.stdout).group(1)) < 50
    assert largest_difference(parameters(whole / "checkpoint_last.pt"), parameters(broken / "checkpoint_last.pt")) == 0


@pytest.mark.slow
@pytest.mark.parametrize("style", STYLES)
def test_two_workers_equal_one_with_two_micro_batches(style, data_bin, tmp_path):
    train, options = STYLES[style]
    common = (*options, *NO_DROPOUT, "--disable-validation", "--max-update", 4)
    one = run_command(train(data_bin, tmp_path / "one", *common, "--update-freq", 2))
    two = run_on_two_workers(train(data_bin, tmp_path / "two", *common), tmp_path)
    saved = [parameters(tmp_path / name / "checkpoint_last.pt") for name in ("one", "two")]
    assert largest_difference(*saved) < 1e-5
    steps, expected = logged(two, "train_inner"), logged(one.stdout, "train_inner")
    assert len(steps) == len(expected) == 4
    for step, expected_step in zip(steps, expected, strict=True):
        for rate in RATES:
            assert float(step[rate]) == pytest.approx(float(expected_step[rate]), rel=2e-3, abs=2e-3), rate


OVERRIDE = re.compile(r"\+criterion\.(\w+)=(\S+?)`?(?= |$|`)")


def test_the_recipes_page_names_options_that_exist():
    from truneg_fairseq.criterions.config import ElectraConfig
    from truneg_fairseq.objective_factory import with_preset
    from truneg_fairseq.objectives.settings import ElectraSettings

    page = (REPOSITORY / "user_dir_examples" / "README.md").read_text()
    rows = page.partition("| objective | overrides |")[2].partition("\n\n")[0]
    found = [(1.0 if "objective=hc" in row else 0.0, OVERRIDE.findall(row)) for row in rows.splitlines()[2:]]
    assert len(found) >= 9
    for weight, overrides in found:
        assert {name for name, _ in overrides} <= ElectraConfig.__dataclass_fields__.keys()
        values = {name: {"true": True, "0": 0.0}.get(value, value) for name, value in overrides}
        ElectraSettings.of(with_preset(SimpleNamespace(**{"hc_weight": weight, **values}))).check()
