"""electra_adam and electra_linear through fairseq-train and fairseq-hydra-train."""

from __future__ import annotations

import pytest
import torch
from support.cli_runs import content, hydra, largest_difference, logged, parameters, training
from support.commands import run_command

from truneg_fairseq.optim import electra_linear

ADAM = ("--optimizer", "electra_adam", "--adam-betas", "(0.9,0.999)")
SCHEDULE = ("--lr-scheduler", "electra_linear", "--warmup-ratio", 0.5, "--total-num-update", 8)
BERT = ("--criterion", "masked_lm", "--arch", "truneg_bert_tiny")
FP16 = ("--fp16", "--fp16-no-flatten-grads")
SAVING = ("--save-interval-updates", 3, "--max-update", 6, "--disable-validation")


def optimizer_state(checkpoint):
    return content(checkpoint)["last_optimizer_state"]


def assert_same(whole, resumed):
    assert largest_difference(parameters(whole), parameters(resumed)) == 0
    one, other = optimizer_state(whole), optimizer_state(resumed)
    assert one["param_groups"] == other["param_groups"]
    for index, state in one["state"].items():
        assert all(
            torch.equal(torch.as_tensor(value), torch.as_tensor(other["state"][index][key]))
            for key, value in state.items()
        )


def test_fairseq_train_resumes_exactly_in_fp16(binarized, tmp_path):
    """By layers, the rates of the schedule, and from the third update of the first run as from its own.

    Stock fairseq saves the 16 bits alone, and goes on from rounded weights (tests/trainer/test_repairs.py).
    """
    whole, again = tmp_path / "whole", tmp_path / "again"
    options = (*BERT, *ADAM, *SCHEDULE, *SAVING, *FP16, "--layer-lr-decay", 0.8)
    first = run_command(training(binarized, whole, *options))
    run_command(training(binarized, again, *options, "--restore-file", whole / "checkpoint_1_3.pt"))
    rates = [float(line["lr"]) for line in logged(first.stdout, "train_inner")]
    assert rates == pytest.approx([0.01 * electra_linear(done, 8, 4) for done in range(1, 7)], rel=1e-3)
    assert_same(whole / "checkpoint_last.pt", again / "checkpoint_last.pt")
    groups = optimizer_state(whole / "checkpoint_last.pt")["param_groups"]
    assert {round(group["lr_scale"], 3) for group in groups} == {1, 0.8, 0.64, 0.512}
    assert {group["weight_decay"] for group in groups} == {0, 0.01}


def test_hydra_trains_and_resumes_exactly_in_bf16(binarized, tmp_path):
    options = (
        "criterion._name=masked_lm common.bf16=true dataset.disable_validation=true optimization.max_update=6 "
        "checkpoint.save_interval_updates=3 checkpoint.keep_interval_updates=2 "
        "model._name=truneg_bert_tiny optimizer._name=electra_adam "
        "+optimizer.layer_lr_decay=0.8 lr_scheduler._name=electra_linear +lr_scheduler.total_num_update=6"
    ).split()
    whole, again = tmp_path / "whole", tmp_path / "again"
    run_command(hydra(binarized, whole, "baseline", *options), cwd=tmp_path)
    restored = f"checkpoint.restore_file={whole}/checkpoint_1_3.pt"
    output = run_command(hydra(binarized, again, "baseline", *options, restored), cwd=tmp_path)
    assert "@ 3 updates" in output.stdout + output.stderr
    assert_same(whole / "checkpoint_last.pt", again / "checkpoint_last.pt")
    assert len(optimizer_state(whole / "checkpoint_last.pt")["param_groups"]) == 6
    for weight in parameters(whole / "checkpoint_last.pt").values():  # saved in fp32
        assert torch.equal(weight, weight.bfloat16().float()), "the model's own weights were bf16"
