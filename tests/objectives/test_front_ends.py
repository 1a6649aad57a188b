"""The same sentences, masks and options give the same loss, however a loop calls it and whatever wraps its model."""

from __future__ import annotations

import copy
from contextlib import nullcontext

import pytest
import torch
from support.losses import LOSSES, OF_A_MODEL, PAD, WORDS, loss_of
from torch import distributed, nn

transformers = pytest.importorskip("transformers")

OPTIONS = {**LOSSES, **OF_A_MODEL}
CLS, MASK = 1, 2


@pytest.fixture(scope="module")
def bert():
    """A tiny masked LM, and a batch of it: two sentences of other lengths, with words of two pieces."""
    torch.manual_seed(1)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    sizes |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "max_position_embeddings": 9}
    model = transformers.BertForMaskedLM(transformers.BertConfig(vocab_size=WORDS, pad_token_id=PAD, **sizes)).train()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model


@pytest.fixture(scope="module")
def batch():
    ids = torch.tensor([[CLS, 5, 11, 6, 7, 8, 9, 12, 3], [CLS, 20, 21, 22, 23, 3, PAD, PAD, PAD]])
    masked = (
        torch.zeros_like(ids)
        .bool()
        .index_put((torch.tensor([0, 0, 0, 0, 1]), torch.tensor([1, 3, 4, 5, 2])), torch.tensor(True))
    )
    return {
        "input_ids": ids.masked_fill(masked, MASK),
        "attention_mask": ids.ne(PAD).long(),
        "labels": ids.masked_fill(~masked, -100),
    }


@pytest.fixture(scope="module")
def group():
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


class Own(nn.Module):
    """A module of a loop's own around a model, as Lightning has."""

    def __init__(self, model):
        super().__init__()
        self.net, self.norm = model, nn.LayerNorm(3)

    def forward(self, **inputs):
        return self.net(**inputs)


def adapted(model):
    peft = pytest.importorskip("peft", reason="adapters need the package peft")
    return peft.get_peft_model(model, peft.LoraConfig(target_modules=["query"]))  # it adds 0 at first


WRAPPERS = {
    "bare": lambda model: model,
    "DDP": nn.parallel.DistributedDataParallel,
    "DataParallel": nn.DataParallel,
    "own module": Own,
    "compiled": lambda model: torch.compile(model, backend="eager"),
    "PEFT": adapted,
    "DDP of a compiled own module": lambda model: nn.parallel.DistributedDataParallel(
        torch.compile(Own(model), backend="eager"), find_unused_parameters=True
    ),
    "own module of PEFT": lambda model: Own(adapted(model)),
}


def outcome(name, model, batch, call):
    """The loss, the gradient of the embeddings (None under an adapter), the plain loss, and the rates."""
    loss_fn, given = loss_of(name), {key: batch[key] for key in ("input_ids", "attention_mask")}
    watches = call.endswith("watched")
    hook = loss_fn.watch(model) if watches else nullcontext()
    known = {} if watches else {"input_ids": batch["input_ids"], "model": model}
    logits, labels = model(**given).logits, batch["labels"]
    if call.startswith("flat"):
        logits, labels = logits.flatten(0, 1), labels.flatten()
    loss = loss_fn(logits, labels, **known)
    loss.backward()
    gradient = next((p.grad for key, p in model.named_parameters() if "word_embeddings" in key), None)
    with torch.no_grad():
        plain = loss_fn(logits.detach(), labels, **known)
    if watches:
        hook.remove()
    return loss.detach(), gradient, plain, loss_fn.metrics()


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("name", OPTIONS)
def test_every_call_of_every_wrapper_has_the_loss_of_the_bare_model(name, wrapper, bert, batch, group):
    if name == "sr_word" and "PEFT" in wrapper:
        pytest.skip("the embeddings of an adapter are frozen: refused")
    expected = outcome(name, copy.deepcopy(bert), batch, "sentences")
    for call in ("sentences", "sentences, watched", "flat", "flat, watched"):
        found = outcome(name, WRAPPERS[wrapper](copy.deepcopy(bert)), batch, call)
        torch.testing.assert_close(found[0], expected[0], msg=call)
        torch.testing.assert_close(found[2], expected[2], msg=call)
        if found[1] is not None:
            torch.testing.assert_close(found[1].to_dense(), expected[1].to_dense(), msg=call)
        assert found[3] == pytest.approx(expected[3], abs=1e-3), call
    assert expected[3]["objective"] == pytest.approx(expected[0].item(), abs=1e-3)
    assert expected[3]["eval_mlm_loss"] == expected[3]["mlm_loss"] == pytest.approx(expected[2].item(), abs=1e-3)
