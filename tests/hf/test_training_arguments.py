"""What people set in TrainingArguments beside the objective: the update is that of fp32 on a list of examples."""

from __future__ import annotations

import pytest
import torch
from support.hf_models import LINES, one_update, small_tokenizer

pytest.importorskip("accelerate", reason="transformers' Trainer needs accelerate (pip install 'truneg_fairseq[hf]')")

OPTIONS = {
    "BertForMaskedLM": {"sr_word_weight": 0.5, "target_smoothing_embedding": 0.2},
    "electra": {"hc_weight": 1.0, "sr_sent_weight": 20.0, "target_smoothing_embedding": 0.2},
}


class Stream(torch.utils.data.IterableDataset):
    """A dataset without a length, whose examples have a column that no model takes."""

    def __iter__(self):
        for line in (*LINES, "a mat"):
            yield {"input_ids": small_tokenizer()(line)["input_ids"], "text": line}


def assert_close(found, expected, tolerance):
    logs = [machine.state.log_history[0] for machine, _ in (expected, found)]
    assert logs[1]["loss"] == pytest.approx(logs[0]["loss"], rel=tolerance)
    for (name, one), (_, other) in zip(expected[1].named_parameters(), found[1].named_parameters(), strict=True):
        torch.testing.assert_close(other, one, rtol=tolerance, atol=tolerance * one.abs().max().item(), msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("kind", OPTIONS)
def test_a_stream_without_length_and_with_other_columns(kind, tmp_path):
    whole = one_update(kind, tmp_path, OPTIONS[kind], per_device_train_batch_size=4)
    stream = one_update(kind, tmp_path, OPTIONS[kind], rows=Stream(), per_device_train_batch_size=4)
    assert_close(stream, whole, 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("kind", OPTIONS)
def test_columns_that_are_kept_for_the_collator(kind, tmp_path):
    settings = {"per_device_train_batch_size": 4, "remove_unused_columns": False}
    whole = one_update(kind, tmp_path, OPTIONS[kind], per_device_train_batch_size=4)
    assert_close(one_update(kind, tmp_path, OPTIONS[kind], rows=list(Stream()), **settings), whole, 1e-6)


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
