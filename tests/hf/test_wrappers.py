"""Models inside PEFT's adapters and torch.compile train as alone; DDP is in test_accumulation.py."""

from __future__ import annotations

import copy

import peft
import pytest
import torch
from support.hf_models import (
    KINDS,
    assert_same,
    batch,
    losses,
    one_update,
    small_model,
    trainer,
    weights,
)

from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.hf import TrueNegativeArguments
from truneg_fairseq.objectives.passes import embeddings_in_use, unwrap

OPTIONS = {"sr_sent_weight": 2.0, "soft_targets": "embedding=0.2"}


def with_adapters(model):
    """LoRA on all linear layers of the encoder's attention; what it adds is not 0."""
    names = {name.rpartition(".")[2] for name, part in model.named_modules() if isinstance(part, torch.nn.Linear)}
    wanted = names & {"query", "key", "q_lin", "k_lin", "Wqkv", "query_proj", "key_proj", "in_proj"}
    adapted = peft.get_peft_model(model, peft.LoraConfig(target_modules=sorted(wanted), init_lora_weights=False))
    return adapted.train()


@pytest.mark.parametrize("kind", KINDS)
def test_adapters_have_the_loss_of_the_merged_model(kind, tmp_path):
    model, inputs = with_adapters(small_model(kind)), batch()
    merged = copy.deepcopy(model).merge_and_unload().train()
    assert type(unwrap(model)) is type(merged)
    options = TrueNegativeArguments(**OPTIONS)
    expected = trainer(merged, tmp_path, options).compute_loss(merged, dict(inputs))
    found = trainer(model, tmp_path, options).compute_loss(model, dict(inputs))
    torch.testing.assert_close(found, expected)
    found.backward()
    trained = {name for name, parameter in model.named_parameters() if parameter.grad is not None}
    assert trained
    assert all("lora_" in name for name in trained)


@pytest.mark.parametrize(
    "options", [{"target_modules": ["query", "word_embeddings"]}, {"trainable_token_indices": [5, 6, 9]}]
)
def test_embeddings_with_adapters_are_those_that_the_model_uses(options, tmp_path):
    """Of the nearest words and of word-level regularization; the head stays tied to what is frozen."""
    lora = peft.LoraConfig(**{"target_modules": ["query"], **options}, init_lora_weights=False)
    model, inputs = peft.get_peft_model(small_model(), lora).train(), batch()
    used = model.get_input_embeddings()(torch.arange(len(model.get_input_embeddings().weight)))
    assert torch.equal(used, model.get_input_embeddings().weight) == ("trainable_token_indices" in options)
    torch.testing.assert_close(embeddings_in_use(model), used)
    losses = {}
    for weight in (0.0, 0.5):
        model.zero_grad()
        machine = trainer(model, tmp_path, TrueNegativeArguments(sr_word_weight=weight, soft_targets="embedding=0.2"))
        losses[weight] = machine.compute_loss(model, dict(inputs))
        losses[weight].backward()
        trained = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    assert losses[0.5] > losses[0.0]
    assert any(gradient.any() for name, gradient in trained.items() if "embedding" in name)


def test_word_level_regularization_of_frozen_embeddings_is_refused(tmp_path):
    frozen = small_model().train()
    frozen.get_input_embeddings().requires_grad_(False)
    for model in (frozen, with_adapters(small_model())):
        with pytest.raises(TrueNegError, match="has no effect on input embeddings that are not trained"):
            trainer(model, tmp_path, TrueNegativeArguments(sr_word_weight=0.5))
        expected = TrueNegativeArguments(sr_word_weight=0.5, sr_word_form="expected")
        trainer(model, tmp_path, expected).compute_loss(model, batch()).backward()


def test_adapters_train_and_are_saved(tmp_path):
    model = with_adapters(small_model())
    machine = trainer(model, tmp_path, TrueNegativeArguments(**OPTIONS), max_steps=2, learning_rate=1e-2)
    before = weights(machine)
    machine.train()
    changed = {name for name, value in weights(machine).items() if not torch.equal(value, before[name])}
    assert changed
    assert all("lora_" in name for name in changed)
    machine.save_model(tmp_path / "adapters")
    loaded = peft.PeftModel.from_pretrained(small_model(), tmp_path / "adapters")
    inputs = {**batch(), "labels": None}
    with torch.no_grad():
        torch.testing.assert_close(loaded.eval()(**inputs).logits, model.eval()(**inputs).logits)


@pytest.mark.parametrize("kind", ["BertForMaskedLM", pytest.param("electra", marks=pytest.mark.slow)])
def test_compiled_by_the_trainer(kind, tmp_path):
    """Several updates: nothing that a step changes is a constant of what was compiled."""
    options = {"sr_sent_weight": 2.0}
    plain, _ = one_update(kind, tmp_path, options, max_steps=3)
    machine, _ = one_update(kind, tmp_path, options, max_steps=3, torch_compile=True, torch_compile_backend="eager")
    assert losses(machine) == pytest.approx(losses(plain), rel=1e-5)
    assert_same(weights(machine), weights(plain), rtol=1e-4, atol=1e-5)
