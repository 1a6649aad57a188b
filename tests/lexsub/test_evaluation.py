"""truneg lexsub: the real command on real checkpoints, every rule by hand, and an independent computation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from nltk.stem import WordNetLemmatizer
from support.judgements import ITEMS, content, write

import truneg_fairseq
from truneg_fairseq.comparison.results import read_results
from truneg_fairseq.errors import TrueNegError

truneg_fairseq.register()

from truneg_fairseq.commands.main import main  # noqa: E402
from truneg_fairseq.lexsub.evaluation import Benchmark  # noqa: E402
from truneg_fairseq.lexsub.model import MaskedLm  # noqa: E402
from truneg_fairseq.lexsub.places import WINDOW, Placer  # noqa: E402
from truneg_fairseq.lexsub.swords import read_judgements  # noqa: E402


@pytest.fixture(scope="module")
def placer(folder):
    return Placer(folder / "data-bin")


@pytest.fixture(scope="module")
def benchmark(folder, placer):
    return Benchmark(read_judgements(folder / "swords.json.gz"), placer)


class Fixed:
    """A model that gives words these ranks, the same everywhere."""

    def __init__(self, placer, words):
        self.row = np.full(len(placer.vocabulary), -20.0, dtype=np.float32)
        for rank, word in enumerate(words):
            self.row[placer.vocabulary.words.index(word)] = -1.0 - rank

    def log_probabilities(self, places, mask=None):
        return ((index, self.row) for index in range(len(places)))


def test_what_is_left_out_is_counted(benchmark):
    assert [place.target.word for place in benchmark.places] == ["large", "walked", "film", "begin"]
    assert (benchmark.unknown, benchmark.unranked) == (1, 1)
    # "huge", "of great size" and "go" are not one token; the last target has no accepted candidate of people
    assert "GAP ranks 15 of 18 candidates" in benchmark.described("f")


def test_targets_in_their_tokens(placer, benchmark):
    def spelled(place):
        return [placer.vocabulary.symbols[token] for token in place.tokens]

    large, walked = benchmark.places[0], benchmark.places[1]
    assert spelled(large)[large.position] == "large"
    assert spelled(large)[-3:] == ["quick", ".", "</s>"]
    assert spelled(walked)[:3] == ["<s>", "kid", "##s"]
    assert placer.vocabulary.symbols[walked.gold] == "walked"


def test_a_long_context_is_cut_around_its_target(placer, tmp_path):
    made = content()
    text = "the " * 100 + "large" + " of" * 100
    made["contexts"]["c:0"]["context"], made["targets"]["t:0"]["offset"] = text, 400
    place = placer.place(read_judgements(write(tmp_path / "a.json", made)).targets[0])
    assert len(place.tokens) == WINDOW
    symbols = [placer.vocabulary.symbols[token] for token in place.tokens]
    assert symbols[0] == "<s>"
    assert symbols[-1] == "</s>"
    assert abs(symbols.index("large") - WINDOW // 2) <= 1


def test_lenient_and_strict_by_hand(placer, benchmark):
    """The first target: forms of one lemma are one word, its own lemma is no answer, the unjudged count if strict."""
    found = benchmark.evaluate(Fixed(placer, ["large", "table", "big", "great", "walk", "walked", "small"]))
    metrics = found.metrics["masked", "all"]

    def parts(name, target):
        return float(metrics[name].numerators[target]), float(metrics[name].denominators[target])

    # Accepted (> 50 %): big, huge, of great size; great has 50 %. Lenient output: the five judged words of the
    # vocabulary; one hit: 2 * 1 / (5 + 3).
    assert parts("f10_lenient_accepted", 0) == (2.0, 5 + 3)
    assert parts("f10_lenient_conceivable", 0) == (2.0 * 3, 5 + 5)  # big, great, main
    assert parts("f10_strict_accepted", 0)[1] == 10 + 3
    assert parts("precision_at_1", 0) == (0.0, 1.0)  # table
    assert parts("precision_at_3", 0)[0] == pytest.approx(1 / 3)  # table, big, great
    # The second: "walk" and "walked" are the target's own lemma, so that "stay" and "stop" alone are judged.
    assert parts("f10_lenient_conceivable", 1) == (2.0, 2 + 2)
    probability = parts("probability_accepted", 0)[0]
    assert probability == pytest.approx(float(np.exp(-3.0)))
    # People's candidates alone: huge and small, of the thesaurus, are neither gold nor judged.
    people = found.metrics["masked", "people"]
    assert (people["f10_lenient_accepted"].numerators[0], people["f10_lenient_accepted"].denominators[0]) == (
        2.0,
        2 + 2,
    )


def test_ceiling_is_reached_by_a_model_that_knows(placer, benchmark):
    ceiling = benchmark.ceiling().metrics["ceiling", "all"]
    assert ceiling["gap"].value == 1
    assert ceiling["precision_at_1"].value == pytest.approx(3 / 4)  # "go" is not in the vocabulary
    for name in ("f10_lenient_accepted", "f10_strict_conceivable"):
        for words in (["big", "stay", "movie", "start"], ["small", "end", "buy", "table"]):
            found = benchmark.evaluate(Fixed(placer, words)).metrics["kept", "all"]
            assert found[name].value <= ceiling[name].value + 1e-9


def obvious(placer, place, row, people):
    """GAP and lenient F^10's parts for accepted words, from words and dictionaries alone."""
    item = next(item for item in ITEMS if f"[{place.target.word}]" in item[0])
    pos = {"ADJ": "a", "VERB": "v", "NOUN": "n"}[item[1]]
    lemmatize = WordNetLemmatizer().lemmatize
    votes = {word: each for word, each in item[2].items() if not people or "coinco" in each[2]}
    log = {word: float(row[token]) for token, word in enumerate(placer.vocabulary.words) if word is not None}
    ranked = sorted((word for word in votes if word in log), key=lambda word: -log[word])
    gains = [votes[word][0] for word in ranked]

    def total(values):
        return sum(np.mean(values[: i + 1]) for i, value in enumerate(values) if value > 0)

    best = total(sorted(gains, reverse=True))
    output: list[str] = []
    judged = {lemmatize(word, pos) for word in votes} - {lemmatize(place.target.word, pos)}
    for word in sorted(log, key=lambda word: -log[word]):
        lemma = lemmatize(word, pos)
        if lemma in judged and lemma not in output and len(output) < 10:
            output.append(lemma)
    gold = {lemmatize(word, pos) for word, each in votes.items() if each[0] / each[1] > 0.5} & judged
    hits = len(gold & set(output))
    return total(gains) / best if best else None, (2 * hits, len(output) + len(gold))


@pytest.mark.parametrize("name", ["bert", "roberta", "electra"])
@pytest.mark.parametrize("mode", ["masked", "kept"])
def test_agrees_with_an_obvious_computation(folder, placer, benchmark, checkpoints, name, mode):
    model = MaskedLm(checkpoints[name], folder / "data-bin", cpu=True)
    for people in (False, True):
        metrics = benchmark.evaluate(model).metrics[mode, "people" if people else "all"]
        for index, place in enumerate(benchmark.places):
            tokens = torch.from_numpy(place.tokens.copy())[None]  # alone, without padding
            if mode == "masked":
                tokens[0, place.position] = placer.mask
            with torch.no_grad():
                row = model._model(tokens)[0][0, place.position].log_softmax(-1).numpy()
            gap, parts = obvious(placer, place, row, people)
            assert metrics["gap"].denominators[index] == (gap is not None)
            assert metrics["gap"].numerators[index] == pytest.approx(gap or 0.0)
            ratio = metrics["f10_lenient_accepted"]
            assert (ratio.numerators[index], ratio.denominators[index]) == parts


def test_several_checkpoints_and_results(folder, checkpoints, tmp_path, capsys):
    results = tmp_path / "results.jsonl"
    paths = [str(checkpoints[name]) for name in ("bert", "roberta", "electra")]
    flags = ["--data", str(folder / "data-bin"), "--judgements", str(folder / "swords.json.gz"), "--cpu"]
    named = ["--models", "bert", "roberta", "bert", "--seeds", "1", "1", "2", "--results", str(results)]
    main(["lexsub", *paths, *flags, *named])
    said = capsys.readouterr().out
    assert "4 targets; 1 are not one token of the dictionary and left out, 1 have no one-token candidate" in said
    assert said.count("\nceiling ") == 4
    assert "R@10 is a mean over the targets with an accepted candidate: 4 (all), " in said
    assert "Differences to bert 1: target kept, the people's candidates alone" in said
    read = read_results([results])
    assert len(read) == 3 * 4
    kept = next(each for each in read if each.model == "roberta" and each.task == "lexsub kept")
    assert kept.example_ids == ["t:0", "t:1", "t:2", "t:3"]
    assert np.mean(kept.examples["gap"]) == pytest.approx(kept.metrics["gap"])
    assert kept.settings["sha256"] == read_judgements(folder / "swords.json.gz").sha256
    main(["compare", str(results)])
    compared = capsys.readouterr().out
    shown = f"{100 * kept.metrics['gap']:.1f}"
    assert any(line.startswith("roberta") and shown in line for line in compared.splitlines())
    assert "lexsub masked (people): differences to bert" in compared
    assert "Not in the paper" not in compared
    with pytest.raises(SystemExit, match="has another result of model 'bert', task 'lexsub"):
        main(["lexsub", paths[1], *flags, "--models", "bert", "--results", str(results)])
    assert "\nceiling " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("names", "message"),
    [(["--models", "a"], "--models: found 1, expected one for each of 2"), ([], "have the same name and seed")],
)
def test_names_that_do_not_fit(folder, checkpoints, names, message):
    flags = ["--data", folder / "data-bin", "--judgements", folder / "swords.json.gz", "--cpu", *names]
    with pytest.raises(SystemExit, match=message):
        main([str(each) for each in ("lexsub", checkpoints["bert"], checkpoints["bert"], *flags)])


def test_weights_that_are_not_finite(folder, checkpoints, tmp_path):
    content = torch.load(checkpoints["bert"], weights_only=False)
    name = "encoder.sentence_encoder.layers.0.fc1.weight"
    content["model"][name][0, 0] = float("nan")
    torch.save(content, tmp_path / "nan.pt")
    with pytest.raises(TrueNegError, match=f"{name} is not finite"):
        MaskedLm(tmp_path / "nan.pt", folder / "data-bin", cpu=True)
