"""An output folder says how it was trained, and a run that continues with other options says so."""

from __future__ import annotations

import json

import pytest
from support.hf_models import one_update, small_model, trainer

pytest.importorskip("accelerate", reason="transformers' Trainer needs accelerate (pip install 'truneg_fairseq[hf]')")

from truneg_fairseq.hf import TrueNegativeArguments


def test_every_folder_with_weights_has_the_options(tmp_path):
    small_model("BertForMaskedLM").save_pretrained(tmp_path / "base")
    model = small_model("BertForMaskedLM").from_pretrained(tmp_path / "base")
    options = TrueNegativeArguments(sr_sent_weight=0.5)
    settings = {"max_steps": 2, "save_steps": 1, "save_strategy": "steps", "learning_rate": 3e-4}
    machine = trainer(model, tmp_path, options, **settings, gradient_accumulation_steps=2)
    machine.train()
    machine.save_model()
    machine.create_model_card(tags=["mine"])
    out = tmp_path / "out"
    for folder, updates in ((out / "checkpoint-1", 1), (out / "checkpoint-2", 2), (out, 2)):
        record = json.loads((folder / "true_negatives.json").read_text())
        assert record["true_negatives"]["sr_sent_weight"] == 0.5
        assert record["base_model"] == str(tmp_path / "base")
        assert record["data"] == {"train": "6 examples", "validation": "3 examples"}
        assert record["training"]["updates"] == updates
        assert record["training"]["sequences_in_an_update"] == 4
    card = (out / "README.md").read_text()
    for part in ("continues `base`, on 6 examples.", "`sr_sent_weight` 0.5", "Learning rate: 0.0003, linear"):
        assert part in card
    for part in ("4 sequences, of up to 14 tokens", "Updates: 2", "Zhang, Zhuosheng", "- mine", "train_batch_size: 2"):
        assert part in card
    assert str(tmp_path) not in card
    assert "More information needed" not in card
    assert "unknown dataset" not in card


@pytest.mark.parametrize(("weight", "lines"), [(0.5, 0), (0.0, 1)])
def test_other_options_of_a_resumed_run_are_named(weight, lines, tmp_path, caplog):
    settings = {"save_strategy": "steps", "save_steps": 1}
    trainer(
        small_model("BertForMaskedLM"), tmp_path, TrueNegativeArguments(sr_sent_weight=0.5), max_steps=1, **settings
    ).train()
    options = TrueNegativeArguments(sr_sent_weight=weight)
    machine = trainer(small_model("BertForMaskedLM"), tmp_path, options, max_steps=2, **settings)
    machine.train(resume_from_checkpoint=True)
    assert machine.state.global_step == 2
    found = [message for message in caplog.messages if "true-negative options" in message]
    assert len(found) == lines
    assert all("checkpoint-1: " in line and line.endswith("options: sr_sent_weight 0.5 -> 0.0") for line in found)


def test_electras_card_names_its_data_and_weight(tmp_path):
    machine, _ = one_update("electra", tmp_path, {"discriminator_weight": 25.0}, save_strategy="steps", save_steps=1)
    machine.data["train"] = "novels"
    machine.create_model_card()
    card = (tmp_path / "out" / "README.md").read_text()
    assert "It was trained from random weights, on novels." in card
    assert "`discriminator_weight` 25.0" in card
