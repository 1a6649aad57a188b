"""An output folder says how it was trained, and a run that continues says what differs."""

from __future__ import annotations

import json

import pytest
from support.hf_models import examples, small_model, small_tokenizer, trainer

pytest.importorskip("accelerate", reason="transformers' Trainer needs accelerate (pip install 'truneg_fairseq[hf]')")

from truneg_fairseq.hf import TrueNegativeArguments


def run(folder, steps, rows=None, base="", weight=0.5, resume=False, **settings):
    """A training of the folder; its trainer."""
    model = small_model("BertForMaskedLM")
    model.name_or_path = base
    options = TrueNegativeArguments(sr_sent_weight=weight)
    settings = {"save_strategy": "steps", "save_steps": 1, "max_steps": steps, **settings}
    machine = trainer(model, folder, options, **settings)
    machine.train_dataset = rows or machine.train_dataset
    machine.train(resume_from_checkpoint=resume)
    return machine


def test_every_folder_with_weights_has_its_options_base_model_and_data(tmp_path):
    run(tmp_path, 2, base="bert", gradient_accumulation_steps=2).save_model()
    for folder in ("out/checkpoint-1", "out/checkpoint-2", "out"):
        record = json.loads((tmp_path / folder / "true_negatives.json").read_text())
        assert record["true_negatives"]["sr_sent_weight"] == 0.5
        assert record["base_model"] == "bert"
        assert record["data"]["train"].startswith("6 examples (CRC ")
        assert record["training"]["sequences_in_an_update"] == 4
        assert record["masks"]["mlm_probability"] == 0.4


@pytest.mark.parametrize(
    ("changed", "lines"),
    [
        ({}, []),
        ({"weight": 0.0}, ["true_negatives.sr_sent_weight 0.5 -> 0.0"]),
        ({"base": "roberta"}, ["base_model bert -> roberta"]),
        ({"rows": examples(small_tokenizer())[::-1] * 2}, ["data.train 6 examples"]),
        ({"learning_rate": 0.1, "seed": 7}, ["training.learning_rate", "training.seed 42 -> 7"]),
        ({"per_device_train_batch_size": 1, "auto_find_batch_size": True}, []),
    ],
    ids=["nothing", "options", "base model", "data", "arguments", "batch size"],
)
def test_a_run_that_continues_names_what_differs(changed, lines, tmp_path, caplog):
    run(tmp_path, 1, base="bert", num_train_epochs=1)
    machine = run(tmp_path, 1, resume=True, **{"base": "bert", "num_train_epochs": 1, **changed})
    found = [message for message in caplog.messages if "the training continues with another" in message]
    assert len(found) == len(lines)
    assert all(any(f"another {line}" in message for message in found) for line in lines)
    machine.save_model()
    record = json.loads((tmp_path / "out" / "true_negatives.json").read_text())
    assert record["base_model"] == "bert", "whose weights went on"
    assert [change.partition("from checkpoint-1 on: ")[2] in found[0] for change in record["changes"][:1]] == [
        True
    ] * bool(lines)
