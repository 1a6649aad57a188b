"""The vocabulary is projected at the masked positions only, with the losses and gradients of all."""

from __future__ import annotations

import logging

import pytest
import torch
import transformers
from support.convert_models import randomize
from support.hf_models import KINDS, PAD, ROWS, assert_same, batch, small_electra, small_model, trainer

from truneg_fairseq.hf import ElectraArguments, TrueNegativeArguments

OTHERS = [f"{name}ForMaskedLM" for name in ("XLMRoberta", "Camembert", "Albert", "MPNet", "ConvBert")]
LATER = {"DebertaForMaskedLM": {"legacy": False}, "DebertaV2ForMaskedLM": {"legacy": False}}
CASES = [*((kind, {}) for kind in (*KINDS, *OTHERS)), *LATER.items()]
CASES += [("ModernBertForMaskedLM", {"sparse_prediction": True})]


def model_of(kind, settings):
    if kind in KINDS and "legacy" not in settings:
        return small_model(kind, **settings)
    sizes = {**KINDS.get(kind, KINDS["BertForMaskedLM"]), "vocab_size": ROWS, "pad_token_id": PAD, **settings}
    sizes |= {"embedding_size": 32, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    model_class = getattr(transformers, kind)
    return randomize(model_class(model_class.config_class(**sizes)))


def projected_rows(model):
    """The rows of every look at the output embeddings, which a hook of this test sees."""
    rows = []
    size = model.get_input_embeddings().num_embeddings
    last = [part for part in model.modules() if getattr(getattr(part, "bias", None), "shape", None) == (size,)][-1]
    last.register_forward_hook(lambda module, given, output: rows.append(output.numel() // output.size(-1)))
    return rows


def gradients(model, loss):
    """Those of a loss, by name."""
    model.zero_grad()
    loss.backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def assert_same_loss(model, found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)
    assert_same(gradients(model, found), gradients(model, expected), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("kind", "settings"), CASES, ids=[f"{kind}{'+'.join(options)}" for kind, options in CASES])
def test_every_family_has_the_models_own_loss_and_gradients(kind, settings, tmp_path):
    """With regularization the loss of a call for outputs, which projects every position."""
    model, inputs = model_of(kind, settings).train(), batch()
    machine, rows = trainer(model, tmp_path), projected_rows(model)
    assert_same_loss(model, machine.compute_loss(model, dict(inputs)), model(**inputs).loss)
    assert rows[0] == int((inputs["labels"] != -100).sum())
    machine = trainer(model, tmp_path, TrueNegativeArguments(sr_sent_weight=2.0))
    whole, _ = machine.compute_loss(model, dict(inputs), return_outputs=True)
    assert_same_loss(model, machine.compute_loss(model, dict(inputs)), whole)


def test_electras_generator_too(tmp_path):
    model, inputs = small_electra().train(), batch()
    machine, rows = trainer(model, tmp_path, ElectraArguments(soft_targets="uniform=0.1")), projected_rows(model)
    whole, _ = machine.compute_loss(model, dict(inputs), return_outputs=True)
    assert_same_loss(model, machine.compute_loss(model, dict(inputs)), whole)
    assert rows == [inputs["labels"].numel(), int((inputs["labels"] != -100).sum())]


def test_an_evaluation_of_the_loss_alone_projects_masked_positions(tmp_path):
    model = small_model()
    rows = projected_rows(model)
    trainer(model, tmp_path).evaluate()
    assert rows[0] < 14


class OwnHead(torch.nn.Module):
    """A head that looks at the whole sentence."""

    def __init__(self, head):
        super().__init__()
        self.head = head

    def forward(self, states):
        return self.head(states - states.mean(1, keepdim=True))


def test_an_unknown_head_projects_all_positions_and_warns_once(tmp_path, caplog):
    model = small_model().train()
    model.cls = OwnHead(model.cls)
    inputs = batch()
    with caplog.at_level(logging.WARNING, logger="truneg_fairseq"):
        machine = trainer(model, tmp_path)
        for _ in range(2):
            found = machine.compute_loss(model, dict(inputs))
    torch.testing.assert_close(found, model(**inputs).loss)
    (line,) = [message for message in caplog.messages if "head is not known" in message]
    assert line.startswith("BertForMaskedLM: ")
