"""The example that continues a sentence encoder: sentence-transformers loads what it saves."""

from __future__ import annotations

import runpy
import sys

import pytest
import torch
from support.commands import REPOSITORY
from support.hf_models import LINES, small_model, small_tokenizer

FOLDER = REPOSITORY / "user_dir_examples" / "huggingface"


@pytest.mark.slow
def test_a_sentence_encoder_and_back(tmp_path, monkeypatch, capsys):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    pytest.importorskip("accelerate")
    import transformers

    small_model("BertForMaskedLM").bert.save_pretrained(tmp_path / "model")
    small_tokenizer().save_pretrained(tmp_path / "model")
    (tmp_path / "text").write_text("\n".join(LINES * 6), encoding="utf-8")
    flags = {
        "model_name_or_path": tmp_path / "model",
        "train_file": tmp_path / "text",
        "validation_file": tmp_path / "text",
        "output_dir": tmp_path / "out",
        "max_seq_length": 16,
        "learning_rate": 0.01,
        "max_steps": 2,
        "report_to": "none",
    }
    monkeypatch.setattr(sys, "argv", ["", *(f"--{name}={value}" for name, value in flags.items()), "--use_cpu"])
    monkeypatch.syspath_prepend(str(FOLDER))
    runpy.run_path(str(FOLDER / "sentence_encoder.py"), run_name="__main__")
    assert "held-out text: loss" in capsys.readouterr().out

    before = sentence_transformers.SentenceTransformer(str(tmp_path / "model"), device="cpu").encode(LINES)
    found = sentence_transformers.SentenceTransformer(str(tmp_path / "out" / "sentence_encoder"), device="cpu")
    assert abs(found.encode(LINES) - before).max() > 0.01
    # The mean of the states of the masked LM that was trained.
    trained = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "out").base_model.eval()
    for line, vector in zip(LINES, found.encode(LINES), strict=True):
        with torch.no_grad():
            states = trained(torch.tensor([small_tokenizer()(line)["input_ids"]])).last_hidden_state
        assert vector == pytest.approx(states.mean(1)[0].numpy(), abs=1e-5)


def test_a_new_head_passes_on_the_states(tmp_path, monkeypatch):
    pytest.importorskip("accelerate")
    monkeypatch.syspath_prepend(str(FOLDER))
    train = runpy.run_path(str(FOLDER / "train.py"))
    small_model("BertForMaskedLM").bert.save_pretrained(tmp_path / "encoder")
    small_model("BertForMaskedLM").save_pretrained(tmp_path / "whole")
    for name, new in (("encoder", True), ("whole", False)):
        small_tokenizer().save_pretrained(tmp_path / name)
        model, _ = train["load"](train["ScriptArguments"](model_name_or_path=str(tmp_path / name)))
        dense = model.cls.predictions.transform.dense
        assert torch.equal(dense.weight, torch.eye(32)) == new
        assert bool(dense.bias.any()) != new
