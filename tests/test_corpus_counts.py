"""Counts of a corpus against plain loops, their file, and the command that makes it."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from truneg_fairseq import corpus_counts as module
from truneg_fairseq.commands.main import main
from truneg_fairseq.corpus_counts import FILE_NAME, CorpusCounts, Counted, CountsShare, count_tokens, fit_counts_share
from truneg_fairseq.errors import TrueNegError

SYMBOLS = [*"abcdef"]
SIZE = len(SYMBOLS)
TEXT = st.lists(st.integers(0, SIZE - 1), max_size=60)


def as_counter(keys, counts, digits: int) -> Counter:
    found = {}
    for key, count in zip(keys.tolist(), counts.tolist(), strict=True):
        found[tuple(key // SIZE**digit % SIZE for digit in reversed(range(digits)))] = count
    return Counter(found)


def naive_triples(tokens: list[int], most: int) -> Counter:
    """(left, right, middle), of each (left, right) the most frequent."""
    every = Counter((left, right, middle) for left, middle, right in zip(tokens, tokens[1:], tokens[2:], strict=False))
    kept = Counter()
    for place in {triple[:2] for triple in every}:
        row = sorted((triple for triple in every if triple[:2] == place), key=lambda triple: (-every[triple], triple))
        kept.update({triple: every[triple] for triple in row[:most]})
    return kept


@given(text=TEXT, cuts=st.lists(st.integers(0, 60), max_size=3), block=st.integers(1, 20), most=st.integers(1, 4))
@settings(max_examples=100, deadline=None)
def test_counts_are_those_of_a_loop_however_the_text_is_cut(text, cuts, block, most):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BLOCK", block)
        bounds = [0, *sorted(cuts), len(text)]
        parts = [np.array(text[a:b], dtype=np.uint16) for a, b in pairwise(bounds)]
        counts = count_tokens(parts, SYMBOLS, most=most)
    assert counts.words.tolist() == [text.count(word) for word in range(SIZE)]
    assert as_counter(counts.pairs.keys, counts.pairs.counts, 2) == Counter(pairwise(text))
    assert as_counter(counts.triples.keys, counts.triples.counts, 3) == naive_triples(text, most)
    for counted in (counts.pairs, counts.triples):
        assert np.all(np.diff(counted.keys) > 0)
    assert counts.source["tokens"] == len(text)


def test_a_file_gives_back_what_was_written(tmp_path):
    text = np.random.default_rng(1).integers(0, SIZE, 500)
    counts = count_tokens([text], SYMBOLS, discount=0.3, most=3, source={"data": "somewhere"})
    counts.save(tmp_path / "new" / "a.npz")
    read = CorpusCounts.load(tmp_path / "new" / "a.npz", SYMBOLS)
    for name in ("pairs", "triples"):
        for part in ("keys", "counts"):
            assert np.array_equal(getattr(getattr(read, name), part), getattr(getattr(counts, name), part))
    assert np.array_equal(read.words, counts.words)
    assert (read.discount, read.most, read.source) == (0.3, 3, counts.source)
    assert read.source["data"] == "somewhere"
    with pytest.raises(TrueNegError, match=r"a\.npz: belongs to another dictionary .*'truneg data counts'"):
        CorpusCounts.load(tmp_path / "new" / "a.npz", [*SYMBOLS, "g"])
    wrong = Counted(np.array([1, SIZE**2]), np.array([1, 1], dtype=np.int32))
    replace(counts, pairs=wrong).save(tmp_path / "wrong.npz")
    with pytest.raises(TrueNegError, match=rf"wrong\.npz: its counts are not of {SIZE} tokens"):
        CorpusCounts.load(tmp_path / "wrong.npz", SYMBOLS)


def test_the_command_counts_the_training_text(binarized, tmp_path, capsys):
    from fairseq.data import Dictionary, data_utils

    output = tmp_path / FILE_NAME
    main(["data", "counts", "--data", str(binarized), "--output", str(output)])
    assert capsys.readouterr().out.startswith(f"wrote {output}")
    dictionary = Dictionary.load(str(binarized / "dict.txt"))
    dataset = data_utils.load_indexed_dataset(str(binarized / "train"), dictionary)
    text = np.concatenate([dataset[index].numpy() for index in range(len(dataset))])
    expected = count_tokens([text], dictionary.symbols)
    dictionary.add_symbol("<mask>")
    found = CorpusCounts.load(output, dictionary.symbols)
    assert np.array_equal(found.words[:-1], expected.words)
    assert found.source["sha256"] == expected.source["sha256"]
    assert np.array_equal(found.triples.counts, expected.triples.counts)
    with np.load(output) as file:
        metadata = json.loads(str(file["metadata"]))
    assert (metadata["discount"], metadata["most"]) == (0.6, 64)
    assert metadata["source"]["data"] == str(binarized)
    assert metadata["source"]["truneg_fairseq"]


def test_a_folder_without_training_text_is_named(binarized, tmp_path):
    (tmp_path / "dict.txt").write_bytes((binarized / "dict.txt").read_bytes())
    with pytest.raises(SystemExit, match=r"train\.(idx|bin): no such file"):
        main(["data", "counts", "--data", str(tmp_path)])
    assert not (tmp_path / FILE_NAME).exists()
    with pytest.raises(TrueNegError, match="a dictionary of 2,097,153 tokens, expected 2,097,152 at most"):
        count_tokens([], range(2**21 + 1))
    with pytest.raises(TrueNegError, match="found the id 6, but a dictionary of 6 tokens"):
        count_tokens([np.array([0, 5, 6])], SYMBOLS)


def test_the_fitted_share_has_the_lowest_loss():
    """Of all shares of places that were counted often, seldom and never; and parses as it prints."""
    random = np.random.default_rng(1)
    count = random.integers(0, 30, 3000) * random.integers(0, 2, 3000)
    types = np.ceil(count * random.random(3000))
    truth = np.where(count > 0, 0.8 * count / (count + 1.0 * np.maximum(types, 1)), 0.3)
    by_counts = random.random(3000) < truth  # who has chosen the word, which the other finds improbable
    model, counts = (np.where(by_counts == own, 0.01, 0.5) * random.random(3000) + 1e-4 for own in (True, False))
    fitted = fit_counts_share(np.stack([model, counts, count, types]))
    assert fitted.seen == pytest.approx(0.8, abs=0.08)
    assert fitted.unseen == pytest.approx(0.3, abs=0.05)

    def loss(share: CountsShare) -> float:
        given = np.where(count > 0, share.seen * count / np.maximum(count + share.doubt * types, 1), share.unseen)
        return float(-np.log((1 - given) * model + given * counts).mean())

    for change in (0.05, -0.05):
        assert loss(fitted) < loss(fitted._replace(seen=min(1.0, fitted.seen + change)))
        assert loss(fitted) < loss(fitted._replace(unseen=fitted.unseen + change))
    assert loss(fitted) < loss(fitted._replace(doubt=4.0 - fitted.doubt))
    assert CountsShare.parse(str(fitted)) == pytest.approx(fitted, abs=1e-3)
    assert CountsShare.parse(0.2) == CountsShare.parse("0.2") == (0.2, 0.0, 0.2)
    for wrong in ("a", "1.2", "0.1,0.2", (0.5, -1.0, 0.5), "nan"):
        with pytest.raises(TrueNegError, match="expected a number in"):
            CountsShare.parse(wrong)
    with pytest.raises(TrueNegError, match="the counts have no place of the text"):
        fit_counts_share(np.empty((4, 0)))
