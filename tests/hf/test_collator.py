"""Masks of DataCollatorForTrueNegatives: whole words, the rate, and the same ones in a run that resumes."""

from __future__ import annotations

import pytest
import torch
from support.hf_models import LINES, examples, one_update, small_model, small_tokenizer, stop_at, trainer
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate", reason="transformers' Trainer needs accelerate (pip install 'truneg_fairseq[hf]')")

from truneg_fairseq.hf import DataCollatorForTrueNegatives, TrueNegativeTrainer  # noqa: E402

TEXT = "unbelievable stories about rebuilding houses , untold and unfinished ( again ) , restarted yesterday"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def trained(kind):
    """A fast tokenizer of few symbols, so that words are of several pieces."""
    options = {"special_tokens": SPECIAL, "vocab_size": 70, "show_progress": False}
    if kind == "wordpiece":
        tokenizer, way = Tokenizer(models.WordPiece(unk_token="[UNK]")), trainers.WordPieceTrainer(**options)
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    elif kind == "byte_level":
        tokenizer, way = Tokenizer(models.BPE()), trainers.BpeTrainer(**options)
        tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(), decoders.ByteLevel()
    else:
        tokenizer = Tokenizer(models.Unigram() if kind == "unigram" else models.BPE(unk_token="[UNK]"))
        way = trainers.BpeTrainer(**options)
        if kind == "unigram":
            way = trainers.UnigramTrainer(**options, unk_token="[UNK]")
        tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.NFKC(), pre_tokenizers.Metaspace()
    tokenizer.train_from_iterator([TEXT] * 5, way)
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIAL, strict=True))
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)


@pytest.mark.parametrize("kind", ["wordpiece", "byte_level", "unigram", "metaspace_bpe"])
def test_words_are_masked_whole_with_any_tokenizer(kind):
    tokenizer = trained(kind)
    encoded = tokenizer(TEXT, return_offsets_mapping=True)
    hidden = {"mask_replace_prob": 1.0, "random_replace_prob": 0.0}
    collate = DataCollatorForTrueNegatives(tokenizer, mlm_probability=0.3, whole_words=True, **hidden)
    # What a text's blanks say; punctuation does not belong to a word.
    blanks = [index for index, letter in enumerate(TEXT) if letter == " "]
    offsets = [(start + (TEXT[start] == " "), end) for start, end in encoded["offset_mapping"]]
    words = torch.tensor([sum(blank < start for blank in blanks) for start, _ in offsets])
    assert len(set(words.tolist())) < len(words)
    cls, sep, pad = (SPECIAL.index(token) for token in ("[CLS]", "[SEP]", "[PAD]"))
    row = torch.tensor([[cls, *encoded["input_ids"], sep, pad]])
    shares = []
    for seed in range(300):
        masked, labels = collate.mask(row, [seed], 0.0)
        chosen = labels[0].ne(-100)
        assert torch.equal(chosen, masked[0].eq(tokenizer.mask_token_id))
        assert not chosen[[0, -2, -1]].any()
        for word in (number for number, text in enumerate(TEXT.split()) if text.isalpha()):
            assert chosen[1:-2][words == word].unique().numel() == 1
        assert torch.equal(torch.where(labels.eq(-100), masked, labels), row)
        shares.append(chosen[1:-2].float().mean())
    assert torch.stack(shares).mean() == pytest.approx(0.3, abs=0.03)


def test_words_of_subword_nmt_are_masked_whole_by_the_name_of_transformers():
    pieces = ["re@@", "build@@", "ing", "the", "un@@", "told"]
    tokenizer = Tokenizer(models.WordLevel({token: index for index, token in enumerate([*SPECIAL, *pieces])}))
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIAL, strict=True))
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)
    collate = DataCollatorForTrueNegatives(fast, mlm_probability=0.3, whole_word_mask=True, tokenization="subword-nmt")
    assert (collate.mask_replace_prob, collate.random_replace_prob) == (0.8, 0.1)
    row, words = torch.tensor([fast.convert_tokens_to_ids(pieces * 4)]), torch.tensor([0, 0, 0, 1, 2, 2] * 4)
    words += 3 * torch.arange(4).repeat_interleave(6)
    chosen = torch.stack([collate.mask(row, [seed], 0.0)[1][0].ne(-100) for seed in range(100)])
    for word in words.unique():
        assert (chosen[:, words == word].float().mean(1) % 1).eq(0).all()
    assert chosen.float().mean() == pytest.approx(0.3, abs=0.05)


def test_rates_and_replacements_are_berts():
    tokenizer = small_tokenizer()
    collate = DataCollatorForTrueNegatives(tokenizer, mlm_probability=0.3, final_mlm_probability=0.1)
    tokens = torch.tensor(tokenizer(" ".join(LINES * 100))["input_ids"]).repeat(20, 1)
    for progress, rate in ((0.0, 0.3), (0.5, 0.2), (1.0, 0.1)):
        masked, labels = collate.mask(tokens, [1], progress)
        chosen = labels.ne(-100)
        assert chosen.float().mean().item() == pytest.approx(rate, abs=0.01)
        hidden, kept = masked.eq(tokenizer.mask_token_id), masked.eq(tokens)
        share = 1 / len(tokenizer)  # a random token may be the token itself, or [MASK]
        assert hidden[chosen].float().mean().item() == pytest.approx(0.8 + 0.1 * share, abs=0.02)
        assert kept[chosen].float().mean().item() == pytest.approx(0.1 + 0.1 * share, abs=0.02)
        assert kept[~chosen].all()
    with pytest.raises(ValueError, match="final_mlm_probability: found 2"):
        DataCollatorForTrueNegatives(tokenizer, final_mlm_probability=2)


@pytest.mark.parametrize("kind", ["BertForMaskedLM", "electra"])
def test_an_evaluation_has_the_same_masks_in_any_batches_and_order(kind, tmp_path):
    """So has ELECTRA the same samples."""
    machine, _ = one_update(kind, tmp_path, {})
    machine.data_collator = DataCollatorForTrueNegatives(small_tokenizer(), mlm_probability=0.4)
    texts = [*examples(small_tokenizer()), {"input_ids": small_tokenizer()("a mat")["input_ids"]}]
    found = []
    for size, rows in ((1, texts), (2, texts), (4, texts), (3, texts[::-1])):
        machine.args.per_device_eval_batch_size = size
        found.append(machine.evaluate(rows))
    assert found[0]["eval_loss"] > 0
    for other in found[1:]:
        assert other["eval_loss"] == pytest.approx(found[0]["eval_loss"], rel=1e-5)
        assert other["eval_gen_accuracy" if kind == "electra" else "eval_accuracy"] > 0
        assert other.get("eval_disc_recall") == found[0].get("eval_disc_recall")


def masks_of(trainer_class, collator, folder, rows):
    """What a model reads in three epochs of a training: the first batch of each."""
    settings = {"num_train_epochs": 3, "per_device_train_batch_size": 4, "disable_tqdm": True}
    arguments = transformers.TrainingArguments(str(folder), report_to="none", use_cpu=True, **settings)
    model, seen = small_model("BertForMaskedLM"), []
    model.register_forward_pre_hook(lambda module, given, named: seen.append(named["input_ids"]), with_kwargs=True)
    arguments.train_sampling_strategy, arguments.remove_unused_columns = "sequential", trainer_class is Mine
    trainer_class(model, arguments, data_collator=collator, train_dataset=rows).train()
    return torch.stack(seen)


Mine, Stock = TrueNegativeTrainer, transformers.Trainer


@pytest.mark.parametrize("trainer_class", [Mine, Stock], ids=["ours", "stock"])
def test_protected_tokens_are_never_masked_and_epochs_differ(trainer_class, tmp_path):
    """The stock Trainer masks at the initial rate: a control."""
    tokens = [5, *range(6, 16), 5] * 2
    rows = [{"input_ids": tokens, "special_tokens_mask": [int(token == 5) for token in tokens]}] * 4
    hidden = {"mask_replace_prob": 1.0, "random_replace_prob": 0.0, "mlm_probability": 0.5}
    hidden["final_mlm_probability"] = 0.0 if trainer_class is Stock else 0.5
    seen = masks_of(trainer_class, DataCollatorForTrueNegatives(small_tokenizer(), **hidden), tmp_path, rows)
    masked = seen.eq(small_tokenizer().mask_token_id)
    protected = torch.tensor(tokens).eq(5)
    assert not masked[..., protected].any()
    assert masked[..., ~protected].float().mean() == pytest.approx(0.5, abs=0.1)
    assert len({tuple(each.flatten().tolist()) for each in masked.flatten(0, 1)}) > 8


class Last(DataCollatorForTrueNegatives):
    """Masks the last word."""

    def torch_mask_tokens(self, inputs, special_tokens_mask=None, offset_mapping=None):
        labels = torch.full_like(inputs, -100)
        labels[:, -2] = inputs[:, -2]
        return torch.where(labels.eq(-100), inputs, self.tokenizer.mask_token_id), labels


def test_masks_of_a_subclass_are_kept(tmp_path):
    rows = [{"input_ids": small_tokenizer()("the big cat")["input_ids"]}] * 4
    seen = masks_of(Mine, Last(small_tokenizer()), tmp_path, rows)
    assert seen.eq(small_tokenizer().mask_token_id).nonzero()[:, 2].eq(3).all()
    machine = trainer(small_model("BertForMaskedLM"), tmp_path)
    machine.data_collator, machine.eval_dataset = Last(small_tokenizer()), rows
    machine.evaluate()
    assert next(iter(machine.get_eval_dataloader()))["labels"].ne(-100).sum() == 4


class Seen(DataCollatorForTrueNegatives):
    """Notes the share of the training at which it masks."""

    def mask(self, tokens, seed, progress, protected=None):
        self.progress.append(progress)
        return super().mask(tokens, seed, progress, protected)


def run(folder, steps, *, resume=False, **settings):
    """A training whose masking rate falls; its model and the losses that it logged."""
    model = small_model("BertForMaskedLM", hidden_dropout_prob=0.1)
    options = {"max_steps": 6, "save_strategy": "steps", "save_steps": 2, "gradient_accumulation_steps": 2}
    machine = trainer(model, folder, learning_rate=1e-2, **{**options, **settings})
    machine.train_dataset = examples(small_tokenizer()) * 4
    machine.data_collator = Seen(small_tokenizer(), mlm_probability=0.6, final_mlm_probability=0.2, whole_words=True)
    machine.data_collator.progress = []
    machine.add_callback(stop_at(steps))
    machine.train(resume_from_checkpoint=resume or None)
    return machine, model


def test_a_resumed_run_has_the_masks_and_weights_of_an_uninterrupted_one(tmp_path):
    """With a worker that loads, and without."""
    (tmp_path / "whole").mkdir()
    whole, expected = run(tmp_path / "whole", 6, dataloader_num_workers=1)
    assert whole.data_collator.progress == [step / 6 for step in range(6) for _ in range(2)]
    run(tmp_path, 4)
    resumed, found = run(tmp_path, 6, resume=True)
    losses = [[log["loss"] for log in each.state.log_history if "loss" in log] for each in (whole, resumed)]
    assert len(losses[0]) == 6
    assert losses[1] == losses[0]
    for (name, one), (_, other) in zip(expected.named_parameters(), found.named_parameters(), strict=True):
        assert torch.equal(one, other), name
