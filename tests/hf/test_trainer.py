"""Losses and gradients of the Trainer for transformers' masked LMs: the models' own, and the fairseq criterion's."""

from __future__ import annotations

import json

import pytest
import torch
import transformers
from support.convert_models import TOKENS
from support.hf_models import (
    LINES,
    MASK,
    PAD,
    ROWS,
    assert_same,
    batch,
    losses,
    one_update,
    rows_of,
    small_electra,
    small_model,
    small_tokenizer,
    trainer,
    weights,
)

from truneg_fairseq.commands.main import main
from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.hf import ElectraArguments, TrueNegativeArguments, vocabulary_of
from truneg_fairseq.objectives.build import read_corpus_targets
from truneg_fairseq.synonyms.building import cache_path


def test_counts_of_a_text_are_the_tokenizers_also_for_a_model_with_more_embeddings(tmp_path):
    """As of DeBERTa-v3, and of vocabularies that are filled up to a multiple of 64."""
    small_tokenizer().save_pretrained(tmp_path / "tokenizer")
    (tmp_path / "text.txt").write_text("\n".join(LINES))
    given = ["--text", str(tmp_path / "text.txt"), "--tokenizer", str(tmp_path / "tokenizer")]
    main(["data", "counts", *given, "--output", str(tmp_path / "counts.npz")])
    options, inputs = {"soft_targets": "corpus=0.5", "corpus_counts": str(tmp_path / "counts.npz")}, batch(every=4)
    model = small_model().train()
    assert model.get_input_embeddings().num_embeddings == ROWS > len(TOKENS)
    found = trainer(model, tmp_path, TrueNegativeArguments(**options)).compute_loss(model, dict(inputs))
    log_p, target = model(**inputs).logits.log_softmax(-1), torch.zeros(*inputs["labels"].shape, ROWS)
    masked, originals = inputs["labels"] != -100, inputs["input_ids"].where(inputs["labels"] == -100, inputs["labels"])
    corpus = read_corpus_targets(tmp_path / "counts.npz", TOKENS)
    for row, place in masked.nonzero().tolist():
        gold = originals[row, place]
        left, right = (originals[row, place + step][None] for step in (-1, 1))
        tokens, q = corpus.between(left, gold[None], right, torch.tensor([True]))
        target[row, place, gold] = 1 - 0.5 * float(q.sum())
        target[row, place].index_add_(0, tokens[0], 0.5 * q[0])
    assert target[masked].amax(1).min() < 1
    torch.testing.assert_close(found, -(target * log_p)[masked].sum() / masked.sum(), rtol=1e-4, atol=1e-5)


def test_a_teacher_without_a_head_or_with_another_tokenizer_is_refused(tmp_path):
    small_model().bert.save_pretrained(tmp_path / "encoder")
    options = TrueNegativeArguments(soft_targets="teacher=0.3", teacher=str(tmp_path / "encoder"))
    with pytest.raises(TrueNegError, match=r"encoder: has no cls\.predictions\..*; expected a whole masked LM"):
        trainer(small_model(), tmp_path, options)
    options = TrueNegativeArguments(soft_targets="teacher=0.3", teacher=str(tmp_path / "none"))
    with pytest.raises(TrueNegError, match=r"--teacher .*none: cannot be loaded \(.*; expected a masked LM"):
        trainer(small_model(), tmp_path, options)
    small_model().save_pretrained(tmp_path / "teacher")
    (tmp_path / "teacher" / "vocab.txt").write_text("\n".join([*TOKENS[:5], *reversed(TOKENS[5:])]))
    transformers.BertTokenizerFast(str(tmp_path / "teacher" / "vocab.txt")).save_pretrained(tmp_path / "teacher")
    options = TrueNegativeArguments(soft_targets="teacher=0.3", teacher=str(tmp_path / "teacher"))
    with pytest.raises(TrueNegError, match=r"teacher: its token 5 is '.+', the model's '.+'; expected a teacher with"):
        trainer(small_model(), tmp_path, options)


def test_what_is_missing_is_named(tmp_path):
    sizes = {"d_model": 8, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8}
    sizes |= {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "vocab_size": ROWS}
    bart = transformers.BartForConditionalGeneration(transformers.BartConfig(**sizes))
    with pytest.raises(TrueNegError, match="BartForConditionalGeneration has a decoder; expected an encoder"):
        trainer(bart, tmp_path)
    with pytest.raises(ValueError, match="processing_class: found none, expected the model's tokenizer"):
        trainer(small_model(), tmp_path, processing_class=None, data_collator=None)
    machine = trainer(small_model(), tmp_path, data_collator=transformers.DataCollatorWithPadding(small_tokenizer()))
    with pytest.raises(ValueError, match=r"labels: found none in a batch, expected .* as DataCollatorForLanguageM"):
        machine.train()
    causal = batch() | {"labels": batch()["input_ids"].masked_fill(batch()["attention_mask"].eq(0), -100)}
    with pytest.raises(TrueNegError, match=r"labels: found one at every token \(a causal LM's\?\), expected the orig"):
        machine.compute_loss(machine.model, causal)


@pytest.mark.parametrize("electra", [False, True], ids=["masked LM", "ELECTRA"])
def test_a_batch_without_masked_tokens_has_no_gradient(electra, tmp_path):
    """Short texts have some; 0 / 0 would make every weight NaN."""
    model, inputs = (small_electra() if electra else small_model()).train(), batch()
    inputs["labels"].fill_(-100)
    options = ElectraArguments() if electra else TrueNegativeArguments(sr_sent_weight=1.0)
    loss = trainer(model, tmp_path, options).compute_loss(model, inputs, num_items_in_batch=torch.tensor(0))
    loss.backward()
    assert loss == 0
    assert not any(parameter.grad.any() for parameter in model.parameters() if parameter.grad is not None)


@pytest.mark.parametrize(("averaged", "share"), [(True, 3), (False, 1)])
def test_the_loss_is_over_the_masked_tokens_of_all_processes(averaged, share, tmp_path, monkeypatch):
    """Their gradients are averaged: a third of three times the loss."""
    model, inputs = small_model().train(), batch()
    machine = trainer(model, tmp_path, average_tokens_across_devices=averaged)
    alone = machine.compute_loss(model, dict(inputs), num_items_in_batch=torch.tensor(7))
    monkeypatch.setattr(type(machine.accelerator), "num_processes", 3)
    torch.testing.assert_close(
        machine.compute_loss(model, dict(inputs), num_items_in_batch=torch.tensor(7)), share * alone
    )


def test_a_padding_token_that_is_predicted_moves_no_position(tmp_path):
    """RoBERTa numbers the tokens that are not padding."""
    model, inputs, seen = small_model("RobertaForMaskedLM").train(), batch(), []
    with torch.no_grad():
        model.get_output_embeddings().bias[PAD] = 50.0
    hook = lambda module, given, output: seen.append(given[0])  # noqa: E731
    model.roberta.embeddings.position_embeddings.register_forward_hook(hook)
    trainer(model, tmp_path, TrueNegativeArguments(sr_sent_weight=1.0)).compute_loss(model, inputs)
    assert len(seen) == 3
    for positions in seen:
        assert torch.equal(positions.expand_as(inputs["input_ids"]), seen[0])


def test_a_tokenizers_table_is_built_once_and_found_again(tmp_path, caplog, wordnet):
    options = TrueNegativeArguments(hc_weight=1.0, hc_detector="embedding", tokenization="wordpiece")
    with caplog.at_level("INFO", logger="truneg_fairseq"):
        for _ in range(2):
            trainer(small_model(), tmp_path, options)
    assert sum("building it from antonyms and other forms" in message for message in caplog.messages) == 1
    (table,) = (tmp_path / "cache" / "truneg_fairseq").glob("*/exclusions.npz")
    vocabulary = vocabulary_of(small_tokenizer(), "wordpiece", ROWS)
    assert table.parent == cache_path(vocabulary, None).with_suffix("")
    assert vocabulary.words[TOKENS.index("cat")] == "cat"
    assert vocabulary.words[MASK] is vocabulary.words[ROWS - 1] is None


OPTIONS = {
    "BertForMaskedLM": {"sr_word_weight": 0.5, "soft_targets": "embedding=0.2"},
    "electra": {"hc_weight": 1.0, "sr_sent_weight": 20.0, "soft_targets": "embedding=0.2"},
}


@pytest.mark.parametrize("kind", OPTIONS)
def test_bf16_autocast(kind, tmp_path, monkeypatch):
    """Half precision rounds the model's products, not the objective: losses agree to bf16's 8 bits."""
    inside = []
    used = lambda model, **_: inside.append(torch.is_autocast_enabled("cpu")) or model.get_input_embeddings().weight  # noqa: E731
    monkeypatch.setattr("truneg_fairseq.objectives.loop.embeddings_in_use", used)
    whole = one_update(kind, tmp_path, OPTIONS[kind], per_device_train_batch_size=4)
    half = one_update(kind, tmp_path, OPTIONS[kind], bf16=True, per_device_train_batch_size=4)
    assert inside and not any(inside)
    assert all(parameter.dtype == torch.float32 for parameter in half[1].parameters())
    (exact,), (rounded,) = losses(whole[0]), losses(half[0])
    assert rounded != exact == pytest.approx(rounded, rel=2e-2)
    for (name, one), (_, other) in zip(whole[1].named_parameters(), half[1].named_parameters(), strict=True):
        torch.testing.assert_close(other, one, rtol=2e-2, atol=2e-2 * one.abs().max().item(), msg=name)


def test_every_folder_with_weights_says_how_they_came_about_and_a_run_that_continues_what_differs(tmp_path, caplog):
    def run(resume, base="bert", weight=0.5, **settings):
        model = small_model()
        model.name_or_path = base
        settings = {"save_strategy": "steps", "save_steps": 1, "max_steps": 2, "num_train_epochs": 1, **settings}
        options = TrueNegativeArguments(sr_sent_weight=weight)
        machine = trainer(model, tmp_path, options, gradient_accumulation_steps=2, **settings)
        machine.train(resume_from_checkpoint=resume)
        machine.save_model()
        return weights(machine)

    assert_same(run(None), type(small_model()).from_pretrained(tmp_path / "out").state_dict(), rtol=0, atol=0)
    for folder in ("checkpoint-1", "checkpoint-2", "."):
        record = json.loads((tmp_path / "out" / folder / "true_negatives.json").read_text())
        assert record["true_negatives"]["sr_sent_weight"] == 0.5
        assert record["base_model"] == "bert"
        assert record["data"]["train"].startswith("6 examples (CRC ")
        assert record["training"]["sequences_in_an_update"] == 4
        assert record["masks"]["mlm_probability"] == 0.4
    run(True, per_device_train_batch_size=1, auto_find_batch_size=True)
    assert not [message for message in caplog.messages if "the training continues with another" in message]
    run(True, "roberta", 0.0, train_dataset=[*(rows_of(*LINES) * 2)[:-1], *rows_of("a cat")], seed=7)
    found = [message for message in caplog.messages if "the training continues with another" in message]
    lines = ["base_model bert -> roberta", "data.train 6", "true_negatives.sr_sent_weight 0.5 -> 0.0", "seed 42 -> 7"]
    assert len(found) == len(lines) and all(any(line in message for message in found) for line in lines)
    record = json.loads((tmp_path / "out" / "true_negatives.json").read_text())
    assert record["base_model"] == "bert", "whose weights went on"
    assert len(record["changes"]) == len(lines)
    assert all(f"another {change.partition(' on: ')[2]}" in " ".join(found) for change in record["changes"])
