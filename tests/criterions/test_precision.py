"""Losses and gradients in fp16 and bf16 against fp32, through the real task, model and criterions."""

from __future__ import annotations

import pytest
import torch
from support.precision import BOUNDS, assert_close_to_fp32
from support.trainings import acceptance, batches, build

WORDPIECE = ("--tokenization", "wordpiece")
TRUE_NEG = ("--criterion", "masked_lm_true_neg")
OBJECTIVES = {
    "masked_lm": ("--criterion", "masked_lm"),
    "hc_sr_word_sr_sent": (*TRUE_NEG, "--hc-weight", 1, "--sr-word-weight", 1, "--sr-sent-weight", 1, *WORDPIECE),
    "detectors": (
        *(*TRUE_NEG, "--hc-weight", 1, "--hc-detector", "embedding+context", "--hc-threshold", 0),
        *("--hc-acceptance-model", "embedding_context.json"),
    ),
    "synonym_targets": (*TRUE_NEG, "--synonym-targets", "0.1", *WORDPIECE),
}


@pytest.mark.parametrize("dtype", BOUNDS, ids=["fp16", "bf16"])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_half_precision_is_close_to_fp32(name, dtype, data_bin, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    acceptance(tmp_path, "embedding", "context")

    def made():
        _, task, model, criterion = build(data_bin, *OBJECTIVES[name], "--dropout", 0, "--attention-dropout", 0)
        # Random logits are nearly alike, and rounding would choose the predictions.
        torch.nn.init.normal_(model.encoder.lm_head.bias, generator=torch.Generator().manual_seed(1))
        return model, criterion, batches(task, 1)[0]

    assert_close_to_fp32(made, dtype)
