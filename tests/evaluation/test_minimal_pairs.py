"""Minimal pairs: scores against a plain loop, and against minicons where it is installed; the command."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest
import torch
from support.masked_lms import hugging_face_bert, opened, yardstick

from truneg_fairseq.commands.main import main
from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.evaluation.minimal_pairs import Blimp, Zorro, correct, pseudo_log_likelihoods
from truneg_fairseq.results.result import read_results

SENTENCES = ["The kids walked to the car.", "The kid walked, quickly.", "A film of carsly of the end"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return hugging_face_bert(tmp_path_factory.mktemp("pairs") / "bert")


def written(path, uid, pairs):
    lines = [
        {"sentence_good": good, "sentence_bad": bad, "field": "syntax", "linguistics_term": "agreement", "UID": uid}
        for good, bad in pairs
    ]
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")
    return path


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Two paradigms; the last pair is the same in this vocabulary's tokens."""
    made = tmp_path_factory.mktemp("blimp")
    first = [("The kids walked.", "The kid walked."), ("The car of the kids.", "The cars of the kid."), ("xx", "yy")]
    written(made / "a_b.jsonl", "a_b", first)
    written(made / "c.jsonl", "c", [("big film", "film big")])
    (made / "README.md").write_text("no pairs")
    return made


def loop(folder, sentence):
    """One masked sentence after the other."""
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    model, tokenizer = AutoModelForMaskedLM.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    encoded = tokenizer(sentence)
    ids, words, total = encoded["input_ids"], encoded.word_ids(), 0.0
    for place in range(1, len(ids) - 1):
        masked = list(ids)
        for other in range(place, len(ids) - 1):
            if words[other] == words[place]:
                masked[other] = tokenizer.mask_token_id
        with torch.no_grad():
            total += float(model(torch.tensor([masked])).logits[0, place].log_softmax(-1)[ids[place]])
    return total


def test_scores_are_those_of_a_plain_loop(folder):
    found = pseudo_log_likelihoods(*opened(folder), SENTENCES)
    assert found == pytest.approx([loop(folder, sentence) for sentence in SENTENCES], abs=1e-4)


def test_scores_are_those_of_minicons(folder):
    scorer = pytest.importorskip("minicons.scorer")
    theirs = scorer.MaskedLMScorer(str(folder), "cpu")
    theirs.tokenizer.batch_encode_plus = theirs.tokenizer  # which minicons calls, and transformers 5 has no more
    expected = theirs.sequence_score(SENTENCES, reduction=lambda x: x.sum(0).item(), PLL_metric="within_word_l2r")
    assert pseudo_log_likelihoods(*opened(folder), SENTENCES) == pytest.approx(expected, abs=1e-4)


def test_the_same_tokens_count_half(data, folder):
    scores = np.array([-1.0, -3.0, -2.0, -5.0, -2.0, -1.0, -2.0, -4.0])
    assert correct(scores).tolist() == [1.0, 0.0, 0.5, 0.0]
    assert len(yardstick(Blimp, opened(folder)[1], data / "a_b.jsonl", limit=2).pairs) == 2


def test_zorro_has_the_wrong_sentence_first(folder, tmp_path, capsys):
    lines = ["The kid walk .", "The kids walk .", "film big", "big film"]
    for name in ("a-b.txt.gz", "c.txt"):
        text = ("\n".join(lines) + "\n").encode()
        (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    zorro = yardstick(Zorro, opened(folder)[1], tmp_path)
    assert [(pair.bad, pair.good) for pair in zorro.paradigms["a-b"]] == [tuple(lines[:2]), tuple(lines[2:])]
    scores = zorro.score(opened(folder)[0])
    assert list(scores) == ["Zorro", "Zorro, a-b", "Zorro, c"]
    assert scores["Zorro"].items == ["a-b 1", "a-b 2", "c 1", "c 2"]
    right = [loop(folder, good) > loop(folder, bad) for bad, good in (lines[:2], lines[2:])]
    assert scores["Zorro, c"].ratios["accuracy"].numerators.tolist() == right
    (tmp_path / "c.txt").write_text("one line\n")
    with pytest.raises(SystemExit, match=r"c\.txt: has 1 lines; expected Zorro's texts"):
        main(["evaluate", str(folder), "--task", f"zorro={tmp_path}", "--cpu"])


def test_the_command(folder, data, tmp_path, capsys):
    other, results = hugging_face_bert(tmp_path / "other", seed=1), tmp_path / "results.jsonl"
    flags = ["--task", f"blimp={data}", "--cpu", "--results", str(results)]
    main(["evaluate", f"first={folder}", f"second={other}", *flags])
    said = capsys.readouterr().out
    assert "minimal pairs: 4 pairs of 2 paradigms" in said
    row = next(line.split() for line in said.splitlines() if line.startswith("minimal pairs: accuracy ↑"))
    read = {(each.model, each.task): each for each in read_results([results])}
    whole = read["first", "minimal pairs"]
    assert whole.examples["accuracy"][2] == 0.5
    assert row[4:6] == ["first", f"{100 * whole.metrics['accuracy']:.2f}"]
    assert read["second", "minimal pairs, c"].metrics["accuracy"] in (0.0, 1.0)
    main(["compare", str(results)])
    compared = capsys.readouterr().out
    assert "1 seed is no evidence" in compared
    assert "a_b" in compared


@pytest.mark.parametrize(
    ("content", "message"), [("{}", "missing required field sentence_good"), ("", "no pairs; expected BLiMP's")]
)
def test_other_files_are_refused(folder, tmp_path, content, message):
    (tmp_path / "a.jsonl").write_text(content)
    with pytest.raises(TrueNegError, match=message):
        yardstick(Blimp, opened(folder)[1], tmp_path / "a.jsonl")
