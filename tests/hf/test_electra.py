"""ELECTRA pre-training in transformers' Trainer: the fairseq criterion's loss and gradients, saved and loaded."""

from __future__ import annotations

import pytest
import torch
import transformers
from support.convert_models import TOKENS, random_model
from support.fairseq_twin import FairseqTwin
from support.hf_models import (
    assert_same,
    batch,
    electra_halves,
    small_electra,
    table_of_mistakes,
    trainer,
)

from truneg_fairseq.hf import ElectraArguments, ElectraForReplacedTokens


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"sr_word_weight": 0.5, "sr_sent_weight": 2.0},
        {"discriminator_false_negatives": "relabel", "discriminator_weight": 10.0},
        {"soft_targets": "embedding=0.3"},
        {"hc_detector": "table+embedding+context", "hc_threshold": 0.0, "discriminator_false_negatives": "ignore"},
    ],
    ids=lambda options: "+".join(options) or "hc",
)
def test_loss_and_gradients_are_the_criterions(options, tmp_path, monkeypatch):
    discriminator, generator = electra_halves()
    inputs = batch(every=2)
    table = table_of_mistakes(generator, inputs, tmp_path / "own.tsv")
    arguments = ElectraArguments(**table, hc_weight=1.0, **options)
    model = ElectraForReplacedTokens.of(discriminator, generator).train()
    noise = -torch.empty((inputs["labels"] != -100).sum(), len(TOKENS)).exponential_().log()
    machine = trainer(model, tmp_path, arguments)
    monkeypatch.setattr(
        "truneg_fairseq.hf.electra_trainer.sample_tokens", lambda logits, _: (logits + noise).argmax(-1)
    )
    found = machine.compute_loss(model, dict(inputs))
    found.backward()
    counts = machine._counts[True]

    twin = FairseqTwin([discriminator, generator], arguments, tmp_path)
    replace = lambda judged: (judged.logits.detach() + noise[:, twin.rows]).argmax(-1)  # noqa: E731
    monkeypatch.setattr(twin.criterion, "sample_replacements", replace)
    loss, log = twin(inputs)
    loss.backward()
    torch.testing.assert_close(found, loss, rtol=1e-4, atol=1e-5)
    assert {"replaced", "disc_synonyms", "corrected"} <= counts.keys()
    for name in set(log) & set(counts):
        assert float(log[name]) == pytest.approx(float(counts[name]), rel=1e-4), name
    assert log["corrected"] > 0
    words = model.get_input_embeddings().weight.grad
    torch.testing.assert_close(words, twin.word_gradient(), rtol=1e-3, atol=1e-5)


def test_it_trains_and_is_saved(tmp_path):
    model = small_electra()
    machine = trainer(model, tmp_path, ElectraArguments(), max_steps=2, save_strategy="steps", save_steps=2)
    machine.train()
    logs = [log for log in machine.state.log_history if "loss" in log]
    assert all({"plain_loss", "gen_loss", "disc_loss", "disc_recall", "replaced"} <= log.keys() for log in logs)
    assert logs[0]["plain_loss"] == pytest.approx(logs[0]["gen_loss"] + 50 * logs[0]["disc_loss"], rel=1e-3)
    metrics = machine.evaluate()
    assert metrics["eval_loss"] == pytest.approx(metrics["eval_gen_loss"] + 50 * metrics["eval_disc_loss"], rel=1e-3)
    loaded = ElectraForReplacedTokens.from_pretrained(tmp_path / "out" / "checkpoint-2")
    assert_same(dict(loaded.named_parameters()), dict(model.named_parameters()), rtol=0, atol=0)
    shared = loaded.generator.electra.embeddings.word_embeddings.weight
    assert shared is loaded.discriminator.electra.embeddings.word_embeddings.weight
    loaded.discriminator.save_pretrained(tmp_path / "tuned")
    assert transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "tuned").config.hidden_size == 32


def test_both_halves_compute_what_they_did_alone():
    discriminator, _ = electra_halves()
    own = {"hidden_act": "relu", "layer_norm_eps": 1e-5, "hidden_dropout_prob": 0.3}
    generator = random_model("ElectraForMaskedLM", 2, hidden_size=16, num_attention_heads=2, **own)
    generator.electra.embeddings.load_state_dict(discriminator.electra.embeddings.state_dict())
    generator.tie_weights()
    model = ElectraForReplacedTokens.of(discriminator, generator).eval()
    tokens = batch()["input_ids"]
    with torch.no_grad():
        torch.testing.assert_close(model.generator(tokens).logits, generator.eval()(tokens).logits)
        torch.testing.assert_close(model.discriminator(tokens).logits, discriminator.eval()(tokens).logits)
    assert {name: getattr(model.generator.config, name) for name in own} == own


def test_new_words_reach_both_halves(tmp_path):
    model = small_electra()
    before = model.get_input_embeddings().weight.detach().clone()
    model.resize_token_embeddings(len(before) + 3)
    with torch.no_grad():
        model(torch.tensor([[1, len(before) + 2]]), replace=lambda logits: logits.argmax(-1))
    assert model.generator(torch.tensor([[1]])).logits.shape[-1] == len(before) + 3
    assert model.generator.generator_lm_head.weight is model.get_input_embeddings().weight
    assert torch.equal(model.get_input_embeddings().weight[:-3], before)
    model.save_pretrained(tmp_path)
    loaded = ElectraForReplacedTokens.from_pretrained(tmp_path)
    assert loaded.generator.config.vocab_size == loaded.config.vocab_size == len(before) + 3
