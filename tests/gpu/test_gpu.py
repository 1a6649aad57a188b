"""What only a GPU can show: fp16, bf16 and nccl through the real commands, and no waiting for the device."""

from __future__ import annotations

import re
import sys
import warnings
from pathlib import Path

import pytest
import torch
from support.commands import PLUGIN, REPOSITORY, TINY_MODEL, run_command
from support.gpu_runs import ON_GPU, steps, training
from support.trainings import parse

from truneg_fairseq.objectives import corrected_predictions, pair_keys

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

EVERYTHING = (
    *("--criterion", "masked_lm_true_neg", "--hc-weight", 1, "--sr-word-weight", 1, "--sr-sent-weight", 1),
    *("--tokenization", "wordpiece"),
)


@pytest.mark.parametrize("precision", [(), ("--fp16",), ("--fp16", "--memory-efficient-fp16"), ("--amp",)])
def test_trains_and_resumes(precision, data_bin, tmp_path):
    options = (*EVERYTHING, *precision, "--lr", 0.001, "--disable-validation")
    run_command(training(data_bin, tmp_path, *options, "--max-update", 10))
    result = run_command(training(data_bin, tmp_path, *options, "--max-update", 20))
    assert re.search(r"Loaded checkpoint \S+ \(epoch \d+ @ \d+ updates\)", result.stdout)
    assert float(steps(result.stdout)[-1]["loss"]) < 8


def test_corrections_on_the_device_are_those_on_the_host():
    torch.manual_seed(1)
    vocabulary, count = 40_000, 200_000
    table = torch.randint(vocabulary, (2, 100_000))
    gold, prediction = torch.randint(vocabulary, (2, count))
    chosen = torch.randint(table.size(1), (count // 2,))
    gold[: count // 2], prediction[: count // 2] = table[0, chosen], table[1, chosen]
    whole = torch.rand(count) < 0.8
    arguments = (gold, prediction, whole, pair_keys(table[0], table[1]))
    on_host = corrected_predictions(*arguments)
    on_device = corrected_predictions(*(argument.cuda() for argument in arguments))
    assert on_host.any()
    assert torch.equal(on_device.cpu(), on_host)


def test_hydra_in_bf16(data_bin, tmp_path):
    recipes = REPOSITORY / "user_dir_examples" / "pretraining"
    overrides = (
        "common.bf16=true common.fp16=false +model.encoder_layers=1 +model.encoder_embed_dim=32 "
        "+model.encoder_ffn_embed_dim=32 +model.encoder_attention_heads=2 task.tokens_per_sample=24 "
        "dataset.batch_size=4 dataset.num_workers=0 optimization.update_freq=[1] common.log_interval=1 "
        "optimization.max_update=3 +criterion.tokenization=wordpiece"
    )
    result = run_command(
        [
            *(sys.executable, "-m", "fairseq_cli.hydra_train", "--config-dir", recipes),
            *("--config-name", "masked_lm", "objective=[hc,sr_word]"),
            *(f"common.user_dir={PLUGIN}", f"task.data={data_bin}", f"checkpoint.save_dir={tmp_path}"),
            *(f"hydra.run.dir={tmp_path}/hydra", *overrides.split()),
        ],
        cwd=tmp_path,
    )
    assert (result.stdout + result.stderr).count("[train_inner]") == 3


def test_torchrun_with_nccl(data_bin, tmp_path):
    count = torch.cuda.device_count()
    launch = (sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", count, "--standalone")
    command = training(
        data_bin, tmp_path, *EVERYTHING, "--fp16", "--lr", 0.001, "--max-update", 6, "--disable-validation"
    )
    result = run_command([*launch, *command[1:], "--distributed-world-size", count])
    assert "6" in {step["num_updates"] for step in steps(result.stdout)}


def _syncs(data: Path, *criterion: object) -> int:
    """How often a criterion's forward and backward wait for the device, once warmed up."""
    from fairseq import tasks, utils

    cfg = parse([data, "--user-dir", PLUGIN, *ON_GPU, *TINY_MODEL, "--criterion", *criterion])
    task = tasks.setup_task(cfg.task)
    model, loss = task.build_model(cfg.model).cuda(), task.build_criterion(cfg.criterion).cuda()
    task.load_dataset("train")
    batches = task.get_batch_iterator(task.dataset("train"), max_sentences=4).next_epoch_itr(shuffle=False)
    sample = utils.move_to_cuda(next(iter(batches)))
    for _ in range(2):
        loss(model, sample)[0].backward()
    torch.cuda.synchronize()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            loss(model, sample)[0].backward()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    waits = [w for w in caught if "called a synchronizing" in str(w.message)]  # torch warns of the mode too
    print(*criterion, *(f"\n  {w.filename}:{w.lineno}" for w in waits))
    return len(waits)


def test_the_objectives_never_wait_for_the_device_where_stock_does_not(data_bin):
    stock = _syncs(data_bin, "masked_lm")
    table = ("--tokenization", "wordpiece")
    assert _syncs(data_bin, "masked_lm_hc", *table) <= stock
    assert _syncs(data_bin, "masked_lm_sr_word") <= stock
    # Every pass through stock's encoder asks once whether there is padding.
    passes = _syncs(data_bin, "masked_lm_sr_sent")
    assert passes <= stock + 2
