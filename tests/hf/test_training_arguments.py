"""What people set in TrainingArguments beside the objective: the update is that of fp32 on a list of examples."""

from __future__ import annotations

import pytest
import torch
from support.hf_models import one_update

pytest.importorskip("accelerate", reason="transformers' Trainer needs accelerate (pip install 'truneg_fairseq[hf]')")

OPTIONS = {
    "BertForMaskedLM": {"sr_word_weight": 0.5, "nearest_targets": 0.2},
    "electra": {"hc_weight": 1.0, "sr_sent_weight": 20.0, "nearest_targets": 0.2},
}


def assert_close(found, expected, tolerance):
    logs = [machine.state.log_history[0] for machine, _ in (expected, found)]
    assert logs[1]["loss"] == pytest.approx(logs[0]["loss"], rel=tolerance)
    for (name, one), (_, other) in zip(expected[1].named_parameters(), found[1].named_parameters(), strict=True):
        torch.testing.assert_close(other, one, rtol=tolerance, atol=tolerance * one.abs().max().item(), msg=name)


@pytest.mark.parametrize("kind", OPTIONS)
def test_bf16_autocast(kind, tmp_path, monkeypatch):
    """Half precision rounds the model's products, not the objective: losses agree to bf16's 8 bits."""
    inside = []
    for module in ("trainer", "electra"):
        used = lambda model: inside.append(torch.is_autocast_enabled("cpu")) or model.get_input_embeddings().weight  # noqa: E731
        monkeypatch.setattr(f"truneg_fairseq.hf.{module}.embeddings_in_use", used)
    whole = one_update(kind, tmp_path, OPTIONS[kind], per_device_train_batch_size=4)
    half = one_update(kind, tmp_path, OPTIONS[kind], bf16=True, per_device_train_batch_size=4)
    assert inside and not any(inside)
    assert all(parameter.dtype == torch.float32 for parameter in half[1].parameters())
    assert half[0].state.log_history[0]["loss"] != whole[0].state.log_history[0]["loss"]
    assert_close(half, whole, 2e-2)
