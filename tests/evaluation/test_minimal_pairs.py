"""truneg pairs: scores against a plain loop, and against minicons where it is installed; the command."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from support.masked_lms import hugging_face_bert

from truneg_fairseq.commands.main import main
from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.evaluation.hf_scorer import HuggingFaceMaskedLm, HuggingFaceTokens
from truneg_fairseq.evaluation.minimal_pairs import read_pairs
from truneg_fairseq.evaluation.minimal_pairs_scores import correct, pseudo_log_likelihoods
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


def loop(folder, sentence, within_word):
    """One masked sentence after the other."""
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    model, tokenizer = AutoModelForMaskedLM.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    encoded = tokenizer(sentence)
    ids, words, total = encoded["input_ids"], encoded.word_ids(), 0.0
    for place in range(1, len(ids) - 1):
        masked = list(ids)
        for other in range(place, len(ids) - 1):
            if other == place or (within_word and words[other] == words[place]):
                masked[other] = tokenizer.mask_token_id
        with torch.no_grad():
            total += float(model(torch.tensor([masked])).logits[0, place].log_softmax(-1)[ids[place]])
    return total


@pytest.mark.parametrize("within_word", [True, False])
def test_scores_are_those_of_a_plain_loop(folder, within_word):
    model, tokens = HuggingFaceMaskedLm(folder, cpu=True), HuggingFaceTokens(folder)
    found = pseudo_log_likelihoods(model, tokens, SENTENCES, within_word=within_word)
    assert found == pytest.approx([loop(folder, sentence, within_word) for sentence in SENTENCES], abs=1e-4)
    assert found[0] != pytest.approx(loop(folder, SENTENCES[0], not within_word), abs=1e-3)


def test_scores_are_those_of_minicons(folder):
    scorer = pytest.importorskip("minicons.scorer")
    theirs = scorer.MaskedLMScorer(str(folder), "cpu")
    theirs.tokenizer.batch_encode_plus = theirs.tokenizer  # which minicons calls, and transformers 5 has no more
    model, tokens = HuggingFaceMaskedLm(folder, cpu=True), HuggingFaceTokens(folder)
    for metric in ("within_word_l2r", "original"):
        expected = theirs.sequence_score(SENTENCES, reduction=lambda x: x.sum(0).item(), PLL_metric=metric)
        found = pseudo_log_likelihoods(model, tokens, SENTENCES, within_word=metric != "original")
        assert found == pytest.approx(expected, abs=1e-4)


def test_the_same_tokens_count_half(data):
    assert read_pairs([data])[0][0].name == "a_b 1"
    scores = np.array([-1.0, -3.0, -2.0, -5.0, -2.0, -1.0, -2.0, -4.0])
    assert correct(scores).tolist() == [1.0, 0.0, 0.5, 0.0]
    assert len(read_pairs([data / "a_b.jsonl"], most=2)[0]) == 2


def test_the_command(folder, data, tmp_path, capsys):
    other, results = hugging_face_bert(tmp_path / "other", seed=1), tmp_path / "results.jsonl"
    flags = ["--pairs", str(data), "--cpu", "--models", "first", "second", "--results", str(results)]
    main(["pairs", str(folder), str(other), *flags])
    said = capsys.readouterr().out
    rows = {line.split()[0]: line.split() for line in said.splitlines() if line.startswith(("a_b ", "c ", "all "))}
    assert [rows[name][1] for name in ("a_b", "c", "all")] == ["3", "1", "4"]
    read = {(each.model, each.task): each for each in read_results([results])}
    whole = read["first", "minimal pairs"]
    assert whole.examples["accuracy"][2] == 0.5
    assert rows["all"][2] == f"{100 * whole.metrics['accuracy']:.2f}"
    assert read["second", "minimal pairs, c"].metrics["accuracy"] in (0.0, 1.0)
    assert whole.settings["score"] == "within_word_l2r"
    main(["compare", str(results)])
    compared = capsys.readouterr().out
    assert "1 seed is no evidence" in compared
    assert "a_b" in compared


@pytest.mark.parametrize(
    ("content", "message"), [("{}", "missing required field sentence_good"), ("", "no pairs; expected BLiMP's")]
)
def test_other_files_are_refused(tmp_path, content, message):
    (tmp_path / "a.jsonl").write_text(content)
    with pytest.raises(TrueNegError, match=message):
        read_pairs([tmp_path / "a.jsonl"])
