"""Task electra_pretraining in process: its data, its batches, and what it refuses."""

from __future__ import annotations

import pickle
import re
import shutil

import numpy as np
import pytest
import torch
from fairseq import optim as fairseq_optim
from fairseq.data import Dictionary, indexed_dataset
from support.commands import PIECES, WORDS
from support.trainings import make, parse

import truneg_fairseq
from truneg_fairseq.tasks import electra_pretraining
from truneg_fairseq.tasks.electra_pretraining import ElectraPretrainingConfig, ElectraPretrainingTask

truneg_fairseq.register()
BOS, PAD, EOS, UNK = 0, 1, 2, 3


def write_split(folder, name, lines, dtype=np.uint16, end=(EOS,)):
    """Binarizes lines of ids."""
    builder = indexed_dataset.MMapIndexedDatasetBuilder(str(folder / f"{name}.bin"), dtype=dtype)
    for line in lines:
        builder.add_item(torch.tensor([*line, *end]))
    builder.finalize(str(folder / f"{name}.idx"))


def random_lines(count, seed):
    rng = np.random.default_rng(seed)
    return [
        rng.integers(4, 4 + len(WORDS), size=0 if rng.random() < 0.05 else rng.integers(1, 40)).tolist()
        for _ in range(count)
    ]


def write_dictionary(folder):
    (folder / "dict.txt").write_text("".join(f"{word} 1\n" for word in (*WORDS, *PIECES)), encoding="utf-8")
    return Dictionary.load(str(folder / "dict.txt"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Binarized ids; read only."""
    folder = tmp_path_factory.mktemp("ids")
    write_dictionary(folder)
    write_split(folder, "train", random_lines(400, 1))
    write_split(folder, "train1", random_lines(100, 2))
    write_split(folder, "valid", random_lines(60, 3))
    return folder


def task_on(data, *, split="train", epoch=1, combine=False, **settings):
    settings = {"tokens_per_sample": 32, "seed": 1, "tokenization": "wordpiece", **settings}
    task = ElectraPretrainingTask.setup_task(ElectraPretrainingConfig(data=str(data), **settings))
    task.load_dataset(split, epoch=epoch, combine=combine)
    return task


def batches(task, *, split="train", epochs=1, **settings):
    """All batches of fairseq's own iterator, epoch by epoch."""
    settings = {"max_sentences": 16, "num_workers": 0, "seed": 1, "data_buffer_size": 3, **settings}
    iterator = task.get_batch_iterator(task.dataset(split), max_positions=task.max_positions(), **settings)
    return [list(iterator.next_epoch_itr(shuffle=split == "train")) for _ in range(epochs)]


def original(batch):
    tokens, target = batch["net_input"]["src_tokens"], batch["target"]
    return torch.where(target.ne(PAD), target, tokens)


def flat(batch):
    return [*batch["net_input"].values(), batch["id"], batch["target"], batch["ntokens"], batch["nsentences"]]


def same(one, other):
    return len(one) == len(other) and all(
        all(torch.equal(torch.as_tensor(x), torch.as_tensor(y)) for x, y in zip(flat(a), flat(b), strict=True))
        for a, b in zip(one, other, strict=True)
    )


def text_of(dataset):
    """The text without special symbols, example by example."""
    tokens = [original(dataset.collater([dataset[index]])) for index in range(len(dataset))]
    return [token for row in tokens for token in row.flatten().tolist() if token not in (BOS, EOS)]


def test_an_epoch_holds_the_text_of_the_files_once(folder):
    task = task_on(folder)
    dataset = task.dataset("train")
    assert text_of(dataset) == [token for line in random_lines(400, 1) for token in line]
    (epoch,) = batches(task)
    assert sorted(torch.cat([batch["id"] for batch in epoch]).tolist()) == list(range(len(dataset)))
    lengths = torch.cat([batch["net_input"]["src_lengths"] for batch in epoch])
    assert (lengths.numpy() == dataset.sizes[torch.cat([batch["id"] for batch in epoch])]).all()


def test_a_batch_is_one_of_masked_lm(folder):
    for batch in batches(task_on(folder))[0]:
        tokens, target = batch["net_input"]["src_tokens"], batch["target"]
        gold = original(batch)
        real = gold.ne(PAD)
        assert tokens.shape == target.shape
        assert tokens.dtype == target.dtype == batch["id"].dtype == torch.int64
        assert batch["net_input"]["src_lengths"].tolist() == real.sum(1).tolist()
        assert batch["net_input"]["padded"] is bool((~real).any())
        # In order: stock models pick by the mask.
        assert torch.equal(batch["net_input"]["masked_positions"], target.reshape(-1).ne(PAD).nonzero().squeeze(1))
        assert (batch["nsentences"], batch["ntokens"]) == (len(tokens), int(real.sum()))
        assert all(re.fullmatch("0(x+2){1,2}1*", row) for row in map(shape_of, gold.tolist()))
        assert not (target.ne(PAD) & (gold.eq(BOS) | gold.eq(EOS) | gold.eq(PAD))).any()
        assert target.ne(PAD).sum(1).tolist() == [max(1, round(0.15 * n)) for n in real.sum(1).tolist()]


def shape_of(row):
    return "".join(str(token) if token in (BOS, PAD, EOS) else "x" for token in row)


@pytest.mark.slow
def test_workers_give_the_same_batches_in_every_epoch(folder):
    """Also those that fairseq keeps alive: they have to hear of the epoch."""
    alone = batches(task_on(folder), epochs=3, num_workers=0)
    for epoch, of_workers in zip(alone, batches(task_on(folder), epochs=3, num_workers=2), strict=True):
        assert same(epoch, of_workers)
    first, second, third = map(rows_by_id, alone)
    other = rows_by_id(batches(task_on(folder), max_sentences=3)[0])
    assert all(torch.equal(row, other[index]) for index, row in first.items()), "masks do not depend on the batch"
    for one, other in ((first, second), (second, third), (first, third)):
        differing = sum(not torch.equal(one[index], other[index]) for index in one)
        assert differing > 0.9 * len(one), "new masks in each epoch"


def rows_by_id(epoch):
    """Masked tokens and targets of each example, without padding."""
    return {
        int(batch["id"][row]): torch.stack([batch["net_input"]["src_tokens"][row], batch["target"][row]])[:, :length]
        for batch in epoch
        for row, length in enumerate(batch["net_input"]["src_lengths"])
    }


def test_validation_is_fixed(folder):
    """As fairseq-train and fairseq-validate go through it."""
    task = task_on(folder, split="valid")
    passes = []
    for _ in range(2):
        iterator = task.get_batch_iterator(task.dataset("valid"), max_sentences=4)
        passes.append(list(iterator.next_epoch_itr(shuffle=False, set_dataset_epoch=False)))
    assert same(*passes)
    assert same(passes[0], batches(task_on(folder, split="valid"), split="valid", max_sentences=4)[0])


@pytest.mark.slow
def test_combined_splits_and_shards(folder, tmp_path):
    combined = task_on(folder, combine=True).dataset("train")
    lines = random_lines(400, 1) + random_lines(100, 2)
    assert text_of(combined) == [token for line in lines for token in line]
    assert text_of(task_on(folder).dataset("train")) == [token for line in lines[:400] for token in line]
    shutil.copy(folder / "dict.txt", tmp_path)
    write_split(tmp_path, "train", random_lines(50, 5))
    shards = f"{folder}:{tmp_path}"
    for epoch, count, seed in ((1, 400, 1), (2, 50, 5), (3, 400, 1)):
        dataset = task_on(shards, epoch=epoch).dataset("train")
        assert text_of(dataset) == [token for line in random_lines(count, seed) for token in line]
    assert task_on(shards).has_sharded_data("train")


def test_wide_ids_and_a_spawned_workers_copy(folder, tmp_path):
    write_dictionary(tmp_path)
    write_split(tmp_path, "train", random_lines(400, 1), dtype=np.int64)
    task = task_on(tmp_path)
    assert same(batches(task)[0], batches(task_on(folder))[0])
    assert task.dataset("train").dataset.collater([]) == {}, "as fairseq makes for a worker that has none left"
    pickled = pickle.dumps(task.dataset("train"))
    assert len(pickled) < 40_000, "the text is not in it"
    copy = pickle.loads(pickled)
    assert same([copy.collater(range(9))], [task.dataset("train").collater(range(9))])


def test_special_symbols_in_the_text_are_unknown_words(tmp_path):
    """Written out there, they would separate segments, look like padding or be taken for masked."""
    dictionary = write_dictionary(tmp_path)
    mask = len(dictionary)
    write_split(tmp_path, "train", [[4, BOS, PAD, mask, 5, EOS, 6, EOS], [EOS], [7]])
    task = task_on(tmp_path)
    assert task.mask_idx == mask
    dataset = task.dataset("train")
    assert text_of(dataset) == [4, UNK, UNK, UNK, 5, 6, 7], "a </s> among them is left out"
    for index in range(len(dataset)):
        batch = dataset.collater([index])
        assert re.fullmatch("0(x+2){1,2}", shape_of(original(batch)[0].tolist()))
        assert batch["net_input"]["src_lengths"].tolist() == [batch["target"].size(1)]


@pytest.mark.parametrize(
    ("tokenization", "words"),
    [
        ("wordpiece", [("walk", "##s", "##ing"), ("car",), ("quick", "##ly")]),
        ("auto", [("re@@", "build@@", "ing"), ("house",), ("un@@", "told")]),  # subword-nmt marks all but the last
    ],
)
def test_whole_words(tokenization, words, tmp_path):
    dictionary = Dictionary()
    for piece in (piece for word in words for piece in word):
        dictionary.add_symbol(piece)
    dictionary.add_symbol("<mask>")
    dictionary.save(str(tmp_path / "dict.txt"))
    rng = np.random.default_rng(1)
    lines = [[dictionary.index(piece) for word in rng.integers(3, size=9) for piece in words[word]] for _ in range(60)]
    write_split(tmp_path, "train", lines)
    continues, unfinished = (
        torch.tensor([is_part(symbol) for symbol in dictionary.symbols])
        for is_part in (lambda symbol: symbol.startswith("##"), lambda symbol: symbol.endswith("@@"))
    )
    for whole, of_dictionary in ((True, tokenization), (True, "words"), (False, tokenization)):
        torn = joined = 0
        settings = {"tokens_per_sample": 64, "mask_whole_words": whole, "tokenization": of_dictionary}
        for batch in batches(task_on(tmp_path, **settings))[0]:
            gold, chosen = original(batch), batch["target"].ne(PAD)
            inside = (continues[gold[:, 1:]] | unfinished[gold[:, :-1]]) & gold[:, 1:].gt(UNK) & gold[:, :-1].gt(UNK)
            torn += int((inside & (chosen[:, 1:] != chosen[:, :-1])).sum())
            joined += int((inside & chosen[:, 1:]).sum())
        assert (torn == 0) == (whole and of_dictionary == tokenization)
        assert joined > 20


def test_mask_shares_of_more_than_all(tmp_path):
    with pytest.raises(SystemExit, match=r"--leave-unmasked-prob 0.6: with --random-token-prob 0.6 it exceeds 1"):
        task_on(tmp_path, leave_unmasked_prob=0.6, random_token_prob=0.6)


@pytest.mark.parametrize(
    ("lines", "end", "message"),
    [([[], [], []], (EOS,), "found no token of text"), ([[4, EOS], [6, 7]], (), "line 2 does not end with </s>")],
)
def test_data_without_lines_of_text(lines, end, message, tmp_path):
    write_dictionary(tmp_path)
    write_split(tmp_path, "train", lines, end=end)
    with pytest.raises(SystemExit, match=message):
        task_on(tmp_path)


def test_graphs_of_a_gpu_have_no_effect_on_a_cpu_and_it_says_so(folder, caplog):
    options = ("--task", "electra_pretraining", "--criterion", "electra", "--arch", "electra_tiny", "--cuda-graphs")
    cfg = parse([folder, *options, "--tokens-per-sample", 24, "--batch-size", 8, "--lr", 0.01, "--optimizer", "adam"])
    task, model, criterion = make(cfg)
    task.load_dataset("train")
    optimizer = fairseq_optim.build_optimizer(cfg.optimizer, list(model.parameters()))
    total, _, _ = task.train_step(batches(task)[0][0], model, criterion, optimizer, 0)
    assert total.grad_fn is not None
    assert "--cuda-graphs: no effect" in caplog.text


def test_seeds_change_examples_order_and_masks(folder, tmp_path, monkeypatch):
    assert same(*(batches(task_on(folder, seed=3))[0] for _ in range(2)))
    one, other = (task_on(folder, seed=seed).dataset("train").sizes.tolist() for seed in (1, 2))
    assert one != other, "segments and lengths are drawn"
    write_dictionary(tmp_path)
    write_split(tmp_path, "train", [[4] * 29 * 50])  # a line without ends, to be cut into the same examples
    monkeypatch.setattr(electra_pretraining, "_ONE_SEGMENT", 0)
    monkeypatch.setattr(electra_pretraining, "_SHORT", 0)
    datasets = [task_on(tmp_path, seed=seed).dataset("train") for seed in (1, 2)]
    orders = [dataset.ordered_indices().tolist() for dataset in datasets]
    assert orders[0] != orders[1]
    targets = [dataset.collater(range(50))["target"] for dataset in datasets]
    assert not any(torch.equal(*rows) for rows in zip(*targets, strict=True))
