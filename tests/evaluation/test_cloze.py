"""Cloze answers: every metric by hand, and the command on real small models."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from support.judgements import ANSWERS
from support.losses import table_of_pairs
from support.masked_lms import TOKENS, evaluated, opened, yardstick
from support.tokenizers_made import gpt2_of_words

from truneg_fairseq.evaluation.cloze import Cloze
from truneg_fairseq.evaluation.people import read_people
from truneg_fairseq.evaluation.scorer import DataTokens


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("cloze") / "answers.json"
    path.write_text(json.dumps(ANSWERS))
    return path


@pytest.fixture(scope="module")
def tokens(bert):
    return opened(bert)[1]


def cloze_of(file, tokens, table=None) -> Cloze:
    return yardstick(Cloze, tokens, file, synonym_table=table)


def test_metrics_by_hand(file, bert, tokens, tmp_path):
    table = tmp_path / "table.npz"
    pairs = [(tokens.token(a), tokens.token(b)) for a, b in (("car", "film"), ("of", "begin"))]
    table_of_pairs(pairs, tokens.vocabulary).save(table)
    benchmark = cloze_of(file, tokens, table)
    assert [item.name for item in benchmark.items] == [item["context"] for item in ANSWERS[:3]]
    scores = benchmark.score(opened(bert)[0])
    found = {**scores["cloze"].ratios, "corpus_bits": scores["cloze corpus word"].ratios["bits"]}
    from transformers import AutoModelForMaskedLM

    theirs = AutoModelForMaskedLM.from_pretrained(bert).eval()
    for index, item in enumerate(ANSWERS[:3]):
        words = ["[CLS]", *item["context"].replace("kids", "kid ##s").split(), "[MASK]", ".", "[SEP]"]
        ids = torch.tensor([[TOKENS.index(word) for word in words]])
        with torch.no_grad():
            q = theirs(ids).logits[0, -3].softmax(-1).numpy().astype(np.float64)
        counts = {word.lower(): count for word, count in item["answers"].items() if word.lower() in TOKENS}
        p = np.array(list(counts.values())) / sum(counts.values())
        of = np.array([q[TOKENS.index(word)] for word in counts])
        known = item["word"] is not None
        others = np.array([word != item["word"] for word in counts])
        common = others & (np.array(list(counts.values())) >= 0.05 * sum(item["answers"].values()))
        expected = {
            "bits": -(p * np.log2(of)).sum(),
            "said": of.sum(),
            "others": of[others].sum() if known else None,
            "common": of[common].sum() if known else None,
            "replaced": of[others].sum() / (1 - q[TOKENS.index(item["word"])]) if known else None,
            "listed": {0: q[TOKENS.index("film")], 1: 0.0}.get(index),
            "spearman": spearmanr(list(counts.values()), of).statistic if len(set(counts.values())) > 1 else None,
            "corpus_bits": -np.log2(q[TOKENS.index(item["word"])]) if known else None,
        }
        ranked = sorted((word for word in TOKENS if word.isalpha()), key=lambda word: -q[TOKENS.index(word)])
        expected["best_said"] = float(ranked[0] in counts)
        expected["best_10_said"] = np.mean([word in counts for word in ranked[:10]])
        for name, value in expected.items():
            assert found[name].denominators[index] == (value is not None), name
            if value is not None:
                assert found[name].numerators[index] == pytest.approx(value, abs=1e-5), name
    said = benchmark.described
    # 6 of the 12 answers that are not "car" or "of" but a token, of contexts whose word is a token: film 6, movie 1, 4.
    assert f"lists {100 * 6 / 11:.2f} % of the answers of p(others)" in said
    assert "3 of 4 contexts, 34 answers; 17.6 % of the answers are not one token" in said


@pytest.mark.parametrize("gap", [14.0, 16.0, 16.5, 17.0, 18.0, 40.0])
def test_replacements_are_exact_however_sure_the_model_is_of_the_word(file, tokens, gap):
    """All of the rest is on three answers: a word that people gave, with probability 1."""
    benchmark = cloze_of(file, tokens)
    item = benchmark.items[0]
    logits = torch.full((len(TOKENS),), -200.0)
    logits[torch.from_numpy(item.answers[item.others])] = -gap
    logits[item.word] = 0.0
    found = benchmark._of_row(logits.log_softmax(-1).numpy().astype(np.float64), item)
    assert found["replaced"] == pytest.approx(1.0)


def test_controls_are_between_chance_and_the_people(file, tokens):
    found = cloze_of(file, tokens).controls(None)
    controls = {name: tasks["cloze"].ratios for name, tasks in found.items()}
    assert list(controls) == ["chance", "half of the people", "people"], "a folder does not know its text's frequencies"
    assert controls["chance"]["bits"].value == pytest.approx(np.log2(len(TOKENS)), abs=1e-3)
    people = controls["people"]
    assert people["said"].value == pytest.approx(1)
    assert people["spearman"].value == pytest.approx(1)
    assert people["best_said"].value == 1
    entropies = []
    for counts in ([12, 6, 1], [3, 2, 2], [1, 1]):
        p = np.array(counts) / sum(counts)
        entropies.append(-(p * np.log2(p)).sum())
    assert people["bits"].value == pytest.approx(np.mean(entropies))
    assert people["bits"].value < controls["half of the people"]["bits"].value
    assert controls["half of the people"]["best_said"].numerators[2] == 0, "two people, each with a word of their own"


def test_the_frequencies_of_the_training_text_are_a_control(file, folder, binarized):
    tokens = DataTokens(folder / "data-bin")
    text = Counter((binarized.parent / "train.txt").read_text().split())
    found = cloze_of(file, tokens).controls(None)["frequency"]["cloze"].ratios["said"].numerators[0]
    of_answers = sum(text[word] + 1 for word in ("car", "film", "movie"))
    assert found == pytest.approx(of_answers / (tokens.counts + 1).sum())


def test_a_causal_model_reads_from_left_to_right(file, tmp_path, capsys):
    """Words are tokens with the space before them; the answer is what comes after the context."""
    from transformers import GPT2Config, GPT2LMHeadModel, GPT2TokenizerFast

    files = gpt2_of_words(["the", "large", "car", "film", "end", "of", "and", "walked", "kids", "to"]).contents()
    (tmp_path / "vocab.json").write_bytes(files["encoder.json"])
    (tmp_path / "merges.txt").write_bytes(files["vocab.bpe"])
    tokens = list(json.loads(files["encoder.json"]))
    folder = tmp_path / "gpt2"
    special = dict.fromkeys(("bos_token", "eos_token", "unk_token"), "<|endoftext|>")
    tokenizer = GPT2TokenizerFast(str(tmp_path / "vocab.json"), str(tmp_path / "merges.txt"), **special)
    tokenizer.save_pretrained(folder)
    end = tokens.index("<|endoftext|>")
    sizes = {"n_positions": 32, "n_embd": 16, "n_layer": 2, "n_head": 4}
    config = GPT2Config(vocab_size=len(tokens), **sizes, bos_token_id=end, eos_token_id=end)
    torch.manual_seed(1)
    theirs = GPT2LMHeadModel(config).eval()
    theirs.save_pretrained(folder)
    scorer, own = opened(folder)
    benchmark = cloze_of(file, own)
    found = benchmark.score(scorer)["cloze"].ratios
    ids = [end, *tokenizer("the large car")["input_ids"]]
    with torch.no_grad():
        q = theirs(torch.tensor([ids])).logits[0, -1].softmax(-1)
    expected = sum(float(q[tokens.index(f"Ġ{word}")]) for word in ("of", "and", "walked"))
    assert found["said"].numerators[1] == pytest.approx(expected, abs=1e-6)
    evaluated([folder], [f"cloze={file}"])
    assert "a word's probability is its token's, which longer words begin with too" in capsys.readouterr().out
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text('{"sentence_good": "a b", "sentence_bad": "b a", "UID": "order"}')
    with pytest.raises(SystemExit, match="its tokenizer has no mask; expected a masked LM"):
        evaluated([folder], [f"blimp={pairs}"])


def test_cloze_answers_can_judge_detectors(file):
    judgements = read_people(file)
    large, of = judgements.targets
    assert (large.context[large.start :], large.word) == ("car .", "car")
    shares = {candidate.word: candidate.share for candidate in large.candidates}
    given = {"film": 1.0, "Movie": 1.0, "of course": 1.0}  # each from 5 % of the 20 people
    assert {word: shares[word] for word in given} == given
    nobody = shares.keys() - given.keys()
    assert nobody <= {"of", "and", "walked", "end", "hurray"}
    assert {shares[word] for word in nobody} == {0.0}
    assert 1 <= len(nobody) <= len(given)
    assert {candidate.word for candidate in of.candidates if candidate.votes} == {"and", "walked"}
