"""An update is the same however its texts are split: over micro-batches, and over processes."""

from __future__ import annotations

import sys

import pytest
import torch
from support.commands import REPOSITORY, run_command
from support.hf_models import assert_same, losses, one_update, weights

CASES = {
    "hc": {"hc_weight": 1.0},
    "hc_detector": {"hc_weight": 1.0, "hc_detector": "table+embedding", "hc_threshold": 0.0},
    "sr_word": {"sr_word_weight": 0.5},
    "sr_sent": {"sr_sent_weight": 20.0},
    "synonyms": {"soft_targets": "table:flat=0.1"},
    "uniform": {"soft_targets": "uniform=0.1"},
    "temperature": {"softmax_temperature": 2.0},
    "electra": {"hc_weight": 1.0},
    "electra_sr_sent": {"sr_sent_weight": 20.0},
    "electra_ignore": {"discriminator_false_negatives": "ignore"},
}


def update_of(name, folder, **settings):
    kind = "electra" if name.startswith("electra") else "BertForMaskedLM"
    return one_update(kind, folder, CASES[name], **settings)[0]


def assert_same_update(log, parameters, whole, expected):
    for rate in expected.keys() - {"step", "epoch"}:
        assert log[rate] == pytest.approx(expected[rate], rel=1e-4, abs=1e-4), rate
    assert_same(parameters, weights(whole), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_micro_batches_are_one_batch(name, tmp_path):
    """One of the four has no masked token, and all have other lengths."""
    whole = update_of(name, tmp_path, per_device_train_batch_size=4)
    split = update_of(name, tmp_path, per_device_train_batch_size=1, gradient_accumulation_steps=4, seed=7)
    first, second = whole.state.log_history[0], split.state.log_history[0]
    assert second.keys() == first.keys()
    assert_same_update(second, weights(split), whole, first)
    assert [second["loss"], split.state.log_history[-1]["train_loss"]] == pytest.approx([first["loss"]] * 2, rel=1e-6)
    if name == "hc":
        assert first["hc_pred"] > 0
        assert {"eval_hc_pred", "eval_hc_iter"} <= split.evaluate(split.train_dataset).keys()


def test_an_update_without_masked_tokens_is_no_loss_of_0(tmp_path):
    """``mlm_loss`` is a mean over masked tokens; ``loss`` is Trainer's mean over the updates, one of which has none."""
    options = {"per_device_train_batch_size": 1, "max_steps": 4, "learning_rate": 0.0}
    machine, _ = one_update("BertForMaskedLM", tmp_path, {}, **options, logging_strategy="epoch")
    each, _ = one_update("BertForMaskedLM", tmp_path, {}, **options)
    assert sum("mlm_loss" not in log for log in each.state.log_history) == 2  # the update without, and the summary
    log, last = machine.state.log_history
    assert log["mlm_loss"] > log["loss"] == pytest.approx(sum(losses(each)) / 4)
    assert last["train_loss"] == log["loss"]


def evaluated(machine):
    """The losses of ten texts, whose last batch is not full, and of three, which are less than a batch."""
    texts = machine.train_dataset * 3
    return {f"loss of {count}": machine.evaluate(texts[:count])["eval_loss"] for count in (10, 3)}


UPDATES = """
import sys
from pathlib import Path
import torch
sys.path.insert(0, sys.argv[2])
from hf.test_accumulation import CASES, evaluated, update_of
from support.hf_models import weights

folder = Path(sys.argv[1])
for name in CASES:
    machine = update_of(name, folder, per_device_train_batch_size=1, gradient_accumulation_steps=2)
    assert machine.args.world_size == 2
    log = {**machine.state.log_history[0], **evaluated(machine)}
    if machine.args.process_index == 0:
        torch.save((log, weights(machine)), folder / f"{name}.pt")
"""


@pytest.mark.slow
def test_two_processes_train_and_evaluate_as_one(tmp_path):
    """In an evaluation accelerate fills the last batch with texts that were there before."""
    script = tmp_path / "updates.py"
    script.write_text(UPDATES, encoding="utf-8")
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", 2, "--standalone"]
    run_command([*launch, script, tmp_path, REPOSITORY / "tests"])
    for name in CASES:
        whole = update_of(name, tmp_path, per_device_train_batch_size=4)
        log, parameters = torch.load(tmp_path / f"{name}.pt", weights_only=True)
        assert_same_update(log, parameters, whole, {**whole.state.log_history[0], **evaluated(whole)})
