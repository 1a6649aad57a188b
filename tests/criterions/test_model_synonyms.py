"""--synonym-source model inside real fairseq objects."""

from __future__ import annotations

import pytest
import torch
from support.model_synonyms import embeddings, synonyms
from support.slow_neighbours import pairs_of, slow_pairs
from support.trainings import assert_same_steps, batches, build, steps, trainer_of

from truneg_fairseq.criterions.model_synonyms import ModelSynonyms
from truneg_fairseq.synonyms.lists import is_content_word

SOURCE = ("--criterion", "masked_lm_hc", "--tokenization", "wordpiece", "--synonym-source", "model")
# Untrained embeddings of 32 numbers have many neighbours at so low a threshold.
NEAR = ("--model-synonyms-threshold", 0.1)
WORDS = list(range(4, 24))


def reference(seed: int) -> set[tuple[int, int]]:
    return slow_pairs(embeddings(seed), WORDS, 3, 0.1)


@pytest.mark.parametrize("update_freq", [1, 2])
def test_before_the_warm_up_every_step_is_exactly_stock_masked_lm(update_freq, binarized):
    options = ("--update-freq", update_freq)
    expected = steps(binarized, 4, "--criterion", "masked_lm", *options)
    assert_same_steps(steps(binarized, 4, *SOURCE, *NEAR, "--model-synonyms-warmup", 4, *options), expected)


def test_each_update_computes_one_shard_and_the_last_shard_activates_the_table(binarized):
    """With update-freq 2; neither further micro-batches, dummy batches nor validation advance it on their own."""
    trainer, task, model, criterion = trainer_of(
        binarized, *SOURCE, *NEAR, "--model-synonyms-warmup", 1, "--model-synonyms-every", 3, "--lr", 0
    )
    weight = model.encoder.sentence_encoder.embed_tokens.weight.detach()
    words = criterion.model_synonyms.words.tolist()
    expected = slow_pairs(weight, words, 10, 0.1)
    assert expected
    sample, other = batches(task, 2)
    trainer.reset_dummy_batch(other)
    seen = []
    for micro_batches in ([sample, other], [sample, other], [sample, {}], [sample, other], [other, sample]):
        trainer.train_step(micro_batches)
        trainer.valid_step(sample)
        seen.append(pairs_of(criterion.model_synonyms.keys))
    assert seen == [set(), set(), set(), expected, expected]


def test_only_a_table_that_nothing_fills_is_warned_of(binarized, caplog):
    """That of fairseq-validate; before the warm-up a training's is empty rightly."""
    trainer, task, model, criterion = trainer_of(binarized, *SOURCE, *NEAR)
    sample = batches(task, 1)[0]
    trainer.train_step([sample])
    trainer.valid_step(sample)
    assert "the table is empty" not in caplog.text
    criterion = build(binarized, *SOURCE, *NEAR)[3].eval()
    for _ in range(2):
        task.valid_step(sample, model, criterion)
    assert caplog.text.count("--synonym-source model: the table is empty, as only fairseq-train computes it") == 1


def test_corrections_are_those_of_the_model_s_neighbours(binarized):
    trainer, task, model, criterion = trainer_of(
        binarized, *SOURCE, *NEAR, "--model-synonyms-warmup", 0, "--model-synonyms-every", 1, "--lr", 0.001
    )
    weight = model.encoder.sentence_encoder.embed_tokens.weight
    words = criterion.model_synonyms.words.tolist()
    corrected = 0
    for sample in batches(task, 6):
        expected = slow_pairs(weight.detach().clone(), words, 10, 0.1)
        log = trainer.train_step([sample])
        assert pairs_of(criterion.model_synonyms.keys) == expected
        assert float(log["model_pairs"]) == len(expected)
        judged = criterion.judge(model, sample)
        rows = torch.stack([judged.gold, judged.prediction], 1)[judged.corrected]
        pairs = set(map(tuple, rows.tolist()))
        assert pairs <= expected
        corrected += len(pairs)
    assert corrected


def test_of_the_vocabulary_only_content_words_take_part(binarized):
    *_, criterion = build(binarized, *SOURCE)
    words = {criterion.vocabulary.symbols[token] for token in criterion.model_synonyms.words.tolist()}
    assert {"primary", "main", "zzz"} <= words
    assert not words & {"of", "the", "and", "##s", ",", ".", "<mask>", "<s>"}
    assert {token for pair in pairs_of(refreshed(synonyms()).keys) for token in pair} <= set(WORDS)


def test_content_words():
    content, others = "walk Été हिन्दी 学校 naïve".split(), "the The a x 1984 3rd , 学 can't <mask> unused_1".split()
    assert [word for word in content + others if is_content_word(word)] == content


def refreshed(machine: ModelSynonyms, seed: int = 1, first: int = 0) -> ModelSynonyms:
    for update in range(first, first + machine.every):
        machine.advance(update, embeddings(seed))
    return machine


@pytest.mark.parametrize("every", [1, 2, 3, 7, 19, 20, 21, 50])
def test_however_many_shards_the_table_is_the_same(every):
    machine = synonyms(every=every)
    assert pairs_of(refreshed(machine).keys) == reference(1)
    for update in range(every, 2 * every - 1):
        machine.advance(update, embeddings(2))
        assert pairs_of(machine.keys) == reference(1), "the old table stays until the new one is whole"
    machine.advance(2 * every - 1, embeddings(2))
    assert pairs_of(machine.keys) == reference(2)
    assert int(machine.pairs()) == len(reference(2))


def test_each_shard_sees_the_embeddings_of_its_update():
    machine = synonyms(every=2)
    machine.advance(0, embeddings(1))
    machine.advance(0, embeddings(2))  # another micro-batch
    machine.advance(1, embeddings(3))
    mixed = machine.state()["neighbours"]
    assert torch.equal(mixed[:10], refreshed(synonyms(every=2), 1).state()["neighbours"][:10])
    assert torch.equal(mixed[10:], refreshed(synonyms(every=2), 3).state()["neighbours"][10:])


def test_a_run_that_counts_from_zero_again_starts_afresh():
    machine = synonyms(warmup=5)
    refreshed(machine, first=90)
    machine.advance(0, embeddings(2))
    assert int(machine.pairs()) == 0
    refreshed(machine, 2, first=5)
    assert pairs_of(machine.keys) == reference(2)


@pytest.mark.parametrize("stop", range(9))
def test_a_state_restored_at_any_update_continues_exactly(stop, tmp_path):
    whole, broken = synonyms(), synonyms()
    for update in range(12):
        if update == stop:
            torch.save(broken.state(), tmp_path / "state.pt")
            broken = synonyms()
            broken.restore(torch.load(tmp_path / "state.pt", weights_only=True))
        for machine in (whole, broken):
            machine.advance(update, embeddings(update))
        for name in ("neighbours", "keys"):
            assert torch.equal(whole.state()[name], broken.state()[name])


def test_half_precision_embeddings_have_the_neighbours_of_their_values():
    machines = [synonyms(), synonyms()]
    for update in range(4):
        machines[0].advance(update, embeddings(1))
        with torch.autocast("cpu", torch.bfloat16):
            machines[1].advance(update, embeddings(1).half())
    assert torch.equal(machines[0].keys, machines[1].keys)
