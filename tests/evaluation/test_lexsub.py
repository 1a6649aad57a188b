"""truneg lexsub: the real command on real checkpoints, every rule by hand, and an independent computation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from nltk.stem import WordNetLemmatizer
from support.commands import PLUGIN, TINY_MODEL, TINY_TRAINING, fairseq_train, run_command
from support.judgements import ITEMS, content, write
from support.trainings import table_of

import truneg_fairseq
from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.results.result import read_results
from truneg_fairseq.synonyms.table import SynonymTable

truneg_fairseq.register()

from truneg_fairseq.commands.main import main  # noqa: E402
from truneg_fairseq.evaluation.fairseq_scorer import FairseqMaskedLm  # noqa: E402
from truneg_fairseq.evaluation.lexsub import ANY, Benchmark  # noqa: E402
from truneg_fairseq.evaluation.lexsub_controls import Chance, EmbeddingCosine, LookUp, Trained  # noqa: E402
from truneg_fairseq.evaluation.lexsub_places import place_target  # noqa: E402
from truneg_fairseq.evaluation.scorer import WINDOW  # noqa: E402
from truneg_fairseq.evaluation.swords import read_judgements  # noqa: E402
from truneg_fairseq.evaluation.tokens import DataTokens  # noqa: E402


@pytest.fixture(scope="module")
def tokens(folder):
    return DataTokens(folder / "data-bin")


@pytest.fixture(scope="module")
def benchmark(folder, tokens):
    return Benchmark(read_judgements(folder / "swords.json.gz"), tokens)


class Fixed:
    """A model that gives words these ranks, the same everywhere."""

    def __init__(self, tokens, words):
        self.row = np.full(len(tokens.vocabulary), -20.0, dtype=np.float32)
        for rank, word in enumerate(words):
            self.row[tokens.vocabulary.words.index(word)] = -1.0 - rank

    def rows(self, places, mask):
        return ((index, self.row) for index in range(len(places)))


def test_what_is_left_out_is_counted(benchmark):
    assert [place.target.word for place in benchmark.places] == ["large", "walked", "film", "begin"]
    assert (benchmark.unknown, benchmark.unranked) == (1, 1)
    # "huge", "of great size" and "go" are not one token; the last target has no accepted candidate of people
    assert "GAP ranks 15 of 18 candidates" in benchmark.described("f")


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
    place = place_target(read_judgements(write(tmp_path / "a.json", made)).targets[0], tokens)
    assert len(place.tokens) == WINDOW
    symbols = [tokens.vocabulary.symbols[token] for token in place.tokens]
    assert symbols[0] == "<s>"
    assert symbols[-1] == "</s>"
    assert abs(symbols.index("large") - WINDOW // 2) <= 1


def test_lenient_and_strict_by_hand(tokens, benchmark):
    """The first target: forms of one lemma are one word, its own lemma is no answer, the unjudged count if strict."""
    found = benchmark.evaluate(Fixed(tokens, ["large", "table", "big", "great", "walk", "walked", "small"]))
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


def test_ceiling_is_reached_by_a_model_that_knows(tokens, benchmark):
    ceiling = benchmark.ceiling().metrics[ANY, "all"]
    assert ceiling["gap"].value == 1
    assert ceiling["precision_at_1"].value == pytest.approx(3 / 4)  # "go" is not in the vocabulary
    for name in ("f10_lenient_accepted", "f10_strict_conceivable"):
        for words in (["big", "stay", "movie", "start"], ["small", "end", "buy", "table"]):
            found = benchmark.evaluate(Fixed(tokens, words)).metrics["kept", "all"]
            assert found[name].value <= ceiling[name].value + 1e-9


def obvious(tokens, place, row, people):
    """GAP and lenient F^10's parts for accepted words, from words and dictionaries alone."""
    item = next(item for item in ITEMS if f"[{place.target.word}]" in item[0])
    pos = {"ADJ": "a", "VERB": "v", "NOUN": "n"}[item[1]]
    lemmatize = WordNetLemmatizer().lemmatize
    votes = {word: each for word, each in item[2].items() if not people or "coinco" in each[2]}
    log = {word: float(row[token]) for token, word in enumerate(tokens.vocabulary.words) if word is not None}
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
def test_agrees_with_an_obvious_computation(folder, tokens, benchmark, checkpoints, name, mode):
    model = FairseqMaskedLm(checkpoints[name], folder / "data-bin", cpu=True)
    for people in (False, True):
        metrics = benchmark.evaluate(Trained(model)).metrics[mode, "people" if people else "all"]
        for index, place in enumerate(benchmark.places):
            alone = torch.from_numpy(place.tokens.copy())[None]  # without padding
            if mode == "masked":
                alone[0, place.position] = tokens.mask
            with torch.no_grad():
                row = model._model(alone)[0][0, place.position].log_softmax(-1).numpy()
            gap, parts = obvious(tokens, place, row, people)
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
    counts = next(line for line in said.splitlines() if line.startswith("(targets)")).split()
    assert counts[1:] == ["4", "4", *["4"] * 6, "4", "4"]
    assert said.count("\nchance ") == 4
    assert said.count("\ncosine ") == 2
    assert "with the table" not in said
    assert "Differences to bert 1: target kept, the people's candidates alone" in said
    read = read_results([results])
    assert len(read) == 3 * 4
    kept = next(each for each in read if each.model == "roberta" and each.task == "lexsub kept")
    assert kept.example_ids == ["t:0", "t:1", "t:2", "t:3"]
    assert np.mean(kept.examples["gap"]) == pytest.approx(kept.metrics["gap"])
    assert kept.settings["sha256"] == read_judgements(folder / "swords.json.gz").sha256
    main(["compare", str(results)])
    compared = capsys.readouterr().out
    shown = f"{100 * kept.metrics['gap']:.2f}"
    assert any(line.startswith("roberta") and shown in line for line in compared.splitlines())
    assert "lexsub masked (people)" in compared
    with pytest.raises(SystemExit, match="has another result of model 'bert', task 'lexsub"):
        main(["lexsub", paths[1], *flags, "--models", "bert", "--results", str(results)])
    assert "\nceiling " in capsys.readouterr().out


def test_listed_words_are_told_apart_by_hand(folder, tokens, tmp_path):
    table = table_of(folder / "data-bin", [("large", "big"), ("film", "car"), ("walked", "walk")], tmp_path / "t.npz")
    benchmark = Benchmark(read_judgements(folder / "swords.json.gz"), tokens, [SynonymTable.load(table)])
    # "car" is no candidate of "film", "walk" is a form of "walked" itself.
    assert benchmark.listed.tolist() == [True, False, False, False]
    found = benchmark.evaluate(Fixed(tokens, ["big", "great", "movie", "start"])).metrics["kept", "all"]
    # Accepted for "large": big, huge, of great size; for the others 1, 2 (movie, picture) and 2 (start, commence).
    assert found["recall_at_10_listed"].numerators.tolist() == pytest.approx([1 / 3, 0, 0, 0])
    assert found["recall_at_10_others"].numerators.tolist() == pytest.approx([0, 0, 1 / 2, 1 / 2])
    parts = found["recall_at_10_listed"].numerators + found["recall_at_10_others"].numerators
    assert parts == pytest.approx(found["recall_at_10"].numerators)


def test_controls_by_hand(folder, tokens, benchmark, checkpoints, tmp_path):
    model = FairseqMaskedLm(checkpoints["bert"], folder / "data-bin", cpu=True)
    place = benchmark.places[0]
    ((_, cosine),) = EmbeddingCosine(model.embeddings).rows([place], None)
    unit = model.embeddings / model.embeddings.norm(dim=1, keepdim=True)
    expected = ((unit @ unit[place.gold]) / 0.1).log_softmax(0)
    assert cosine == pytest.approx(expected.numpy(), abs=1e-4)
    with torch.no_grad():  # two words beside the target, and a third that is far from it
        near, far = tokens.token("big"), tokens.token("table")
        model.embeddings[near] = 0.5 * model.embeddings[place.gold] / model.embeddings[place.gold].norm()
        model.embeddings[far] = -model.embeddings[place.gold]
    ((_, plain),) = Trained(model).rows([place], None)
    table = table_of(folder / "data-bin", [("large", "big"), ("large", "table")], tmp_path / "t.npz")
    ((_, mixed),) = LookUp(model, SynonymTable.load(table)).rows([place], None)
    added = np.exp(plain)
    added[near] += 0.1
    assert np.exp(mixed) == pytest.approx(added / 1.1, rel=1e-4)
    without = table_of(folder / "data-bin", [("film", "movie")], tmp_path / "t.npz")
    ((_, same),) = LookUp(model, SynonymTable.load(without)).rows([place], None)
    assert same == pytest.approx(plain, abs=1e-5)


def test_chance_is_far_from_the_ceiling(tokens, benchmark):
    chance, ceiling = benchmark.evaluate(Chance(len(tokens.vocabulary)), [ANY]), benchmark.ceiling()
    for name, ratio in chance.of("kept", "all").items():
        assert 0 <= ratio.value <= ceiling.of("kept", "all")[name].value
    accepted = [len(set(gold.accepted)) for gold in benchmark.gold["all"]]
    probability = chance.of("kept", "all")["probability_accepted"].value
    assert 0 < probability < 2 * np.mean(accepted) / len(tokens.vocabulary)


def test_a_held_out_table(folder, checkpoints, tmp_path, capsys):
    table_of(folder / "data-bin", [("large", "big"), ("film", "movie")], tmp_path / "taught.npz")
    results = tmp_path / "results.jsonl"
    flags = ["--data", folder / "data-bin", "--judgements", folder / "swords.json.gz", "--cpu", "--results", results]
    flags += ["--held-out-table", tmp_path / "taught.npz", "--models", "a", "b"]
    main([str(each) for each in ("lexsub", checkpoints["bert"], checkpoints["roberta"], *flags)])
    said = capsys.readouterr().out
    assert said.count("\nwith the table ") == 2 * 2
    apart = said.split("What tables list, apart: target kept, all candidates")[1]
    counts = next(line for line in apart.splitlines() if line.startswith("(targets)")).split()
    assert counts[1:] == ["4", "4", *["2"] * 6]
    read = read_results([results])
    tasks = {each.task for each in read if "kept" in each.task}
    assert tasks == {
        f"lexsub kept{kind}{part}" for kind in ("", " (people)") for part in ("", ", listed", ", not listed")
    }
    assert next(each for each in read if each.task == "lexsub kept, listed").example_ids == ["t:0", "t:2"]


def test_the_table_of_a_training_is_known(folder, tmp_path, capsys):
    data = folder / "data-bin"
    path = table_of(data, [("large", "big")], tmp_path / "taught.npz")
    trained = (*TINY_TRAINING, *TINY_MODEL, "--criterion", "masked_lm_true_neg", "--max-update", 1)
    treated = ("--target-smoothing", "synonyms", "--synonym-table", path, "--save-dir", tmp_path / "run")
    run_command(fairseq_train(data, "--user-dir", PLUGIN, *trained, *treated))
    command = ["lexsub", tmp_path / "run" / "checkpoint_last.pt", "--data", data, "--cpu"]
    command += ["--judgements", folder / "swords.json.gz", "--results", tmp_path / "results.jsonl"]
    main(list(map(str, command)))
    said = capsys.readouterr().out
    assert f"was trained with the synonym table {path}, which is reported apart" in said
    assert "What tables list, apart: target kept, all candidates" in said
    assert len(read_results([tmp_path / "results.jsonl"])) == 4, "comparable with those of other tables"
    path.unlink()
    main(list(map(str, command)))
    assert f"its synonym table {path} is not there; give it with --held-out-table" in capsys.readouterr().out


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
        FairseqMaskedLm(tmp_path / "nan.pt", folder / "data-bin", cpu=True)
