"""An update is the same however its texts are split: over micro-batches, and over processes."""

from __future__ import annotations

import json
import sys

import pytest
import torch
from support.commands import REPOSITORY, run_command
from support.hf_models import one_update

pytest.importorskip("accelerate", reason="transformers' Trainer needs accelerate (pip install 'truneg_fairseq[hf]')")

MASKED_LM = {
    "hc": {"hc_weight": 1.0},
    "hc_detector": {"hc_weight": 1.0, "hc_detector": "table+embedding", "hc_threshold": 0.0},
    "sr_word": {"sr_word_weight": 0.5},
    "sr_sent": {"sr_sent_weight": 20.0},
    "synonyms": {"synonym_targets": 0.1, "synonym_shape": "uniform"},
    "uniform": {"uniform_targets": 0.1},
    "temperature": {"softmax_temperature": 2.0},
}
ELECTRA = {
    "electra": {"hc_weight": 1.0},
    "electra_sr_sent": {"sr_sent_weight": 20.0},
    "electra_ignore": {"discriminator_false_negatives": "ignore"},
}
CASES = [("BertForMaskedLM", options, name) for name, options in MASKED_LM.items()]
CASES += [("electra", options, name) for name, options in ELECTRA.items()]


@pytest.mark.parametrize(("kind", "options", "name"), CASES, ids=[name for _, _, name in CASES])
def test_micro_batches_are_one_batch(kind, options, name, tmp_path):
    """One of the four has no masked token, and all have other lengths."""
    whole, expected = one_update(kind, tmp_path, options, per_device_train_batch_size=4)
    split, found = one_update(
        kind, tmp_path, options, per_device_train_batch_size=1, gradient_accumulation_steps=4, seed=7
    )
    first, second = (next(log for log in each.state.log_history if "loss" in log) for each in (whole, split))
    assert second.keys() == first.keys()
    for rate in first.keys() - {"step", "epoch"}:
        assert second[rate] == pytest.approx(first[rate], rel=1e-4, abs=1e-4), rate
    assert second["loss"] == pytest.approx(first["loss"], rel=1e-6)
    assert split.state.log_history[-1]["train_loss"] == pytest.approx(first["loss"], rel=1e-6)
    if options == {"hc_weight": 1.0}:
        assert first["hc_pred"] > 0
        assert {"eval_hc_pred", "eval_hc_iter"} <= split.evaluate(split.train_dataset).keys()
    for (parameter, one), (_, other) in zip(expected.named_parameters(), found.named_parameters(), strict=True):
        torch.testing.assert_close(other, one, rtol=1e-5, atol=1e-6, msg=parameter)


def test_an_update_without_masked_tokens_is_no_loss_of_0(tmp_path):
    """``mlm_loss`` is a mean over masked tokens; ``loss`` is Trainer's mean over the updates, one of which has none."""
    options = {"per_device_train_batch_size": 1, "max_steps": 4, "learning_rate": 0.0}
    machine, _ = one_update("BertForMaskedLM", tmp_path, {}, **options, logging_strategy="epoch")
    each, _ = one_update("BertForMaskedLM", tmp_path, {}, **options)
    assert sum("mlm_loss" not in log for log in each.state.log_history) == 2  # the update without, and the summary
    log, last = machine.state.log_history
    losses = [log["loss"] for log in each.state.log_history if "loss" in log]
    assert log["mlm_loss"] > log["loss"] == pytest.approx(sum(losses) / 4)
    assert last["train_loss"] == log["loss"]


UPDATES = """
import json, sys
from pathlib import Path
import torch
sys.path.insert(0, sys.argv[2])
from support.hf_models import one_update

folder = Path(sys.argv[1])
for kind, options, name in json.loads(sys.argv[3]):
    machine, model = one_update(kind, folder, options, per_device_train_batch_size=1, gradient_accumulation_steps=2)
    log, loss = machine.state.log_history[0], machine.evaluate(machine.train_dataset * 3)["eval_loss"]
    assert machine.args.world_size == 2
    if machine.args.process_index == 0:
        torch.save(({**log, "evaluated": loss}, model.state_dict()), folder / f"{name}.pt")
"""


@pytest.mark.slow
def test_two_processes_train_and_evaluate_as_one(tmp_path):
    script = tmp_path / "updates.py"
    script.write_text(UPDATES, encoding="utf-8")
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", 2, "--standalone"]
    run_command([*launch, script, tmp_path, REPOSITORY / "tests", json.dumps(CASES)])
    for kind, options, name in CASES:
        whole, expected = one_update(kind, tmp_path, options, per_device_train_batch_size=4)
        log, weights = torch.load(tmp_path / f"{name}.pt", weights_only=True)
        first = {**whole.state.log_history[0], "evaluated": whole.evaluate(whole.train_dataset * 3)["eval_loss"]}
        for rate in first.keys() - {"step", "epoch"}:
            assert log[rate] == pytest.approx(first[rate], rel=1e-4, abs=1e-4), (name, rate)
        for parameter, one in expected.state_dict().items():
            torch.testing.assert_close(weights[parameter], one, rtol=1e-5, atol=1e-6, msg=f"{name}: {parameter}")
