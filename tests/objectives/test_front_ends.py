"""The same sentences, masks and options give the same loss, however a loop calls it and whatever wraps its model."""

from __future__ import annotations

import copy
from functools import partial

import pytest
import torch
from support.losses import LOSSES, OF_A_MODEL, PAD, WORDS, loss_of
from torch import distributed, nn

from truneg_fairseq.objectives.passes import unwrap

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


def picked(logits, labels):
    """The places of the masked positions, and the logits there."""
    places = labels.flatten().ne(-100).nonzero().squeeze(1)
    return places, logits.flatten(0, 1)[places]


def filled_up(logits, labels):
    """As many rows as a recorded step has: the last ones repeat the first, without a label."""
    places, _ = picked(logits, labels)
    places = torch.cat([places, places[:2]])
    own = labels.flatten()[places].index_fill(0, torch.arange(len(places) - 2, len(places)), -100)
    return logits.flatten(0, 1)[places], own, {"positions": places}


CALLS = {
    "sentences": lambda logits, labels: (logits, labels, {}),
    "flat": lambda logits, labels: (logits.flatten(0, 1), labels.flatten(), {}),
    "flat logits": lambda logits, labels: (logits.flatten(0, 1), labels, {}),
    "words in the middle": lambda logits, labels: (logits.transpose(1, 2), labels.int(), {}),
    "an output": lambda logits, labels: ({"logits": logits}, labels, {"weights": torch.ones_like(labels)}),
    "mask": lambda logits, labels: (picked(logits, labels)[1], labels, {"positions": labels.ne(-100)}),
    "places": lambda logits, labels: (
        picked(logits, labels)[1],
        labels[labels.ne(-100)],
        {"positions": picked(logits, labels)[0]},
    ),
    "places, filled up": filled_up,
}


NOT_OF_STATES = ("words in the middle", "an output")


def outcome(name, model, batch, call, watches, **options):
    """The loss, the gradient of the embeddings (None under an adapter), the plain loss, and the rates."""
    loss_fn, given = loss_of(name, **options), {key: batch[key] for key in ("input_ids", "attention_mask")}
    hook = loss_fn.watch(model) if watches else None
    known = {} if watches else {**given, "model": model}
    model.zero_grad()
    head, states, by_states = unwrap(model).get_output_embeddings(), [], call.startswith("states")
    note = head.register_forward_pre_hook(lambda _, given: states.append(given[0])) if by_states else None
    logits = model(**given).logits
    if note is not None:
        note.remove()
    call_of = partial(loss_fn.of_hidden, weight=head.weight, bias=head.bias) if by_states else loss_fn
    rows, labels, more = CALLS[call.removeprefix("states, ")](states[0] if by_states else logits, batch["labels"])
    loss = call_of(rows, labels=labels, **known, **more)
    loss.sum().backward()
    gradients = [p.grad for key, p in model.named_parameters() if "word_embeddings" in key and p.grad is not None]
    with torch.no_grad():
        plain = call_of(rows, labels=labels, **known, **more)
    if hook is not None:
        hook.remove()
    return loss.detach(), [each.to_dense().clone() for each in gradients], plain, loss_fn.metrics()


def assert_outcome(found, expected, message):
    for one, other in zip(found[:3:2], expected[:3:2], strict=True):
        torch.testing.assert_close(one, other, msg=message)
    for one, other in zip(found[1], expected[1], strict=False):  # an adapter's embeddings have none
        torch.testing.assert_close(one, other, msg=message)
    assert found[3] == pytest.approx(expected[3], abs=1e-3), message


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_every_wrapper_has_the_loss_of_the_bare_model(wrapper, bert, batch, group):
    model = WRAPPERS[wrapper](copy.deepcopy(bert))
    for name in OPTIONS.keys() - ({"sr_word"} if "PEFT" in wrapper else {}):  # of frozen embeddings it is refused
        expected = outcome(name, copy.deepcopy(bert), batch, "sentences", False)
        for call, watches in (("sentences", False), ("sentences", True), ("flat", True)):
            assert_outcome(outcome(name, model, batch, call, watches), expected, f"{name}, {call}, watched: {watches}")
        assert expected[3]["objective"] == pytest.approx(expected[0].item(), abs=1e-3)
        assert expected[3]["eval_mlm_loss"] == expected[3]["mlm_loss"] == pytest.approx(expected[2].item(), abs=1e-3)


@pytest.mark.parametrize("call", [*CALLS, *(f"states, {call}" for call in CALLS if call not in NOT_OF_STATES)])
@pytest.mark.parametrize("watches", [False, True], ids=["ids", "watched"])
def test_every_call_has_the_same_loss(call, watches, bert, batch):
    for name in OPTIONS.keys() - ({"sr_expected"} if call.startswith("states") else {}):  # which needs logits
        expected = outcome(name, bert, batch, "sentences", False)
        assert_outcome(outcome(name, bert, batch, call, watches), expected, name)
        if name != "sr_sent" and not call.startswith("states"):  # which has no loss for each position
            by_position = outcome(name, bert, batch, call, watches, reduction="none")
            total = by_position[0].sum() / batch["labels"].ne(-100).sum()
            torch.testing.assert_close(total, expected[0], msg=name)
            assert by_position[3] == pytest.approx(expected[3], abs=1e-3), name
