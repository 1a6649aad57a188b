"""Lexical substitution: the metrics and every rule by hand, and the real command on real checkpoints."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from nltk.stem import WordNetLemmatizer
from support.commands import WORDS
from support.judgements import content, write
from support.masked_lms import evaluated, opened, yardstick
from support.trainings import table_of

import truneg_fairseq
from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.synonyms.table import SynonymTable

truneg_fairseq.register()

from truneg_fairseq.evaluation.lexsub import PEOPLE, SHOWN, Lexsub, lemma_of, place_target  # noqa: E402
from truneg_fairseq.evaluation.people import read_people  # noqa: E402
from truneg_fairseq.evaluation.scorer import WINDOW, Scorer  # noqa: E402


@pytest.fixture(scope="module")
def benchmark(folder, tokens):
    return yardstick(Lexsub, tokens, folder / "swords.json.gz")


class Fixed:
    """A model that gives words these ranks, the same everywhere."""

    rows, path = Scorer.rows, Path("fixed.pt")

    def __init__(self, tokens, words):
        self.row = torch.full((len(tokens.vocabulary),), -20.0)
        for rank, word in enumerate(words):
            self.row[tokens.vocabulary.words.index(word)] = -1.0 - rank

    def log_probabilities(self, queries):
        yield list(range(len(queries))), self.row.expand(len(queries), -1)


def test_targets_in_their_tokens(tokens, benchmark):
    def spelled(place):
        return [tokens.vocabulary.symbols[token] for token in place.tokens]

    large, walked = benchmark.places[0], benchmark.places[1]
    assert spelled(large)[large.position] == "large"
    assert spelled(large)[-3:] == ["quick", ".", "</s>"]
    assert spelled(walked)[:3] == ["<s>", "kid", "##s"]
    assert tokens.vocabulary.symbols[walked.gold] == "walked"


def test_a_long_context_is_cut_around_its_target(tokens, tmp_path):
    made = content()
    text = "the " * 100 + "large" + " of" * 100
    made["contexts"]["c:0"]["context"], made["targets"]["t:0"]["offset"] = text, 400
    place = place_target(read_people(write(tmp_path / "a.json", made)).targets[0], tokens)
    assert len(place.tokens) == WINDOW
    symbols = [tokens.vocabulary.symbols[token] for token in place.tokens]
    assert symbols[0] == "<s>"
    assert symbols[-1] == "</s>"
    assert abs(symbols.index("large") - WINDOW // 2) <= 1


def test_lemmas_are_those_of_nltk(wordnet):
    words = [*WORDS, "Walks", "pictures", "better", "begun", "children", "of great size", "is"]
    for word, pos in itertools.product(words, "nvar"):
        assert lemma_of(word, pos) == WordNetLemmatizer().lemmatize(word.lower(), pos), (word, pos)


def test_lenient_and_strict_by_hand(tokens, benchmark):
    """The first target: forms of one lemma are one word, its own lemma is no answer, the unjudged count if strict."""
    found = benchmark.score(Fixed(tokens, ["large", "table", "big", "great", "walk", "walked", "small"]))
    metrics = found["lexsub masked"].ratios

    def parts(name, target):
        return float(metrics[name].numerators[target]), float(metrics[name].denominators[target])

    # Accepted (more than half of the votes): big, great, huge, of great size. Lenient output: the five judged words of
    # the vocabulary; two hits: 2 * 2 / (5 + 4).
    assert parts("f10_lenient_accepted", 0) == (4.0, 5 + 4)
    # In the model's order people gave its candidates 8, 5, 0, 0 and 1 of 9 votes; in the best order 8, 5 and 1.
    assert parts("gap", 0) == (pytest.approx((8 + 13 / 2 + 14 / 5) / (8 + 13 / 2 + 14 / 3)), 1.0)
    shares = [8 / 9, 5 / 9, 1 / 9]
    best = shares[0] + sum(shares[:2]) / 2 + sum(shares) / 3
    assert parts("gap_shares", 0)[0] == pytest.approx((best - sum(shares) / 3 + sum(shares) / 5) / best)
    assert parts("f10_lenient_conceivable", 0) == (2.0 * 3, 5 + 5)  # big, great, main
    assert parts("f10_strict_accepted", 0)[1] == 10 + 4
    assert parts("precision_at_1", 0) == (0.0, 1.0)  # table
    assert parts("precision_at_3", 0)[0] == pytest.approx(2 / 3)  # table, big, great
    # The second: "walk" and "walked" are the target's own lemma, so that "stay" and "stop" alone are judged.
    assert parts("f10_lenient_conceivable", 1) == (2.0, 2 + 2)
    probability = parts("probability_accepted", 0)[0]
    assert probability == pytest.approx(float(np.exp(-3.0) + np.exp(-4.0)))
    # People's candidates alone: huge and small, of the thesaurus, are neither gold nor judged.
    people = found["lexsub masked (people)"].ratios
    accepted = people["f10_lenient_accepted"]
    assert (accepted.numerators[0], accepted.denominators[0]) == (4.0, 2 + 3)


def test_ceiling_is_reached_by_a_model_that_knows(tokens, benchmark):
    model = Fixed(tokens, [])
    model.embeddings = torch.eye(len(tokens.vocabulary))
    ceiling = benchmark.controls(model)["ceiling"][SHOWN].ratios
    assert ceiling["gap"].value == 1
    assert ceiling["precision_at_1"].value == pytest.approx(3 / 4)  # "go" is not in the vocabulary
    for name in ("f10_lenient_accepted", "f10_strict_conceivable"):
        for words in (["big", "stay", "movie", "start"], ["small", "end", "buy", "table"]):
            found = benchmark.score(Fixed(tokens, words))[SHOWN].ratios
            assert found[name].value <= ceiling[name].value + 1e-9


@pytest.mark.parametrize("name", ["bert", "roberta", "electra"])
def test_rows_are_those_of_each_sentence_alone(folder, tokens, benchmark, checkpoints, name):
    """Without the padding of a batch; an ELECTRA's generator predicts."""
    model, _ = opened(checkpoints[name], folder / "data-bin")
    for mask in (tokens.mask, None):
        for index, row in model.rows([place.query(mask) for place in benchmark.places]):
            query = benchmark.places[index].query(mask)
            with torch.no_grad():
                alone = model.model(torch.from_numpy(query.tokens)[None])[0][0, query.position].log_softmax(-1)
            assert row == pytest.approx(alone.numpy(), abs=1e-5)


def test_several_checkpoints_and_results(folder, checkpoints, tmp_path, capsys):
    results = tmp_path / "results.jsonl"
    given = ([f"lexsub={folder / 'swords.json.gz'}"], "--data", folder / "data-bin")
    read = evaluated([f"{name}={path}" for name, path in checkpoints.items()], *given, results=results)
    said = capsys.readouterr().out
    assert "4 targets; 1 are not one token of the dictionary and left out, 1 have no one-token candidate" in said
    # "huge", "of great size" and "go" are not one token; the last target has no accepted candidate of people
    assert "GAP ranks 15 of 18 candidates" in said
    assert ["cosine", "chance", "ceiling"] in (line.split()[-3:] for line in said.splitlines())
    assert " table " not in said.split("Controls:")[0]
    assert sum(line.startswith("GAP ↑") for line in said.splitlines()) == 3, "values, and two differences"
    assert "lexsub masked" not in said, "for --results"
    assert len(read) == 3 * 4
    kept = next(each for each in read if each.model == "roberta" and each.task == "lexsub kept")
    assert kept.example_ids == ["t:0", "t:1", "t:2", "t:3"]
    assert np.mean(kept.examples["gap"]) == pytest.approx(kept.metrics["gap"])
    assert kept.settings["sha256"] == read_people(folder / "swords.json.gz").sha256
    with pytest.raises(SystemExit, match="has another result of model 'bert', task 'lexsub"):
        evaluated([f"bert={checkpoints['roberta']}"], *given, results=results)


def test_a_file_in_which_nobody_accepts_a_word_is_refused(tokens, tmp_path):
    made = content()
    made["substitute_labels"] = {name: ["FALSE"] for name in made["substitute_labels"]}
    with pytest.raises(TrueNegError, match="expected a candidate that is one token and that somebody accepts"):
        yardstick(Lexsub, tokens, write(tmp_path / "a.json", made))


def test_listed_words_are_apart_by_hand(folder, tokens, tmp_path):
    table = table_of(folder / "data-bin", [("large", "big"), ("film", "car"), ("walked", "walk")], tmp_path / "t.npz")
    benchmark = yardstick(Lexsub, tokens, folder / "swords.json.gz", synonym_table=table)
    scores = benchmark.score(Fixed(tokens, ["big", "great", "movie", "start"]))
    # "car" is no candidate of "film", "walk" is a form of "walked" itself.
    assert scores["lexsub kept, listed"].items == ["t:0"]
    assert scores["lexsub kept (people), not listed"].items == ["t:1", "t:2", "t:3"]
    found = scores["lexsub kept"].ratios
    # Accepted for "large": big, great, huge, of great size; for the others 1, 2 (movie, picture), 2 (start, commence).
    assert found["recall_at_10_listed"].numerators.tolist() == pytest.approx([1 / 4, 0, 0, 0])
    assert found["recall_at_10_others"].numerators.tolist() == pytest.approx([1 / 4, 0, 1 / 2, 1 / 2])
    parts = found["recall_at_10_listed"].numerators + found["recall_at_10_others"].numerators
    assert parts == pytest.approx(found["recall_at_10"].numerators)


def test_controls_by_hand(folder, tokens, checkpoints, tmp_path):
    model, _ = opened(checkpoints["bert"], folder / "data-bin")
    table = table_of(folder / "data-bin", [("large", "big"), ("large", "table")], tmp_path / "t.npz")
    benchmark = yardstick(Lexsub, tokens, folder / "swords.json.gz", synonym_table=table)
    gold = benchmark.places[0].gold
    cosine = dict(benchmark._cosine(model))[0]
    unit = model.embeddings / model.embeddings.norm(dim=1, keepdim=True)
    assert cosine == pytest.approx(((unit @ unit[gold]) / 0.1).log_softmax(0).numpy(), abs=1e-4)
    with torch.no_grad():  # two words beside the target, and a third that is far from it
        near, far = tokens.token("big"), tokens.token("table")
        model.embeddings[near] = 0.5 * model.embeddings[gold] / model.embeddings[gold].norm()
        model.embeddings[far] = -model.embeddings[gold]
    plain = dict(model.rows([place.query() for place in benchmark.places]))
    mixed = dict(benchmark._look_up(model, SynonymTable.load(table)))
    added = np.exp(plain[0])
    added[near] += 0.1
    assert np.exp(mixed[0]) == pytest.approx(added / 1.1, rel=1e-4)
    assert mixed[1] == pytest.approx(plain[1], abs=1e-5)
    controls = benchmark.controls(model)
    assert list(controls) == ["cosine", "chance", "table", "ceiling"]
    chance = controls["chance"][SHOWN].ratios
    for name, ratio in chance.items():
        assert 0 <= ratio.value <= controls["ceiling"][SHOWN].ratios[name].value
    accepted = [len(gold.accepted) for gold in benchmark.gold[PEOPLE]]
    assert 0 < chance["probability_accepted"].value < 2 * np.mean(accepted) / len(tokens.vocabulary)
