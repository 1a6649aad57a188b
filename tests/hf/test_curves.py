"""Training in transformers' Trainer: its loss curve is the fairseq criterion's on the same batches."""

from __future__ import annotations

import pytest
import torch
from support.convert_models import TOKENS
from support.fairseq_twin import FairseqTwin
from support.hf_models import batch, electra_halves, own_mistakes, small_model, small_tokenizer

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate", reason="transformers' Trainer needs accelerate (pip install 'truneg_fairseq[hf]')")
pytest.importorskip("fairseq")

from truneg_fairseq.hf import (  # noqa: E402
    ElectraArguments,
    ElectraForReplacedTokens,
    ElectraTrainer,
    TrueNegativeArguments,
    TrueNegativeTrainer,
)

UPDATES, LEARNING_RATE = 6, 3e-3
BATCHES = [batch(small_tokenizer(), every=2 + update % 3) for update in range(UPDATES)]


def train(trainer_class, model, arguments, folder):
    """The losses that Trainer logs: what is minimised, and the uncorrected one."""
    batches = iter(BATCHES)
    settings = transformers.TrainingArguments(
        str(folder / "out"),
        max_steps=UPDATES,
        logging_steps=1,
        learning_rate=LEARNING_RATE,
        lr_scheduler_type="constant",
        max_grad_norm=0.0,
        per_device_train_batch_size=1,
        **{"save_strategy": "no", "report_to": "none", "use_cpu": True, "disable_tqdm": True},
    )
    machine = trainer_class(
        model,
        settings,
        true_negatives=arguments,
        data_collator=lambda _: dict(next(batches)),
        train_dataset=[{"input_ids": []}] * UPDATES,
        processing_class=small_tokenizer(),
    )
    machine.train()
    plain = machine.rates[0].name
    return [(log["loss"], log[plain]) for log in machine.state.log_history if "loss" in log]


def train_twin(twin):
    optimizer = torch.optim.AdamW(twin.model.parameters(), lr=LEARNING_RATE, weight_decay=0.0)
    losses = []
    for inputs in BATCHES:
        optimizer.zero_grad()
        loss, log = twin(inputs)
        loss.backward()
        optimizer.step()
        losses.append((loss.item(), float(log["loss"] / log["sample_size"])))
    return losses


def assert_same_curve(found, expected):
    """To 1e-4 of the loss at every update, while the loss itself changes a hundred times as much."""
    assert len(found) == UPDATES
    torch.testing.assert_close(torch.tensor(found), torch.tensor(expected), rtol=1e-4, atol=1e-4)
    first, *later = (loss for loss, _ in expected)
    assert min(abs(loss - first) for loss in later) > 1e-2 * first


def excused(model, path, **options):
    own = own_mistakes(model, BATCHES[0], path)
    return {"hc_weight": 1.0, "synonym_source": "tsv", "synonym_tsv": str(own), "tokenization": "wordpiece", **options}


@pytest.mark.parametrize("options", [{}, {"sr_word_weight": 0.5, "sr_sent_weight": 2.0}], ids=["hc", "hc+sr"])
def test_of_a_masked_lm(options, tmp_path):
    model = small_model("BertForMaskedLM", vocab_size=len(TOKENS))
    arguments = TrueNegativeArguments(**excused(model, tmp_path / "own.tsv", **options))
    twin = FairseqTwin([model], arguments, tmp_path)
    assert_same_curve(train(TrueNegativeTrainer, model, arguments, tmp_path), train_twin(twin))


@pytest.mark.parametrize(
    "options",
    [{}, {"sr_word_weight": 0.5, "sr_sent_weight": 2.0, "discriminator_false_negatives": "relabel"}],
    ids=["hc", "hc+sr+relabel"],
)
def test_of_electra(options, tmp_path, monkeypatch):
    discriminator, generator = electra_halves()
    arguments = ElectraArguments(**excused(generator, tmp_path / "own.tsv", **options))
    twin = FairseqTwin([discriminator, generator], arguments, tmp_path)
    noises = [-torch.empty((b["labels"] != -100).sum(), len(TOKENS)).exponential_().log() for b in BATCHES]

    ours, theirs = iter(noises), iter(noises)
    monkeypatch.setattr("truneg_fairseq.hf.electra.sample_tokens", lambda logits: (logits + next(ours)).argmax(-1))
    replace = lambda judged: (judged.logits.detach() + next(theirs)[:, twin.rows]).argmax(-1)  # noqa: E731
    monkeypatch.setattr(twin.criterion, "sample_replacements", replace)
    model = ElectraForReplacedTokens.of(discriminator, generator)
    assert_same_curve(train(ElectraTrainer, model, arguments, tmp_path), train_twin(twin))
