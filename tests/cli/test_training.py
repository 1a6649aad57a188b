"""Training by fairseq-train, fairseq-hydra-train and truneg; resuming with each optimizer, in 16 bits."""

from __future__ import annotations

import signal

import pytest
import torch
from support import glue_files
from support.cli_runs import content, hydra, logged, training
from support.commands import killed_on_error, run_command, start_command, truneg, wait_until
from support.kills import differences, state_of

from truneg_fairseq.fairseq_runs.saving import updates_of
from truneg_fairseq.optim import electra_linear
from truneg_fairseq.results.result import read_results


@pytest.mark.slow
def test_nothing_but_the_criterion_is_needed(without_table, wordnet, tmp_path):
    """On data without a table: it is built from WordNet beside the data, and used again."""
    table = without_table / "synonyms.npz"
    command = training(without_table, tmp_path / "run", "--criterion", "masked_lm_hc", "--max-update", 2)
    first = run_command(command)
    assert f"{table}: not there, building it from wordnet" in first.stdout
    written = table.stat().st_mtime_ns
    second = run_command([*command[:-1], 3])
    assert "building it from" not in second.stdout
    assert table.stat().st_mtime_ns == written
    assert len(logged(second.stdout, "train_inner")) == 1, "the second run resumed from the first one's checkpoint"


def test_finetuning_takes_its_own_time(data_bin, tmp_path):
    """And not that of the pre-training; a run that continues counts on."""

    def spent(path, seconds=None) -> float:
        state = content(path)
        if seconds is not None:
            state["extra_state"]["previous_training_time"] = seconds
            torch.save(state, path)
        return state["extra_state"]["previous_training_time"]

    start, last = tmp_path / "start.pt", tmp_path / "next" / "checkpoint_last.pt"
    run_command(training(data_bin, tmp_path, "--criterion", "masked_lm", "--max-update", 1))
    (tmp_path / "checkpoint_last.pt").rename(start)
    spent(start, 100_000)
    command = training(data_bin, last.parent, "--criterion", "masked_lm", "--finetune-from-model", start)
    run_command([*command, "--stop-time-hours", 1, "--max-update", 2])
    assert 0 < spent(last) < 300
    assert updates_of(content(last)) == 2
    spent(last, 1_000)
    run_command([*command, "--max-update", 3])
    assert 1_000 < spent(last) < 1_300


ADAM = "--criterion masked_lm --arch truneg_bert_tiny --optimizer electra_adam --adam-betas (0.9,0.999)".split()
SCHEDULE = ("--lr-scheduler", "electra_linear", "--warmup-ratio", 0.5, "--total-num-update", 8)
SAVING = ("--save-interval-updates", 3, "--max-update", 6, "--disable-validation")


def test_fairseq_train_resumes_exactly_in_fp16(binarized, tmp_path):
    """By layers, with the rates of the schedule and a share that falls, and from the third update as from its own.

    Stock fairseq saves the 16 bits alone, and goes on from rounded weights (tests/fairseq_runs/test_repairs.py).
    """
    whole, again = tmp_path / "whole", tmp_path / "again"
    options = (*ADAM, *SCHEDULE, *SAVING, "--fp16", "--fp16-no-flatten-grads", "--layer-lr-decay", 0.8)
    options += ("--criterion", "masked_lm_true_neg", "--soft-targets", "uniform=0.8..0")
    first = run_command(training(binarized, whole, *options))
    run_command(training(binarized, again, *options, "--restore-file", whole / "checkpoint_1_3.pt"))
    rates = [float(line["lr"]) for line in logged(first.stdout, "train_inner")]
    assert rates == pytest.approx([0.01 * electra_linear(done, 8, 4) for done in range(1, 7)], rel=1e-3)
    assert differences(state_of(whole), state_of(again)) == []
    groups = state_of(whole)["last_optimizer_state"]["param_groups"]
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
    assert differences(state_of(whole), state_of(again)) == []
    assert len(state_of(whole)["last_optimizer_state"]["param_groups"]) == 6
    for weight in state_of(whole)["model"].values():  # saved in fp32
        assert torch.equal(weight, weight.bfloat16().float()), "the model's own weights were bf16"


@pytest.mark.slow
def test_a_fine_tuning_that_a_signal_has_stopped_gives_the_undisturbed_result(tmp_path):
    data = glue_files.write_data(tmp_path / "data")
    prepared = glue_files.write_glue(tmp_path / "prepared", data, ["RTE"])
    given = (glue_files.write_model(tmp_path, data), "--prepared", prepared, "--batch-size", 8, "--seeds", 1)
    command = truneg("finetune", *given, "--epochs", 24, "--cpu", "--lr", 0.001, "--output")
    log, stopped, whole = tmp_path / "log", tmp_path / "stopped", tmp_path / "whole"
    process = start_command([*command, stopped], log, log)
    with killed_on_error(process):
        wait_until(lambda: any("num_updates" in path.read_text() for path in stopped.rglob("train.log")), process, log)
        process.send_signal(signal.SIGUSR2)
        assert process.wait(150) == 75, log.read_text()[-3000:]
    for output in (stopped, whole):
        run_command([*command, output])
    (training_log,) = stopped.rglob("train.log")
    assert training_log.read_text().count("stopped by SIGTERM after update") == 1, "which the command sends it"
    (found,), (expected,) = (read_results([output / "results.jsonl"]) for output in (stopped, whole))
    assert (found.metrics, found.examples) == (expected.metrics, expected.examples)
