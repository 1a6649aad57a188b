"""Minimal pairs, similarity, reading times and calibration, each against an obvious computation; the command."""

from __future__ import annotations

import gzip
import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr
from support.commands import WORDS
from support.masked_lms import hugging_face_bert, opened, yardstick

from truneg_fairseq.commands.main import main
from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.evaluation.held_out import BINS, bin_of, calibration_error
from truneg_fairseq.evaluation.minimal_pairs import Blimp, Zorro, pseudo_log_likelihoods
from truneg_fairseq.evaluation.reading import Reading, predicted
from truneg_fairseq.evaluation.similarity import pseudo_values
from truneg_fairseq.results.result import read_results

SENTENCES = ["The kids walked to the car.", "The kid walked, quickly.", "A film of carsly of the end"]


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    return hugging_face_bert(tmp_path_factory.mktemp("yardsticks") / "other", seed=1)


@pytest.fixture(scope="module")
def theirs(bert):
    """transformers' own model and tokenizer."""
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    return AutoModelForMaskedLM.from_pretrained(bert).eval(), AutoTokenizer.from_pretrained(bert)


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
    flags = ["--task", f"blimp={pairs}", "--cpu", "--results", str(results)]
    main(["evaluate", f"first={bert}", f"second={other}", *flags])
    said = capsys.readouterr().out
    assert "minimal pairs: 4 pairs of 2 paradigms" in said
    row = next(line.split() for line in said.splitlines() if line.startswith("accuracy ↑ "))
    read = {(each.model, each.task): each for each in read_results([results])}
    whole = read["first", "minimal pairs"]
    assert whole.examples["accuracy"][2] == 0.5
    assert row[2] == f"{100 * whole.metrics['accuracy']:.2f}"
    assert "\nminimal pairs: differences to first\n" in said
    assert read["second", "minimal pairs, c"].metrics["accuracy"] in (0.0, 1.0)
    assert len(yardstick(Blimp, opened(bert)[1], pairs / "a_b.jsonl", limit=2).pairs) == 2
    main(["compare", str(results)])
    compared = capsys.readouterr().out
    assert "1 seed is no evidence" in compared
    assert "a_b" in compared


@pytest.mark.parametrize(
    ("content", "message"),
    [("{}", "missing required field sentence_good"), ("", "nothing to measure the model on; expected BLiMP's")],
)
def test_other_files_are_refused(bert, tmp_path, content, message):
    (tmp_path / "a.jsonl").write_text(content)
    with pytest.raises(TrueNegError, match=message):
        yardstick(Blimp, opened(bert)[1], tmp_path / "a.jsonl")


def test_similarities_are_those_of_single_sentences(bert, other, theirs, tmp_path, capsys):
    judged = [
        *(("The kids walked to the car.", "The kids walked.", 4.0), ("A film of the end", "The big film", 2.5)),
        *(("the car", "the car", 5.0), ("The cars begin to walk quickly.", "film", 0.2)),
    ]
    path, results = tmp_path / "dev.tsv", tmp_path / "results.jsonl"
    rows = [f"{number}\t{first}\t{second}\t{score}" for number, (first, second, score) in enumerate(judged)]
    path.write_text("\n".join(["index\tsentence1\tsentence2\tscore", *rows]) + "\n")
    command = ["evaluate", f"first={bert}", f"second={other}", "--task", f"sts={path}", "--results", str(results)]
    main([*command, "--cpu"])
    output = capsys.readouterr().out
    assert "    input embeddings\n" in output
    assert "Spearman ↑: second " in output
    model, tokenizer = theirs

    def mean_state(text):
        with torch.no_grad():
            found = model(**tokenizer(text, return_tensors="pt"), output_hidden_states=True)
        return found.hidden_states[-1][0].mean(0)

    cosines = [float(torch.cosine_similarity(mean_state(a), mean_state(b), dim=0)) for a, b, _ in judged]
    first, _ = read_results([results])
    assert first.task == "STS-B without training"
    assert first.metrics["spearman"] == pytest.approx(spearmanr(cosines, [pair[2] for pair in judged]).statistic)
    path.write_text("index\tsentence1\tsentence2\n0\tthe car\tthe film\n")
    with pytest.raises(SystemExit, match=r"dev\.tsv: line 1 has no column 'score'"):
        main([*command, "--cpu"])


def test_the_jackknife_has_the_correlation_and_its_noise():
    random = np.random.default_rng(1)
    people = random.integers(0, 6, 400) / 1.0
    cosines = people + random.normal(0, 3, 400)
    values = pseudo_values(people, cosines)
    assert values.mean() == pytest.approx(spearmanr(people, cosines).statistic)
    drawn = [random.integers(400, size=400) for _ in range(1000)]
    of_resamples = np.std([spearmanr(people[chosen], cosines[chosen]).statistic for chosen in drawn])
    assert values.std() / 20 == pytest.approx(of_resamples, rel=0.1)


@pytest.fixture(scope="module")
def times(tmp_path_factory):
    """Reading times that follow the trigram's surprisal closely, and nobody else's."""
    random, words = np.random.default_rng(1), [word for word in WORDS if word.isalpha()]
    columns = "item word sent_id context_length Subtlex_log10 length self_paced_reading_time RTfirstpass trigram s_GPT2"
    lines = [",".join([*columns.split(), "cloze_s"])]
    for number in range(60):
        chosen = random.choice(words, 6)
        for place in range(1, 6):
            frequency, surprisal, other = random.random(3).round(3)
            measured = [round(300 + 50 * surprisal + random.normal(), 3), round(100 + 20 * surprisal, 3)]
            numbers = [number, place, frequency, len(chosen[place]), *measured, surprisal, other, other]
            row = [" ".join(chosen[:place]), f"{chosen[place]}{'.' * (place == 5)}", *numbers]
            lines.append(",".join(map(str, row)))
    path = tmp_path_factory.mktemp("reading") / "all_measures.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_predictions_are_those_of_a_plain_loop():
    random = np.random.default_rng(2)
    x, fold = random.random((90, 2)), np.arange(90) % 3
    y = x @ [3.0, -1.0] + random.normal(0, 0.3, 90)
    values, logs = predicted(x, y, fold)
    for number in range(3):
        known = fold != number
        design = np.column_stack([x, np.ones(90)])
        weights = np.linalg.solve(design[known].T @ design[known], design[known].T @ y[known])
        noise = ((y[known] - design[known] @ weights) ** 2).mean()
        expected = design[~known] @ weights
        assert values[~known] == pytest.approx(expected)
        density = np.exp(-((y[~known] - expected) ** 2) / (2 * noise)) / np.sqrt(2 * np.pi * noise)
        assert logs[~known] == pytest.approx(np.log2(density))


def test_surprisals_and_gains(bert, theirs, times, tmp_path, capsys):
    reading, (model, tokenizer) = yardstick(Reading, opened(bert)[1], times), theirs
    queries = list(reading._queries("The big", "walks"))  # two tokens
    assert len(queries) == 2
    for number, (query, token) in enumerate(queries):
        (ids,) = tokenizer("The big walks .", return_tensors="pt")["input_ids"]
        wanted = int(ids[3 + number])
        ids[3 + number : 5] = tokenizer.mask_token_id
        assert (query.tokens.tolist(), query.position, token) == (ids.tolist(), 3 + number, wanted)
    scorer = opened(bert)[0]
    total = scorer.summed(((0, *each) for each in queries), 1)[0]
    with torch.no_grad():
        rows = [model(torch.from_numpy(query.tokens)[None]).logits[0, query.position] for query, _ in queries]
    expected = sum(float(row.log_softmax(-1)[token]) for row, (_, token) in zip(rows, queries, strict=True))
    assert total == pytest.approx(expected, abs=1e-4)
    controls = reading.controls(None)
    gains = {name: tasks["reading, self-paced"].ratios["gain"].value for name, tasks in controls.items()}
    assert gains["trigram"] > 1000
    assert gains["people"] < 100
    assert controls["trigram"]["reading, self-paced"].ratios["r2_gain"].value > 0.9
    main(["evaluate", str(bert), "--task", f"reading={times}", "--cpu"])
    said = capsys.readouterr().out
    assert "reading: 240 of 300 words" in said
    better = said.split("better without training in ")[1]
    assert "gain in log-likelihood (reading, self-paced) by trigram" in better
    assert len(better.splitlines()[0]) < 200
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(SystemExit, match="has no rows with the columns item"):
        main(["evaluate", str(bert), "--task", f"reading={tmp_path / 'other.csv'}", "--cpu"])


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
