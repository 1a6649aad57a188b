"""--final-mask-prob: a masking rate that falls over training."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.commands import PLUGIN, TINY_MODEL, TINY_TRAINING, fairseq_train, run_command
from support.electra import ELECTRA_MODEL, ELECTRA_TRAINING
from support.kills import differences, state_of
from support.trainings import batches, build, make, parse

from truneg_fairseq.objectives.mask_rate import rate_at, same_in_words, unmask
from truneg_fairseq.vocabulary import Vocabulary, read_symbols

FALLING = ("--criterion", "masked_lm_true_neg", "--mask-prob", 0.4, "--final-mask-prob", 0.1, "--max-update", 10)
PAD = 1
KINDS = {
    "masked_lm": (*TINY_TRAINING, *TINY_MODEL, "--criterion", "masked_lm_true_neg"),
    "electra": (*ELECTRA_TRAINING, *ELECTRA_MODEL, "--tokenization", "wordpiece"),
}


@given(st.floats(0.01, 1), st.floats(0, 1), st.floats(-1, 2))
def test_the_rate_lies_between_its_ends_and_falls(start, share, progress):
    end = share * start
    rate = rate_at(start, end, progress)
    assert min(start, end) - 1e-9 <= rate <= start + 1e-9
    assert rate_at(start, end, progress + 0.1) <= rate + 1e-9
    assert rate_at(start, end, 0) == start


@given(st.lists(st.lists(st.booleans(), min_size=6, max_size=6), min_size=1, max_size=4))
def test_tokens_of_a_word_have_one_number(rows):
    continues = torch.tensor(rows)
    numbers = torch.rand(continues.shape)
    shared = same_in_words(numbers, continues.clone())
    for row, inside, drawn in zip(shared, continues, numbers, strict=True):
        words = -1
        for place in range(6):
            words += place == 0 or not inside[place]
            assert row[place] == drawn[words]


def test_unmasking_gives_the_original_token_and_no_target():
    tokens, target = torch.tensor([[0, 9, 7, 9, 5]]), torch.tensor([[PAD, 4, 6, 8, PAD]])
    kept = torch.tensor([[True, True, False, False, False]])
    assert [t.tolist() for t in unmask(tokens, target, kept, PAD)] == [[[0, 9, 6, 8, 5]], [[PAD, 4, PAD, PAD, PAD]]]


def share_of_masked(criterion, sample, update):
    """% of the masked tokens of the data that stay masked in an update."""
    criterion._mask_rate._begin_step(None, None, None, update)
    torch.manual_seed(update)
    changed = criterion.with_mask_rate(sample)
    return float(changed["target"].ne(PAD).sum() / sample["target"].ne(PAD).sum())


@pytest.mark.parametrize(("update", "expected"), [(0, 1.0), (5, 0.625), (10, 0.25), (None, 0.25)])
def test_the_share_that_stays_masked_follows_the_update(data_bin, update, expected):
    _, task, _, criterion = build(data_bin, *FALLING)
    found = []
    criterion.train(update is not None)
    for sample in batches(task, 30, size=16):
        before = {**sample["net_input"], "target": sample["target"].clone()}
        found.append(share_of_masked(criterion, sample, update or 0))
        assert torch.equal(before["target"], sample["target"]), "the batch itself stays as it is"
    assert sum(found) / len(found) == pytest.approx(expected, abs=0.06)


def test_the_positions_of_the_data_go_with_a_falling_rate(data_bin):
    """electra_pretraining's batches say where they are masked; a stock model projects to the vocabulary there."""
    stock = (*ELECTRA_TRAINING, *TINY_MODEL, "--criterion", "masked_lm_true_neg", "--final-mask-prob", 0.1)
    task, model, criterion = make(parse([data_bin, "--user-dir", PLUGIN, *stock]))
    criterion.train()
    criterion._mask_rate._begin_step(None, None, None, 20)
    for sample in batches(task, 5):
        loss, size, _ = criterion(model, sample)
        loss.backward()
        assert 0 <= int(size) < len(sample["net_input"]["masked_positions"])


def test_what_is_unmasked_is_the_sentence_itself_and_whole_words_stay_whole(data_bin):
    whole = ("--mask-whole-words", "--mask-prob", 0.4, "--final-mask-prob", 0.2)
    task, _, criterion = make(parse([data_bin, "--user-dir", PLUGIN, *KINDS["electra"], *whole]))
    continues = torch.from_numpy(Vocabulary.from_symbols(read_symbols(data_bin), "wordpiece").continues)
    criterion.train()
    criterion._mask_rate._begin_step(None, None, None, 20)
    pieces = unmasked = 0
    for sample in batches(task, 20, size=16):
        changed = criterion.with_mask_rate(sample)
        original = torch.where(sample["target"].ne(PAD), sample["target"], sample["net_input"]["src_tokens"])
        dropped = changed["target"].eq(PAD)
        assert torch.equal(changed["net_input"]["src_tokens"][dropped], original[dropped])
        masked = sample["target"].ne(PAD)
        inside = continues[original][:, 1:] & masked[:, 1:] & masked[:, :-1]
        pieces += int((inside & ~dropped[:, 1:]).sum())
        unmasked += int((masked & dropped).sum())
        assert torch.equal(dropped[:, 1:][inside], dropped[:, :-1][inside]), "a word is masked whole or not at all"
    assert pieces
    assert unmasked


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--final-mask-prob", 0.5), "--final-mask-prob 0.5: expected at most --mask-prob, 0.3, from which"),
        (("--final-mask-prob", 0.1), "--final-mask-prob 0.1: found no --max-update, expected the update"),
        (("--final-mask-prob", 1.5), "--final-mask-prob 1.5: expected a finite number > 0 and < 1"),
    ],
)
def test_rates_that_cannot_be_are_refused(data_bin, options, message):
    with pytest.raises(SystemExit) as refused:
        build(data_bin, "--criterion", "masked_lm_hc", *options)
    assert message in str(refused.value.__cause__ or refused.value)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_resumed_run_has_the_same_masks(kind, data_bin, tmp_path):
    falling = ("--mask-prob", 0.4, "--final-mask-prob", 0.1, "--max-update", 6, "--update-freq", 2)
    saving = ("--save-interval-updates", 3, "--no-epoch-checkpoints", "--disable-validation", "--data-buffer-size", 0)
    training = fairseq_train(data_bin, "--user-dir", PLUGIN, *KINDS[kind], *falling, *saving, "--save-dir")
    run_command([*training, tmp_path / "whole"])
    (tmp_path / "resumed").mkdir()
    (tmp_path / "whole" / "checkpoint_1_3.pt").rename(tmp_path / "resumed" / "checkpoint_last.pt")
    log = run_command([*training, tmp_path / "resumed"]).stdout
    assert "checkpoint_last.pt (epoch 1 @ 3 updates)" in log
    assert not differences(state_of(tmp_path / "whole"), state_of(tmp_path / "resumed"))
