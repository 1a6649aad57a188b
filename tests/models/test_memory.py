"""The formula of an update's memory against fairseq's trainer."""

from __future__ import annotations

import pytest
from support.commands import benchmark

import truneg_fairseq
from truneg_fairseq.models.memory import held_bytes

TOLERANCE = 0.0175
"""Of what an update adds; of the whole, which is more, 0.1 is promised."""


@pytest.fixture(scope="module")
def bench():
    with benchmark("memory") as module:
        truneg_fairseq.register()
        yield module


@pytest.fixture(scope="module")
def data(bench, tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    bench.write_data(folder, words=1995, lines=2000)
    return folder


RUNS = {
    # Sizes that make each of the formula's terms a share of some peak that the tolerance does not hide.
    # Batch, length, and the moment of the peak.
    ("bert_tiny", "masked_lm_hc", "bf16", 32, 64, "loss"): "--encoder-layers 4 --encoder-ffn-embed-dim 128",
    ("bert_tiny", "masked_lm", "fp32", 4, 64, "loss"): "--encoder-layers 12 --embedding-dim 768 --mask-prob 0.9",
    (
        "bert_tiny",
        "masked_lm_sr_word",
        "fp32",
        4,
        64,
        "loss",
    ): "--encoder-layers 12 --embedding-dim 768 --mask-prob 0.9",
    ("bert_mini", "masked_lm_sr_sent", "fp32", 4, 32, "loss"): "--mask-prob 0.9",
    ("electra_tiny", "electra", "fp32", 32, 32, "loss"): "--encoder-layers 1 --generator-layers 1 --embedding-dim 256 "
    "--encoder-ffn-embed-dim 256",
    ("bert_mini", "masked_lm", "fp32", 4, 256, "layer"): "--encoder-layers 1 --encoder-attention-heads 8",
    ("bert_tiny", "masked_lm", "fp32", 32, 32, "layer"): "--encoder-layers 1",
    ("electra_tiny", "electra", "bf16", 8, 64, "layer"): "--encoder-layers 1 --encoder-ffn-embed-dim 2048",
    ("bert_tiny", "masked_lm_sr_sent", "fp32", 8, 128, "sentences"): "",
    ("bert_tiny", "masked_lm_sr_sent", "bf16", 16, 32, "sentences"): "--encoder-layers 1",
    ("electra_tiny", "electra, SR-sent", "bf16", 4, 256, "sentences"): "",
    ("bert_mini", "masked_lm", "bf16", 1, 32, "gradients"): "",
    ("bert_mini", "masked_lm_sr_word", "fp32", 1, 32, "gradients"): "",
    ("electra_tiny", "electra, HC + SR-word", "fp32", 1, 64, "gradients"): "--mask-prob 0.5",
}


@pytest.mark.parametrize("key", RUNS, ids=lambda key: " ".join(map(str, key)))
def test_predicted_is_measured(bench, data, key):
    *what, moment = key
    run = bench.Run(*what)
    trainer = bench.trainer_of(run, data, *RUNS[key].split())
    found = bench.compare(trainer, run.precision)
    parameters = sum(parameter.numel() for parameter in trainer.model.parameters())
    assert found.predicted.held == held_bytes(parameters, run.precision)
    table = sum(buffer.nbytes for buffer in trainer.criterion.buffers())
    assert found.predicted.held == pytest.approx(found.held - table, rel=1e-3)
    assert found.predicted.total - found.predicted.held == pytest.approx(found.added, rel=TOLERANCE)
    assert found.predicted.moment == moment


@pytest.mark.parametrize(
    ("what", "flags"),
    [
        (("bert_mini", "masked_lm_sr_sent", "fp32", 4, 32), "--mask-prob 0.9"),
        (("electra_tiny", "electra", "bf16", 8, 64), "--encoder-layers 1 --encoder-ffn-embed-dim 2048"),
        (("bert_tiny", "masked_lm_sr_sent", "bf16", 16, 32), "--encoder-layers 1"),
    ],
    ids=lambda value: value[1] if isinstance(value, tuple) else "",
)
def test_from_the_second_batch_of_an_update_on_gradients_are_there(bench, data, what, flags):
    run = bench.Run(*what)
    found = bench.compare(bench.trainer_of(run, data, *flags.split()), run.precision, update_freq=2)
    assert found.predicted.total - found.predicted.held == pytest.approx(found.added, rel=TOLERANCE)
