"""--synonym-source model on a GPU: the host's table, no waiting for the device, half precision."""

from __future__ import annotations

import re

import pytest
import torch
from support.commands import run_command
from support.gpu_runs import steps, training
from support.model_synonyms import embeddings, synonyms

from truneg_fairseq.objectives.neighbours import mutual_keys, nearest_words

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_the_table_on_the_device_is_the_one_on_the_host(dtype):
    """Small whole numbers: exact sums and thousands of ties, which the device's sort must not decide."""
    weight = torch.randint(-2, 3, (20_000, 8), generator=torch.Generator().manual_seed(1)).to(dtype)
    is_word = torch.rand(20_000, generator=torch.Generator().manual_seed(2)) < 0.7
    words = is_word.nonzero().squeeze(1)[:300]

    def table(device: str) -> tuple[torch.Tensor, torch.Tensor]:
        near = nearest_words(weight.to(device), is_word.to(device), words.to(device), 10, 0.6)
        return near, mutual_keys(words.to(device), near)

    for on_host, on_device in zip(table("cpu"), table("cuda"), strict=True):
        assert torch.equal(on_device.cpu(), on_host)


@pytest.mark.parametrize("every", [1, 4])
def test_no_update_waits_for_the_device(every):
    machine, weight = synonyms(every=every).cuda(), embeddings(1).cuda()
    for update in range(every):  # the first calls of some operations wait
        machine.advance(update, weight)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for update in range(every, 3 * every):
            machine.advance(update, weight)
            pairs = machine.pairs()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert int(pairs) > 0
    host = synonyms(every=every)
    for update in range(every):
        host.advance(update, embeddings(1))
    assert torch.equal(machine.keys.cpu(), host.keys)


@pytest.mark.parametrize("precision", [(), ("--fp16",), ("--amp",)])
def test_trains_and_resumes(precision, binarized, tmp_path):
    options = (
        *("--criterion", "masked_lm_hc", "--tokenization", "wordpiece", "--synonym-source", "model"),
        *("--model-synonyms-threshold", 0.05, "--model-synonyms-warmup", 2, "--model-synonyms-every", 4),
        *(*precision, "--lr", 0.001, "--disable-validation", "--max-update"),
    )
    run_command(training(binarized, tmp_path, *options, 12))
    result = run_command(training(binarized, tmp_path, *options, 20))
    assert re.search(r"Loaded checkpoint \S+ \(epoch \d+ @ \d+ updates\)", result.stdout)
    assert float(steps(result.stdout)[0]["model_pairs"]) > 0
