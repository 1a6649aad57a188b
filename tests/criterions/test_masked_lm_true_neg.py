"""The criterions inside real fairseq objects: tasks, models, trainers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils, tasks
from support.trainings import batches, build, configuration, steps, table_of, trainer_of

OFF = [
    "masked_lm_true_neg --synonym-table empty.npz --tokenization wordpiece",
    "masked_lm_hc --synonym-table empty.npz --tokenization wordpiece",
    "masked_lm_sr_word --sr-word-weight 0",
    "masked_lm_sr_sent --sr-sent-weight 0",
    "masked_lm_true_neg --target-smoothing-weight 0 --target-smoothing uniform",
    "masked_lm_true_neg --target-smoothing-weight 0 --target-smoothing synonyms",
    "masked_lm_true_neg --target-smoothing-weight 0 --target-smoothing self",
]


@pytest.mark.parametrize("flags", OFF)
def test_without_weights_every_step_is_exactly_stock_masked_lm(flags, data_bin, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table_of(data_bin, [], tmp_path / "empty.npz")
    expected, expected_parameters = steps(data_bin, 4, "--criterion", "masked_lm")
    actual, parameters = steps(data_bin, 4, "--criterion", *flags.split())
    for (loss, gradients), (expected_loss, expected_gradients) in zip(actual, expected, strict=True):
        assert loss == expected_loss
        assert gradients.keys() == expected_gradients.keys()
        for name, gradient in gradients.items():
            assert torch.equal(gradient, expected_gradients[name]), name
    for name, parameter in parameters.items():
        assert torch.equal(parameter, expected_parameters[name]), name


def forced(model, gold_to_prediction: dict[int, int]):
    """Makes the model predict, at every masked position, a chosen token for each gold token."""
    target_holder: dict[str, torch.Tensor] = {}
    head = model.encoder.lm_head
    stock = head.forward

    def forward(features, masked_tokens=None, **kwargs):
        logits = stock(features, masked_tokens=masked_tokens, **kwargs)
        gold = target_holder["target"][masked_tokens]
        bonus = torch.zeros_like(logits)
        for row, token in enumerate(gold.tolist()):
            bonus[row, gold_to_prediction.get(token, token)] = 50.0
        return logits + bonus

    head.forward = forward
    return target_holder


def test_hard_correction_in_a_sequence(data_bin, tmp_path):
    """ "main" for "primary" is corrected where "primary" stands alone, not where it is continued by "##s"."""
    table = table_of(data_bin, [("primary", "main"), ("##s", "main"), ("stay", "stay")], tmp_path / "t.npz")
    _, task, model, criterion = build(
        data_bin, "--criterion", "masked_lm_hc", "--synonym-table", table, "--tokenization", "wordpiece"
    )
    index = task.source_dictionary.index
    primary, main, piece, of, mask = index("primary"), index("main"), index("##s"), index("of"), task.mask_idx
    bos, eos, pad = task.source_dictionary.bos(), task.source_dictionary.eos(), task.source_dictionary.pad()
    target = torch.tensor(
        [
            [pad, primary, pad, pad, pad, pad],  # alone: corrected
            [pad, primary, piece, pad, pad, pad],  # continued: neither the word nor its piece
            [pad, pad, index("stay"), pad, pad, pad],  # predicted right, though the table lists the word itself
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
    wishes = {primary: main, piece: main, of: primary}
    forced(model, wishes)["target"] = target
    model.eval()
    judged = criterion.judge(model, sample)
    assert judged.prediction.tolist() == [main, main, main, index("stay"), primary]
    assert judged.corrected.tolist() == [True, False, False, False, False]
    loss, sample_size, log = criterion(model, sample)
    assert int(sample_size) == 5
    counts = {key: int(log[key]) for key in ("correct", "corrected", "corrected_sentences", "sample_size")}
    assert counts == {"correct": 1, "corrected": 1, "corrected_sentences": 1, "sample_size": 5}
    gold = judged.gold
    nll = torch.nn.functional.cross_entropy(judged.logits, gold, reduction="none")
    assert float(loss) == pytest.approx(float(nll[1:].sum()), rel=1e-6)
    assert float(log["loss"]) == pytest.approx(float(nll.sum()), rel=1e-6)
    assert float(log["objective"]) == pytest.approx(float(loss), rel=1e-6)


def test_rates_are_those_of_the_counts(data_bin):
    from fairseq.logging import metrics

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
    from fairseq.logging import metrics

    _, task, model, criterion = build(
        data_bin,
        *("--criterion", "masked_lm_true_neg", "--hc-weight", 1, "--sr-word-weight", 1, "--sr-sent-weight", 1),
        *("--tokenization", "wordpiece"),
    )
    sample = batches(task, 1)[0]
    sample["target"] = torch.full_like(sample["target"], task.source_dictionary.pad())
    loss, size, log = criterion(model, sample)
    assert float(loss) == 0
    assert int(size) == 0
    loss.backward()
    assert all(torch.all(p.grad == 0) for p in model.parameters() if p.grad is not None)
    with metrics.aggregate(new_root=True) as aggregate:
        criterion.reduce_metrics([{**log, "sample_size": log["sample_size"]}])
        values = aggregate.get_smoothed_values()
    assert values["hc_pred"] == 0
    assert values["accuracy"] == 0


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


def test_word_regularization_needs_tied_embeddings(data_bin):
    _, task, model, criterion = build(data_bin, "--criterion", "masked_lm_sr_word", "--untie-weights-roberta")
    with pytest.raises(SystemExit, match="RobertaModel does not tie its MLM head to the input embeddings"):
        criterion(model, batches(task, 1)[0])


def test_the_options_stand_beside_fairseqs_bpe(data_bin):
    configuration(data_bin, "--criterion", "masked_lm_hc", "--bpe", "gpt2")


def test_what_a_checkpoint_says_of_options_that_went_is_passed_over(data_bin, tmp_path):
    """fairseq-validate builds the criterion from the checkpoint's configuration."""
    path = str(tmp_path / "checkpoint.pt")
    trainer = trainer_of(data_bin, "--criterion", "masked_lm_hc", "--tokenization", "wordpiece")[0]
    trainer.consolidate_optimizer()
    trainer.save_checkpoint(path, {})
    state = torch.load(path, weights_only=True)
    state["cfg"]["criterion"] |= {"synonym_neighbours": 3, "synonym_vectors": "v.txt", "hc_denominator": "all"}
    torch.save(state, path)
    cfg = checkpoint_utils.load_checkpoint_to_cpu(path)["cfg"]
    criterion = tasks.setup_task(cfg.task).build_criterion(cfg.criterion)
    assert criterion.settings.hc_weight == 1
