"""Minimal pairs and calibration, each against an obvious computation; the command."""

from __future__ import annotations

import gzip
import hashlib
import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.masked_lms import evaluated, opened, yardstick

from truneg_fairseq.commands.main import main
from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.evaluation.held_out import BINS, FalseNegatives, acceptance, bin_of, calibration_error
from truneg_fairseq.evaluation.minimal_pairs import Blimp, Zorro, pseudo_log_likelihoods
from truneg_fairseq.objectives import MaskedPredictions

SENTENCES = ["The kids walked to the car.", "The kid walked, quickly.", "A film of carsly of the end"]


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """Two paradigms; the last pair of the first is the same in this vocabulary's tokens."""
    made = tmp_path_factory.mktemp("blimp")
    first = [("The kids walked.", "The kid walked."), ("The car of the kids.", "The cars of the kid."), ("xx", "yy")]
    for name, found in (("a_b", first), ("c", [("big film", "film big")])):
        lines = [{"sentence_good": good, "sentence_bad": bad, "field": "syntax", "UID": name} for good, bad in found]
        (made / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    (made / "README.md").write_text("no pairs")
    return made


def loop(theirs, sentence):
    """One masked sentence after the other."""
    model, tokenizer = theirs
    encoded = tokenizer(sentence)
    ids, words, total = encoded["input_ids"], encoded.word_ids(), 0.0
    for place in range(1, len(ids) - 1):
        masked = list(ids)
        for later in range(place, len(ids) - 1):
            if words[later] == words[place]:
                masked[later] = tokenizer.mask_token_id
        with torch.no_grad():
            total += float(model(torch.tensor([masked])).logits[0, place].log_softmax(-1)[ids[place]])
    return total


def test_scores_are_those_of_a_plain_loop(bert, theirs):
    found = pseudo_log_likelihoods(*opened(bert), SENTENCES)
    assert found == pytest.approx([loop(theirs, sentence) for sentence in SENTENCES], abs=1e-4)


def test_zorro_has_the_wrong_sentence_first(bert, theirs, tmp_path):
    lines = ["The kid walk .", "The kids walk .", "film big", "big film"]
    for name in ("a-b.txt.gz", "c.txt"):
        text = ("\n".join(lines) + "\n").encode()
        (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    zorro = yardstick(Zorro, opened(bert)[1], tmp_path)
    assert [(pair.bad, pair.good) for pair in zorro.paradigms["a-b"]] == [tuple(lines[:2]), tuple(lines[2:])]
    scores = zorro.score(opened(bert)[0])
    assert list(scores) == ["Zorro", "Zorro, a-b", "Zorro, c"]
    assert scores["Zorro"].items == ["a-b 1", "a-b 2", "c 1", "c 2"]
    right = [loop(theirs, good) > loop(theirs, bad) for bad, good in (lines[:2], lines[2:])]
    assert scores["Zorro, c"].ratios["accuracy"].numerators.tolist() == right


def test_minimal_pairs_by_the_command(bert, other, pairs, tmp_path, capsys):
    results = tmp_path / "results.jsonl"
    found = evaluated([f"first={bert}", f"second={other}"], [f"blimp={pairs}"], results=results)
    said = capsys.readouterr().out
    assert "minimal pairs: 4 pairs of 2 paradigms" in said
    row = next(line.split() for line in said.splitlines() if line.startswith("accuracy ↑ "))
    read = {(each.model, each.task): each for each in found}
    whole = read["first", "minimal pairs"]
    assert whole.examples["accuracy"][2] == 0.5
    both = b"".join((pairs / f"{name}.jsonl").read_bytes() for name in ("a_b", "c"))
    assert whole.settings["sha256"] == hashlib.sha256(both).hexdigest()
    assert row[2] == f"{100 * whole.metrics['accuracy']:.2f}"
    assert "\nminimal pairs: differences to first\n" in said
    assert read["second", "minimal pairs, c"].metrics["accuracy"] in (0.0, 1.0)
    assert len(yardstick(Blimp, opened(bert)[1], pairs / "a_b.jsonl", limit=2).pairs) == 2
    main(["compare", str(results)])
    compared = capsys.readouterr().out
    assert "1 seed is no evidence" in compared
    assert "a_b" in compared


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", "{}", "missing required field sentence_good"),
        ("a.jsonl", "", "nothing to measure the model on; expected BLiMP's"),
        ("a.txt", "it walk .\nit walks .\nit stop .\n", "a.txt: found 3 lines, of which the last has no partner"),
    ],
)
def test_other_files_are_refused(bert, tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(TrueNegError, match=message):
        yardstick(Zorro if name == "a.txt" else Blimp, opened(bert)[1], tmp_path / name)


def test_the_examples_are_the_ten_best_pairs_however_often_one_occurs(bert):
    scorer, tokens = opened(bert)
    words = np.flatnonzero(tokens.is_word)
    pairs = [(int(words[0]), int(word)) for word in words[1:13]]
    order = [*range(len(pairs)), *range(len(pairs))]
    gold, prediction = (torch.tensor([pairs[index][side] for index in order]) for side in (0, 1))
    every = torch.ones(len(order), dtype=torch.bool)
    logits = torch.zeros(len(order), len(tokens.vocabulary))
    places = torch.arange(len(order))
    judged = MaskedPredictions(logits, gold[None], places, gold, prediction, every, every, is_false_negative=every)
    found = FalseNegatives(tokens, None)
    for _ in range(2):
        found.add(judged, torch.tensor([len(order)]), scorer)
    facts, chances = found.facts(), acceptance(scorer.embeddings, gold, prediction).tolist()
    assert facts["false_negatives"] == 4 * len(pairs)
    assert {times for *_, times in facts["pairs"]} == {4}
    best = sorted(range(len(pairs)), key=lambda index: -chances[index])[:10]
    expected = [tokens.vocabulary.name_of(pairs[index][1]) for index in best]
    assert [example["prediction"] for example in facts["examples"]] == expected


def calibration_by_definition(predictions: list[tuple[float, bool]]) -> float:
    """Guo et al. (2017), equation 3."""
    error = 0.0
    for number in range(BINS):
        inside = [one for one in predictions if max(math.ceil(one[0] * BINS) - 1, 0) == number]
        if inside:
            confidence = math.fsum(p for p, _ in inside) / len(inside)
            accuracy = sum(right for _, right in inside) / len(inside)
            error += len(inside) / len(predictions) * abs(accuracy - confidence)
    return error


PREDICTIONS = st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=40)


@given(PREDICTIONS, PREDICTIONS)
def test_the_calibration_error_is_that_of_the_definition(first, second):
    over, masked = [], []
    for sequence in filter(None, (first, second)):
        confidence, right = torch.tensor(sequence, dtype=torch.float64).T
        empty = torch.zeros(BINS, dtype=torch.float64)
        over.append(empty.index_add_(0, bin_of(confidence), confidence - right).numpy())
        masked.append(float(len(sequence)))
    found = calibration_error(np.array(over).reshape(-1, BINS), np.array(masked)).value
    assert found == pytest.approx(calibration_by_definition(first + second), abs=1e-12)
