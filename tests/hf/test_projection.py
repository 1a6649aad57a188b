"""The vocabulary is projected at the masked positions only, with the losses and gradients of all."""

from __future__ import annotations

import logging

import pytest
import torch
from support.convert_models import randomize
from support.hf_models import KINDS, PAD, ROWS, assert_same, batch, electra_halves, small_model, trainer

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate", reason="transformers' Trainer needs accelerate (pip install 'truneg_fairseq[hf]')")

from truneg_fairseq.hf import ElectraArguments, ElectraForReplacedTokens, TrueNegativeArguments  # noqa: E402

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


def loss_and_gradients(machine, model, inputs, **options):
    model.zero_grad()
    torch.manual_seed(1)
    loss = machine.compute_loss(model, dict(inputs), **options)
    loss = loss[0] if isinstance(loss, tuple) else loss
    loss.backward()
    return loss.detach(), {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def assert_masked_is_all(machine, model):
    """The loss and gradients of the masked positions are those of all, which a call for outputs projects."""
    inputs, rows = batch(), projected_rows(model)
    expected, theirs = loss_and_gradients(machine, model, inputs, return_outputs=True)
    found, gradients = loss_and_gradients(machine, model, inputs)
    assert rows == [inputs["labels"].numel(), int((inputs["labels"] != -100).sum())]
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)
    assert gradients.keys() == theirs.keys()
    assert_same(gradients, theirs, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("kind", "settings"), CASES, ids=[f"{kind}{'+'.join(options)}" for kind, options in CASES])
def test_every_family_has_the_losses_and_gradients_of_all_positions(kind, settings, tmp_path):
    model = model_of(kind, settings).train()
    assert_masked_is_all(trainer(model, tmp_path, TrueNegativeArguments(sr_sent_weight=2.0)), model)


def test_electras_generator_too(tmp_path):
    model = ElectraForReplacedTokens.of(*electra_halves()).train()
    assert_masked_is_all(trainer(model, tmp_path, ElectraArguments(soft_targets="uniform=0.1")), model)


def test_outputs_that_are_asked_for_have_every_position(tmp_path):
    """Those of evaluations are in test_promises.py; the model of a trainer is a model like others."""
    model = small_model()
    rows = projected_rows(model)
    trainer(model, tmp_path).evaluate()
    assert rows[0] < 14
    with torch.no_grad():
        assert model(**batch()).logits.dim() == 3


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
