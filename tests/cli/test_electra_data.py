"""The task electra_pretraining through fairseq-train and fairseq-hydra-train."""

from __future__ import annotations

import sys

from support.cli_runs import largest_difference, logged, parameters
from support.commands import PLUGIN, TINY_MODEL, fairseq_train, run_command

TRAINING = """
--task electra_pretraining --criterion masked_lm --tokens-per-sample 24 --batch-size 8 --required-batch-size-multiple 1
--optimizer adam --lr 0.01 --lr-scheduler fixed --seed 1 --log-format json --log-interval 1 --cpu --no-epoch-checkpoints
--save-interval-updates 7 --keep-interval-updates 1
""".split()
RECIPE = """
# @package _global_
task: {_name: electra_pretraining, data: '???', tokens_per_sample: 24}
criterion: {_name: masked_lm}
model: {_name: roberta, encoder_layers: 2, encoder_embed_dim: 32, encoder_ffn_embed_dim: 48, encoder_attention_heads: 4,
  max_positions: 64}
optimizer: {_name: adam}
lr_scheduler: {_name: fixed}
optimization: {lr: [0.01], max_update: 2}
dataset: {batch_size: 8, required_batch_size_multiple: 1, num_workers: 0}
common: {seed: 1, log_format: json, log_interval: 1, cpu: true}
checkpoint: {no_save: true}
"""


def training(data, save, *arguments):
    return fairseq_train(data, "--user-dir", PLUGIN, *TRAINING, *TINY_MODEL, "--save-dir", save, *arguments)


def losses(output):
    """By update: in training, and in validation."""
    steps = {step["num_updates"]: step["loss"] for step in logged(output, "train_inner")}
    return steps, {step["valid_num_updates"]: step["valid_loss"] for step in logged(output, "valid")}


def test_a_cut_run_without_workers_equals_a_run_with_workers(binarized, tmp_path):
    """Cut in the second epoch, resumed in its middle, and ended in the third; 11 updates an epoch."""
    whole = run_command(training(binarized, tmp_path / "whole", "--max-update", 25, "--num-workers", 2))
    cut = training(binarized, tmp_path / "cut", "--num-workers", 0)
    parts = [run_command([*cut, "--max-update", last]).stdout for last in (14, 25)]
    assert '"epoch": 3' in whole.stdout
    steps, valid = losses(whole.stdout)
    assert len(steps) == 25
    resumed, resumed_valid = losses(parts[1])
    assert min(map(int, resumed)) == 15, "it went on where it was cut"
    assert {**losses(parts[0])[0], **resumed} == steps
    assert {update: loss for update, loss in resumed_valid.items() if update in valid} == {
        update: loss for update, loss in valid.items() if int(update) > 14
    }
    last = [parameters(tmp_path / run / "checkpoint_last.pt") for run in ("whole", "cut")]
    assert largest_difference(*last) == 0


def test_hydra_runs_the_task_as_the_command_line_does(binarized, tmp_path):
    (tmp_path / "electra.yaml").write_text(RECIPE, encoding="utf-8")
    command = [sys.executable, "-m", "fairseq_cli.hydra_train", "--config-dir", tmp_path, "--config-name", "electra"]
    command += [f"common.user_dir={PLUGIN}", f"task.data={binarized}", f"hydra.run.dir={tmp_path}/hydra"]
    hydra = run_command(command).stdout.replace("[train_inner][INFO] - ", "| train_inner | ")
    plain = run_command(training(binarized, tmp_path, "--no-save", "--num-workers", 0, "--max-update", 2)).stdout
    assert losses(hydra)[0] == losses(plain)[0]
    assert losses(plain)[0].keys() == {"1", "2"}
