"""Masks of DataCollatorForTrueNegatives: whole words, the rate, and the same ones in a run that resumes."""

from __future__ import annotations

import pytest
import torch
import transformers
from support.hf_models import (
    LINES,
    assert_same,
    losses,
    one_update,
    rows_of,
    small_electra,
    small_model,
    small_tokenizer,
    stop_at,
    trainer,
    weights,
)
from support.tokenizers_made import fast_tokenizer

from truneg_fairseq.hf import DataCollatorForTrueNegatives, ElectraArguments, TrueNegativeArguments

TEXT = "unbelievable stories about rebuilding houses , untold and unfinished ( again ) , restarted yesterday"
ROLES = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
KINDS = {
    "wordpiece": SPECIAL,
    "byte-level": SPECIAL,
    "unigram": ["<pad>", "<unk>", "<s>", "</s>", "<mask>"],
    "bpe": ["<pad>", "<unk>", "<bos>", "<eos>", "<mask>"],
}


@pytest.mark.parametrize("kind", KINDS)
def test_words_are_masked_whole_with_any_tokenizer(kind, tmp_path):
    file = fast_tokenizer(kind, tmp_path, [TEXT] * 5) / "tokenizer.json"
    names = dict(zip(ROLES, KINDS[kind], strict=True))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(file), **names)
    encoded = tokenizer(TEXT, return_offsets_mapping=True)
    hidden = {"mask_replace_prob": 1.0, "random_replace_prob": 0.0}
    asked = {"whole_word_mask" if kind == "wordpiece" else "whole_words": True}  # by transformers' name, or by ours
    collate = DataCollatorForTrueNegatives(tokenizer, mlm_probability=0.3, **asked, **hidden)
    # What a text's blanks say; punctuation does not belong to a word.
    blanks = [index for index, letter in enumerate(TEXT) if letter == " "]
    offsets = [(start + (TEXT[start] == " "), end) for start, end in encoded["offset_mapping"]]
    words = torch.tensor([sum(blank < start for blank in blanks) for start, _ in offsets])
    assert len(set(words.tolist())) < len(words)
    ends = tokenizer.sep_token_id, tokenizer.pad_token_id
    row = torch.tensor([[tokenizer.cls_token_id, *encoded["input_ids"], *ends]])
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
    inside = 1 + int(words[1:].eq(words[:-1]).nonzero()[0])
    collate.mask(row[:, 1 + inside :], [1], 0.0)  # a text that is cut within a word


def test_a_seed_repeats_the_masks_in_other_loops():
    masks = []
    for seed in (3, 3, 4):
        collate = DataCollatorForTrueNegatives(small_tokenizer(), mlm_probability=0.4, seed=seed)
        masks.append(collate(rows_of(*LINES))["labels"])
    assert torch.equal(masks[0], masks[1]) and not torch.equal(masks[0], masks[2])


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
    collator = DataCollatorForTrueNegatives(small_tokenizer(), mlm_probability=0.4)
    machine, _ = one_update(kind, tmp_path, {}, data_collator=collator)
    texts = rows_of(*LINES, "a mat")
    found = []
    for size, rows in ((1, texts), (2, texts), (4, texts), (3, texts[::-1])):
        machine.args.per_device_eval_batch_size = size
        found.append(machine.evaluate(rows))
    assert found[0]["eval_loss"] > 0
    for other in found[1:]:
        assert other["eval_loss"] == pytest.approx(found[0]["eval_loss"], rel=1e-5)
        assert other["eval_gen_accuracy" if kind == "electra" else "eval_accuracy"] > 0
        assert other.get("eval_disc_recall") == found[0].get("eval_disc_recall")


def masks_of(kind, collator, folder, rows):
    """What a model reads in three epochs of a training: the first batch of each."""
    model, seen = small_model(), []
    model.register_forward_pre_hook(lambda module, given, named: seen.append(named["input_ids"]), with_kwargs=True)
    settings = {"num_train_epochs": 3, "per_device_train_batch_size": 4, "train_sampling_strategy": "sequential"}
    settings |= {"remove_unused_columns": kind is None, "data_collator": collator, "processing_class": None}
    trainer(model, folder, kind=kind, train_dataset=rows, **settings).train()
    return torch.stack(seen)


@pytest.mark.parametrize("kind", [None, transformers.Trainer], ids=["ours", "stock"])
def test_protected_tokens_are_never_masked_and_epochs_differ(kind, tmp_path):
    """The stock Trainer masks at the initial rate: a control."""
    tokens = [5, *range(6, 16), 5] * 2
    rows = [{"input_ids": tokens, "special_tokens_mask": [int(token == 5) for token in tokens]}] * 4
    hidden = {"mask_replace_prob": 1.0, "random_replace_prob": 0.0, "mlm_probability": 0.5}
    hidden["final_mlm_probability"] = 0.0 if kind else 0.5
    seen = masks_of(kind, DataCollatorForTrueNegatives(small_tokenizer(), **hidden), tmp_path, rows)
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
    rows = rows_of("the big cat") * 4
    seen = masks_of(None, Last(small_tokenizer()), tmp_path, rows)
    assert seen.eq(small_tokenizer().mask_token_id).nonzero()[:, 2].eq(3).all()
    machine = trainer(small_model(), tmp_path, data_collator=Last(small_tokenizer()), eval_dataset=rows)
    machine.evaluate()
    assert next(iter(machine.get_eval_dataloader()))["labels"].ne(-100).sum() == 4


class Seen(DataCollatorForTrueNegatives):
    """Notes the share of the training at which it masks."""

    def mask(self, tokens, seed, progress, protected=None):
        self.progress.append(progress)
        return super().mask(tokens, seed, progress, protected)


def run(kind, folder, steps, *, resume=None, **settings):
    """A training whose masking rate and share of soft targets fall, which stops in mid-epoch."""
    collator = Seen(small_tokenizer(), mlm_probability=0.6, final_mlm_probability=0.2, whole_words=True)
    collator.progress = []
    options = {"max_steps": 6, "save_strategy": "steps", "save_steps": 2, "gradient_accumulation_steps": 2}
    options |= {"learning_rate": 1e-2, "data_collator": collator, "train_dataset": rows_of(*LINES) * 4, **settings}
    is_electra = kind == "electra"
    model = small_electra() if is_electra else small_model(hidden_dropout_prob=0.1)
    shares = (ElectraArguments if is_electra else TrueNegativeArguments)(soft_targets="uniform=0.8..0")
    machine = trainer(model, folder, shares, callbacks=[stop_at(steps)], **options)
    machine.train(resume_from_checkpoint=resume)
    return machine


@pytest.mark.parametrize("kind", ["BertForMaskedLM", "electra"])
def test_a_resumed_run_has_the_masks_samples_and_weights_of_an_uninterrupted_one(kind, tmp_path):
    """With a worker that loads, and without."""
    whole = run(kind, tmp_path / "whole", 6, dataloader_num_workers=1)
    assert whole.data_collator.progress == [step / 6 for step in range(6) for _ in range(2)]
    run(kind, tmp_path, 4)
    resumed = run(kind, tmp_path, 6, resume=True)
    assert len(losses(whole)) == 6
    assert losses(resumed) == losses(whole)
    assert_same(weights(resumed), weights(whole), rtol=0, atol=0)
