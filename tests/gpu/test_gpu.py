"""What only a GPU can show: fp16, bf16 and nccl through the real commands, and no waiting for the device."""

from __future__ import annotations

import contextlib
import copy
import json
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from support.commands import PLUGIN, TINY_MODEL, TINY_TRAINING, fairseq_train, run_command, truneg
from support.trainings import parse

from truneg_fairseq.objectives import TokenLists
from truneg_fairseq.optim import ElectraAdam

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

EVERYTHING = (
    *("--criterion", "masked_lm_true_neg", "--hc-weight", 1, "--sr-word-weight", 1, "--sr-sent-weight", 1),
    *("--tokenization", "wordpiece"),
)
ON_GPU = [argument for argument in TINY_TRAINING if argument != "--cpu"]


def training(data: Path, save: Path, *arguments: object) -> list[object]:
    options = ("--user-dir", PLUGIN, *ON_GPU, *TINY_MODEL, "--save-dir", save, "--no-epoch-checkpoints")
    return fairseq_train(data, *options, *arguments)


def steps(output: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in re.findall(r"train_inner\S* (?:\| |\[INFO\] - )?(\{.*\})", output)]


@contextlib.contextmanager
def watched_for_waits(mode: str) -> Iterator[None]:
    """What waits for the device is an error, or a warning."""
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode(mode)
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("precision", [(), ("--fp16",), ("--fp16", "--memory-efficient-fp16"), ("--amp",)])
def test_trains_and_resumes(precision, data_bin, tmp_path):
    options = (*EVERYTHING, *precision, "--lr", 0.001, "--disable-validation")
    run_command(training(data_bin, tmp_path, *options, "--max-update", 12))
    result = run_command(training(data_bin, tmp_path, *options, "--max-update", 20))
    assert re.search(r"Loaded checkpoint \S+ \(epoch \d+ @ \d+ updates\)", result.stdout)
    assert float(steps(result.stdout)[-1]["loss"]) < 8


def test_fairseq_validate(data_bin, tmp_path):
    """It moves model and batches to the GPU, and not the criterion."""
    run_command(training(data_bin, tmp_path, *EVERYTHING, "--max-update", 2, "--disable-validation"))
    named = ("--user-dir", PLUGIN, "--task", "masked_lm", "--path", tmp_path / "checkpoint_last.pt", "--batch-size", 4)
    result = run_command([sys.executable, "-m", "fairseq_cli.validate", data_bin, *named, "--valid-subset", "valid"])
    assert re.search(r"valid on 'valid' subset \|.* hc_pred ", result.stdout + result.stderr)


@pytest.mark.parametrize("precision", [(), ("--fp16",)])
def test_generation_trains(precision, data_bin, tmp_path):
    decoder = "--arch transformer_lm --decoder-layers 1 --decoder-embed-dim 32 --decoder-attention-heads 2".split()
    decoder += ["--share-decoder-input-output-embed", "--decoder-ffn-embed-dim", "32"]
    shares = ("--label-smoothing", 0.1, "--soft-targets", "table:flat=0.1")
    ours = ("--criterion", "label_smoothed_true_neg", "--hc-weight", 1, "--sr-word-weight", 1, *shares)
    adam = "--optimizer adam --lr 0.001 --tokens-per-sample 24 --batch-size 4 --log-format json --num-workers 0".split()
    options = ("--user-dir", PLUGIN, "--task", "language_modeling", *decoder, *ours, *adam, *precision)
    limits = ("--max-update", 6, "--log-interval", 1, "--save-dir", tmp_path, "--disable-validation")
    result = run_command(fairseq_train(data_bin, *options, *limits))
    assert float(steps(result.stdout)[-1]["smoothed"]) > 0


def test_pairs_are_looked_up_on_the_device_as_on_the_host():
    torch.manual_seed(1)
    vocabulary, count = 40_000, 200_000
    table = torch.randint(vocabulary, (100_000, 2)).unique(dim=0).T
    gold, prediction = torch.randint(vocabulary, (2, count))
    chosen = torch.randint(table.size(1), (count // 2,))
    gold[: count // 2], prediction[: count // 2] = table[0, chosen], table[1, chosen]
    lists = TokenLists(table[0] * vocabulary + table[1], vocabulary)
    on_host = lists.contains(gold, prediction)
    assert on_host[: count // 2].all()
    assert torch.equal(lists.cuda().contains(gold.cuda(), prediction.cuda()).cpu(), on_host)


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
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with watched_for_waits("warn"):
            loss(model, sample)[0].backward()
    waits = [w for w in caught if "called a synchronizing" in str(w.message)]  # torch warns of the mode too
    print(*criterion, *(f"\n  {w.filename}:{w.lineno}" for w in waits))
    return len(waits)


def test_the_objectives_never_wait_for_the_device_where_stock_does_not(data_bin):
    stock = _syncs(data_bin, "masked_lm")
    table = ("--tokenization", "wordpiece")
    assert _syncs(data_bin, "masked_lm_hc", *table) <= stock
    assert _syncs(data_bin, "masked_lm_sr_word") <= stock
    # Two passes more through stock's encoder, each of whose two layers asks whether there is padding.
    assert _syncs(data_bin, "masked_lm_sr_sent") <= stock + 4


# ELECTRA's Adam.


def update(optimizer: ElectraAdam, parameters: list[torch.Tensor], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for parameter in parameters:
        parameter.grad = torch.randn(parameter.shape, generator=generator).to(parameter)
    optimizer.step()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_updates_are_those_of_the_cpu(dtype):
    torch.manual_seed(1)
    on_host = [torch.randn(shape).to(dtype).requires_grad_() for shape in ((300, 7), (5,))]
    on_device = [parameter.detach().cuda().requires_grad_() for parameter in on_host]
    both = [ElectraAdam(p, lr=0.01) for p in (on_host, on_device)]
    for seed in range(20):
        for optimizer, parameters in zip(both, (on_host, on_device), strict=True):
            update(optimizer, parameters, seed)
    tolerance = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 4e-2}[dtype]
    for host, device in zip(on_host, on_device, strict=True):
        assert (host - device.cpu()).abs().max() < tolerance


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_a_state_from_the_cpu_goes_to_the_device_and_trains_on_exactly(dtype):
    whole = [torch.randn(9, 3, device="cuda").to(dtype).requires_grad_()]
    first = ElectraAdam(whole, lr=0.01)
    update(first, whole, 1)
    saved = copy.deepcopy(first.state_dict())
    for state in saved["state"].values():
        state.update({key: value.cpu() for key, value in state.items()})
    resumed = [whole[0].detach().clone().requires_grad_()]
    second = ElectraAdam(resumed, lr=0.01)
    second.load_state_dict(saved)
    assert {value.device.type for value in second.state[resumed[0]].values()} == {"cuda"}
    update(first, whole, 2)
    update(second, resumed, 2)
    assert torch.equal(whole[0], resumed[0])


def test_a_step_never_waits_for_the_device():
    parameters = [torch.randn(shape, device="cuda").requires_grad_() for shape in ((300, 7), (5,))]
    optimizer = ElectraAdam(parameters, lr=0.01)
    update(optimizer, parameters, 1)
    with watched_for_waits("error"):
        optimizer.step()


# Recorded training steps.

ELECTRA = (
    *("--task", "electra_pretraining", "--criterion", "electra", "--arch", "electra_tiny", "--tokens-per-sample", 16),
    *("--batch-size", 4, "--tokenization", "wordpiece", "--optimizer", "electra_adam", "--lr", 0.001, "--clip-norm", 1),
    *("--num-workers", 0, "--distributed-world-size", 1, "--seed", 1),
)
OBJECTIVES = ("--hc-weight", 1, "--sr-word-weight", 1, "--sr-sent-weight", 1)
SHARES = ("--soft-targets", "uniform=0.1,corpus=0.1,embedding=0.1")


def losses(data: Path, *arguments: object, bf16: bool, micro_batches: int) -> tuple[list[float], int]:
    """Of 12 updates, and the number of shapes that were recorded."""
    from fairseq import tasks
    from fairseq.trainer import Trainer

    cfg = parse([data, "--user-dir", PLUGIN, *ELECTRA, *arguments])
    cfg.common.bf16 = bf16
    task = tasks.setup_task(cfg.task)
    torch.manual_seed(1)
    trainer = Trainer(cfg, task, task.build_model(cfg.model), task.build_criterion(cfg.criterion))
    batches = iter(trainer.get_train_iterator(epoch=1).next_epoch_itr(shuffle=False))
    logs = [trainer.train_step([next(batches) for _ in range(micro_batches)]) for _ in range(12)]
    return [log["loss"] for log in logs], len(task._recorded._recordings)


@pytest.mark.parametrize(
    ("arguments", "bf16", "micro_batches"),
    [
        (OBJECTIVES, False, 1),
        (OBJECTIVES, True, 1),
        (OBJECTIVES, False, 2),
        (SHARES, True, 1),
        (("--fp16", "--fp16-no-flatten-grads"), False, 1),
        (("--fp16", "--fp16-no-flatten-grads", "--fp16-scale-window", 4), False, 1),  # another loss scale
        (("--arch", "truneg_bert_tiny", "--criterion", "masked_lm_true_neg", *OBJECTIVES), True, 1),
        (("--amp",), False, 1),
        (("--memory-efficient-fp16",), False, 1),
    ],
)
def test_a_recorded_step_is_the_plain_one(arguments, bf16, micro_batches, data_bin):
    if arguments == SHARES:
        run_command(truneg("data", "counts", "--data", data_bin))
    plain, none = losses(data_bin, *arguments, bf16=bf16, micro_batches=micro_batches)
    replayed, count = losses(data_bin, *arguments, "--cuda-graphs", bf16=bf16, micro_batches=micro_batches)
    assert (none, count > 0) == (0, True)
    # Sums over atomic additions differ in their last bits; other random numbers change a loss by several per cent.
    assert replayed == pytest.approx(plain, rel=0.01)
