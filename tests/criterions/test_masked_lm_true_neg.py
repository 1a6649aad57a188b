"""The criterions inside real fairseq objects: tasks, models, trainers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from fairseq.logging import metrics
from support.trainings import (
    BOUNDS,
    acceptance,
    assert_close_to_fp32,
    assert_same_steps,
    batches,
    build,
    steps,
    table_of,
)

OFF = [
    "masked_lm_true_neg --synonym-table empty.npz --tokenization wordpiece",
    "masked_lm_hc --synonym-table empty.npz --tokenization wordpiece",
    "masked_lm_sr_word --sr-word-weight 0",
    "masked_lm_sr_sent --sr-sent-weight 0",
    "masked_lm_true_neg --uniform-targets 0 --corpus-targets 0 --nearest-targets 0",  # counts: there are none
]


@pytest.mark.parametrize("flags", OFF)
def test_without_weights_every_step_is_exactly_stock_masked_lm(flags, data_bin, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table_of(data_bin, [], tmp_path / "empty.npz")
    expected = steps(data_bin, 4, "--criterion", "masked_lm")
    assert_same_steps(steps(data_bin, 4, "--criterion", *flags.split()), expected)


def test_rates_are_those_of_the_counts(data_bin):
    _, _, _, criterion = build(data_bin, "--criterion", "masked_lm_hc", "--tokenization", "wordpiece")
    first = {"loss": 3.0, "ntokens": 9, "nsentences": 2, "sample_size": 4, "correct": 1, "corrected": 1}
    first |= {"corrected_sentences": 1, "objective": 2.0, "objective_size": 4}
    second = {"loss": 5.0, "ntokens": 9, "nsentences": 2, "sample_size": 6, "correct": 5, "corrected": 0}
    second |= {"corrected_sentences": 0, "objective": 5.0, "objective_size": 6}
    with metrics.aggregate(new_root=True) as aggregate:
        criterion.reduce_metrics([first, second])
        criterion.reduce_metrics([second])
        values = aggregate.get_smoothed_values()
    assert values["accuracy"] == pytest.approx(100 * 11 / 16)
    assert values["hc_pred"] == pytest.approx(100 * 1 / 5)
    assert values["hc_iter"] == pytest.approx(100 * 1 / 6, abs=1e-4)
    assert values["loss"] == pytest.approx(13 / 16 / np.log(2), abs=1e-3)
    assert values["objective"] == pytest.approx(12 / 16 / np.log(2), abs=1e-4)


def test_a_batch_without_masked_tokens_has_no_loss_and_no_rates(data_bin):
    weights = ("--hc-weight", 1, "--sr-word-weight", 1, "--sr-sent-weight", 1)
    flags = ("--criterion", "masked_lm_true_neg", "--tokenization", "wordpiece", *weights)
    _, task, model, criterion = build(data_bin, *flags)
    sample = batches(task, 1)[0]
    sample["target"] = torch.full_like(sample["target"], task.source_dictionary.pad())
    loss, size, log = criterion(model, sample)
    assert (float(loss), int(size)) == (0, 0)
    loss.backward()
    assert all(torch.all(p.grad == 0) for p in model.parameters() if p.grad is not None)
    with metrics.aggregate(new_root=True) as aggregate:
        criterion.reduce_metrics([log])
        values = aggregate.get_smoothed_values()
    assert (values["hc_pred"], values["accuracy"]) == (0, 0)


@pytest.mark.parametrize("special", ["</s>", "<pad>"])
@pytest.mark.parametrize("arch", ["roberta_base", "truneg_bert_tiny"])
def test_a_predicted_special_token_is_a_word_like_others(arch, special, data_bin):
    """It begins no segment, hides no place and shifts none: a word with its embedding gives the same states."""
    _, task, model, criterion = build(data_bin, "--arch", arch, "--criterion", "masked_lm_sr_sent")
    model.eval()
    dictionary, sample = task.source_dictionary, batches(task, 1)[0]
    special, word = dictionary.index(special), dictionary.index("table")
    table = model.encoder.sentence_encoder.embed_tokens.weight
    table.data[special] = table.data[word]
    judged = criterion.predict(model, sample)
    states = {}
    for token in (special, word):
        filled = judged._replace(prediction=torch.full_like(judged.prediction, token))
        states[token] = criterion.passes(model, sample, filled).filled()[1]
    torch.testing.assert_close(states[special], states[word])


WORDPIECE = ("--tokenization", "wordpiece")
TRUE_NEG = ("--criterion", "masked_lm_true_neg")
OBJECTIVES = {
    "masked_lm": ("--criterion", "masked_lm"),
    "hc_sr_word_sr_sent": (*TRUE_NEG, "--hc-weight", 1, "--sr-word-weight", 1, "--sr-sent-weight", 1, *WORDPIECE),
    "detectors": (
        *(*TRUE_NEG, "--hc-weight", 1, "--hc-detector", "embedding+context", "--hc-threshold", 0),
        *("--hc-acceptance-model", "embedding_context.json"),
    ),
    "synonym_targets": (*TRUE_NEG, "--synonym-targets", "0.1", *WORDPIECE),
}


@pytest.mark.parametrize("dtype", BOUNDS, ids=["fp16", "bf16"])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_half_precision_is_close_to_fp32(name, dtype, data_bin, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    acceptance(tmp_path, "embedding", "context")

    def made():
        _, task, model, criterion = build(data_bin, *OBJECTIVES[name], "--dropout", 0, "--attention-dropout", 0)
        # Random logits are nearly alike, and rounding would choose the predictions.
        torch.nn.init.normal_(model.encoder.lm_head.bias, generator=torch.Generator().manual_seed(1))
        return model, criterion, batches(task, 1)[0]

    assert_close_to_fp32(made, dtype)


def test_hard_correction_in_a_sequence(data_bin, tmp_path):
    """ "main" for "primary" is corrected where "primary" stands alone, not where it is continued by "##s"."""
    table = table_of(data_bin, [("primary", "main"), ("##s", "main"), ("stay", "stay")], tmp_path / "t.npz")
    _, task, model, criterion = build(
        data_bin, "--criterion", "masked_lm_hc", "--synonym-table", table, "--tokenization", "wordpiece"
    )
    index = task.source_dictionary.index
    primary, main, piece, of, stay, mask = map(index, ("primary", "main", "##s", "of", "stay", "<mask>"))
    bos, pad, eos = map(index, ("<s>", "<pad>", "</s>"))
    target = torch.tensor(
        [
            [pad, primary, pad, pad, pad, pad],  # alone: corrected
            [pad, primary, piece, pad, pad, pad],  # continued: neither the word nor its piece
            [pad, pad, stay, pad, pad, pad],  # predicted right, though the table lists the word itself
            [pad, of, pad, pad, pad, pad],  # a mismatch without synonyms
        ]
    )
    source = torch.tensor(
        [
            [bos, mask, of, eos, pad, pad],
            [bos, mask, mask, of, eos, pad],
            [bos, of, mask, eos, pad, pad],
            [bos, mask, primary, eos, pad, pad],
        ]
    )
    sample = {
        "net_input": {"src_tokens": source, "src_lengths": torch.tensor([4, 5, 4, 4])},
        "target": target,
        "ntokens": 17,
        "nsentences": 4,
    }
    forced = F.one_hot(torch.tensor([main, main, main, stay, primary]), len(task.source_dictionary))
    model.encoder.lm_head.register_forward_hook(lambda head, inputs, logits: logits + 50 * forced)
    model.eval()
    judged = criterion.objective.judge(criterion.predict(model, sample), None)
    assert torch.equal(judged.prediction, forced.argmax(-1))
    assert judged.is_false_negative.tolist() == [True, False, False, False, False]
    loss, sample_size, log = criterion(model, sample)
    assert int(sample_size) == 5
    counts = {key: int(log[key]) for key in ("correct", "corrected", "corrected_sentences", "sample_size")}
    assert counts == {"correct": 1, "corrected": 1, "corrected_sentences": 1, "sample_size": 5}
    gold = judged.gold
    nll = F.cross_entropy(judged.logits, gold, reduction="none")
    assert float(loss) == pytest.approx(float(nll[1:].sum()), rel=1e-6)
    assert float(log["loss"]) == pytest.approx(float(nll.sum()), rel=1e-6)
    assert float(log["objective"]) == pytest.approx(float(loss), rel=1e-6)
