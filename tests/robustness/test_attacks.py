"""The attacks of user_dir_examples/attacks: every answer stays at its offset; what they do to a model."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import squad_examples
from support.commands import shared_file
from support.squad_examples import PANTHERS, WHO, one_line, question

from truneg_fairseq.commands.main import run_as_script
from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.finetuning.squad_files import Answer, Question, SquadData, read_squad
from truneg_fairseq.results.result import read_results

for package in ("spacy", "lemminflect"):
    pytest.importorskip(package)

import add_sentence  # noqa: E402
import english  # noqa: E402
import score  # noqa: E402
import swap_synonyms  # noqa: E402
from add_sentence import AddSentenceDiverse, insertion_place  # noqa: E402
from attack import Attack, Edit, Pair, edited, measure, read_pairs, write_squad  # noqa: E402
from parsed import English, Text  # noqa: E402
from swap_synonyms import SwapSynWordNet  # noqa: E402

SCRIPTS = {"attack": swap_synonyms.main, "add": add_sentence.main, "score": score.main}

WHERE = question("Where did the Broncos move in 2015?", "Santa Clara", name="q2")


def squad(path: Path, *questions: Question) -> Path:
    write_squad(path, SquadData(questions))
    return path


def write(path: Path, content: object) -> Path:
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def run(capsys, name: str, *arguments: object) -> str:
    run_as_script(SCRIPTS[name], [*map(str, arguments)])
    return capsys.readouterr().out


def error(name: str, *arguments: object) -> str:
    return one_line(lambda: run_as_script(SCRIPTS[name], [*map(str, arguments)]))


@given(data=st.data())
@settings(max_examples=80, deadline=None)
def test_edits_keep_every_answer(data):
    context = data.draw(st.text("ab é", min_size=1, max_size=20))
    places = st.integers(0, len(context))
    spans = sorted(data.draw(st.lists(st.tuples(places, places).map(sorted), max_size=4)))
    answers = [span for span in spans if span[0] < span[1]][:2]
    texts = data.draw(st.lists(st.text("xy", max_size=3), min_size=4, max_size=4))
    edits: list[Edit] = []
    for start, end in data.draw(st.lists(st.tuples(places, places).map(sorted), max_size=3)):
        if all(end <= first or start >= last for first, last in answers) and all(
            end <= edit.start or start >= edit.end for edit in edits
        ):
            edits.append(Edit(start, end, texts[len(edits)]))
    original = Question("q", "?", context, tuple(Answer(context[a:b], a) for a, b in answers))
    changed = edited(original, edits)
    assert [answer.text for answer in changed.answers] == [answer.text for answer in original.answers]
    assert all(answer.stands_in(changed.context) for answer in changed.answers)
    grown = sum(len(edit.text) - (edit.end - edit.start) for edit in edits)
    assert len(changed.context) == len(context) + grown


def test_swaps_are_synonyms_of_the_context_only(wordnet):
    swap = SwapSynWordNet()
    context = PANTHERS + " The big car began to move quickly." * 3
    original = question("Which big team?", "Denver Broncos", "Carolina", context=context)
    changed, details = swap.apply(original, random.Random(1))
    assert changed.text == original.text
    assert len(details["swaps"]) == int(0.1 * len(swap.tagged(context))) == 5
    for start, word, synonym in details["swaps"]:
        assert context[start : start + len(word)] == word
        assert synonym in swap.candidates(word, "XX")
        assert synonym.lower() != word.lower()
        assert word.lower() not in ("the", "of", "a", "to", "in", "at", "them", "denver", "broncos", "carolina", ".")


def test_a_changed_pipeline_is_refused(monkeypatch):
    folder = english._pipeline_path()
    if not isinstance(folder, Path):
        pytest.skip("spaCy's own pipeline is installed")
    monkeypatch.setattr(english, "_DIGEST", "0" * 64)
    for package in (english._MIRROR, "no_such_package"):
        monkeypatch.setattr(english, "_MIRROR", package)
        with pytest.raises(TrueNegError, match="is not installed, or its files are not those of spaCy's en_core"):
            english.load_english(parse=True)


def test_attack_and_score(capsys, tmp_path, wordnet):
    no_word = question("Name an old team.", "Broncos", context="Of the Broncos.", name="q3")
    source, output = squad(tmp_path / "in.json", WHO, WHERE, no_word), tmp_path / "out.json"
    printed = run(capsys, "attack", source, output)
    assert "applies to 2 of 3 questions (66.7 %)" in printed
    assert "  not applied to 1: no" in printed
    transformed = read_squad(output)
    pairs = read_pairs(tmp_path / "out.pairs.json")
    assert [asked.id for asked in transformed.questions] == ["q1", "q2"]
    assert tuple(pair.transformed for pair in pairs.pairs) == transformed.questions
    assert tuple(pair.original for pair in pairs.pairs) == (WHO, WHERE)
    content = output.read_bytes()
    run(capsys, "attack", source, output)
    assert output.read_bytes() == content

    before = write(tmp_path / "before.json", {"q1": "Denver Broncos", "q2": "Santa Clara", "q3": "x"})
    after = write(tmp_path / "after.json", {"q1": "the Denver Broncos", "q2": "Clara"})
    arguments = ["score", tmp_path / "out.pairs.json", before, after]
    arguments += ["--results", tmp_path / "r.jsonl", "--model", "hc", "--seed", 3]
    table = run(capsys, *arguments)
    assert table.splitlines()[2] == "exact_match  100.00    50.00    50.00  [-100.00, 100.00]"
    report = json.loads(run(capsys, *arguments, "--json", "-"))
    assert report["pairs"] == 2
    assert report["exact_match"] == {"original": 100.0, "transformed": 50.0, "drop": 50.0, "interval": [-100.0, 100.0]}
    assert report["f1"]["transformed"] == pytest.approx(100 * (1 + 2 / 3) / 2)
    line = read_results([tmp_path / "r.jsonl"])[0]
    assert line.key == ("hc", report["transform"], 3)
    assert line.metrics["transformed_exact_match"] == 0.5
    assert line.example_ids == ["q1", "q2"]
    assert line.examples["original_exact_match"] == [1.0, 1.0]


def test_the_interval_of_the_drop_is_paired():
    questions = [Question(f"q{n}", "?", "cat dog", (Answer("cat", 0),)) for n in range(200)]
    pairs = tuple(Pair(asked, asked, {}) for asked in questions)
    result = Attack("SwapSynWordNet", {}, 1, pairs, {})
    half = {asked.id: "cat" if place % 2 else "dog" for place, asked in enumerate(questions)}
    same = measure(result, half, half).drop("exact_match")
    assert same == (0.0, 0.0, 0.0)  # unpaired, two halves would leave 10 points of noise
    with pytest.raises(TrueNegError, match="200 of 200 questions have no answer to the transformed question"):
        measure(result, half, {})
    drop = measure(result, half, {**half, "q1": "dog", "q3": "dog", "q5": "dog", "q7": "dog"}).drop("exact_match")
    assert drop.mean == pytest.approx(0.02)
    assert 0 < drop.low < 0.02 < drop.high < 0.05


def test_jia_and_liangs_files_are_scored_the_same_way(capsys, tmp_path):
    """The worst variant counts, an original without variants by itself."""
    answers = {"q1": "cat dog", "q1-high": "cat dog", "q1-low": "dog", "q2": "cat dog", "q3-x": "cat dog", "q3": "cow"}
    predictions = write(tmp_path / "p.json", answers)
    data = squad(tmp_path / "in.json", *(Question(name, "?", "cat dog", (Answer("cat dog", 0),)) for name in answers))
    results = ("--results", tmp_path / "r.jsonl", "--model", "hc", "--seed", 3)
    report = json.loads(run(capsys, "score", data, predictions, *results, "--json", "-"))
    assert (report["transform"], report["pairs"]) == (data.stem, 3)
    assert report["exact_match"] == {
        **{"original": pytest.approx(200 / 3), "transformed": pytest.approx(200 / 3), "drop": pytest.approx(0)},
        "interval": [pytest.approx(-100), pytest.approx(100)],
    }
    (line,) = read_results([tmp_path / "r.jsonl"])
    assert line.key == ("hc", data.stem, 3)
    assert line.example_ids == ["q1", "q2", "q3"]
    assert line.examples["transformed_f1"] == pytest.approx([2 / 3, 1, 1])
    headings = "EM Ori. ↑, EM Trans. ↑, EM drop ↓, F1 Ori. ↑, F1 Trans. ↑, F1 drop ↓"
    assert ", ".join(f"{each.title} {'↓↑'[bool(each.higher_is_better)]}" for each in line.shown.values()) == headings
    assert line.metrics["drop_f1"] == pytest.approx(line.metrics["original_f1"] - line.metrics["transformed_f1"])
    # Unanswered variants are passed over, as in their script: "q1" counts by itself, "q3" by nothing.
    write(predictions, {"q1": "cat dog", "q2": "cat dog"})
    report = json.loads(run(capsys, "score", data, predictions, "--json", "-"))["exact_match"]
    assert [report["original"], report["transformed"]] == pytest.approx([200 / 3] * 2)


def test_bad_input_ends_in_one_line(tmp_path, wordnet):
    source = squad(tmp_path / "in.json", WHO)
    assert "expected different files" in error("attack", source, source)
    wrong = squad(tmp_path / "wrong.json", Question("q", "?", "Ann met Bo.", (Answer("Bo", 7),)))
    assert "wrong.json: question q: the answer 'Bo' does not stand" in error("attack", wrong, "out")
    none = squad(tmp_path / "none.json", question("?", "of", context="Of the of."))
    assert "SwapSynWordNet applies to none of its 1" in error("attack", none, tmp_path / "out.json")
    assert not (tmp_path / "out.json").exists()
    answers = write(tmp_path / "p.json", {"q": "x"})
    assert "--results: expected --model and --seed" in error("score", source, answers, "--results", "r.jsonl")
    assert "expected the file of pairs that an attack wrote, OUT.pairs.json" in error("score", source, answers, answers)
    variants = squad(tmp_path / "v.json", *(replace(WHO, id=name) for name in ("a", "a-turk", "b-turk")))
    assert "v.json: has variants of question 'b' without the question itself" in error("score", variants, answers)
    left_open = replace(WHO, answers=())
    with pytest.raises(TrueNegError, match="has no answers, and its file is not marked as SQuAD 2"):
        measure(Attack("SwapSynWordNet", {}, 1, (Pair(left_open, left_open, {}),), {}), {"q1": ""}, {"q1": ""})


def test_real_adversarial_files_score_as_in_jia_and_liangs_script(tmp_path, capsys):
    """What their eval_squad.py prints of these answers."""
    path = shared_file("squad_adversarial/add_one_sent.json")
    predictions = write(tmp_path / "p.json", squad_examples.mixed_predictions(read_squad(path)))
    report = json.loads(run(capsys, "score", path, predictions, "--json", "-"))
    assert report["exact_match"]["original"] == pytest.approx(34.7)
    assert report["f1"]["original"] == pytest.approx(61.36215796358906)
    assert report["exact_match"]["transformed"] == pytest.approx(44.4)
    assert report["f1"]["transformed"] == pytest.approx(72.9597053776264)


def test_an_attacked_file_of_squad_2_stays_one(capsys, tmp_path, wordnet):
    """Of a question without an answer nothing is made, nor of one that no rule fits."""
    silent = replace(question("Where did the Panthers move?", name="q0"), impossible=True)
    no_rule = question("Name an old team.", "Broncos", context="Of the Broncos.", name="q3")
    source, output = tmp_path / "in.json", tmp_path / "out.json"
    write_squad(source, SquadData((silent, WHO, no_rule), "v2.0", unanswerable=True))
    printed = run(capsys, "add", source, output)
    assert "AddSentenceDiverse applies to 1 of 3 questions (33.3 %)" in printed
    assert "  not applied to 1: no rule makes a statement of the question" in printed
    (pair,) = read_pairs(tmp_path / "out.pairs.json").pairs
    assert read_squad(output) == SquadData((pair.transformed,), "v2.0", unanswerable=True)
    assert pair.original == WHO


def test_the_added_sentence_precedes_the_answers_and_keeps_their_offsets(wordnet):
    changed, details = AddSentenceDiverse(english=English()).apply(WHO, random.Random(1))
    sentence = details["sentence"]
    assert changed.context == PANTHERS.replace("The Denver", f"{sentence} The Denver")
    starts = [PANTHERS.index(answer.text) + len(sentence) + 1 for answer in WHO.answers]
    assert starts == [answer.start for answer in changed.answers]
    assert sentence == f"The UNICEF team of {details['answer']} represented the UNICEF in 2005."
    assert changed.text == WHO.text


def test_an_answer_across_sentences_stays_whole():
    text = Text((), (0, 10, 20, 30))
    assert insertion_place(text, [Answer("x", 25)]) == 20
    assert insertion_place(text, [Answer("x", 20)]) == 20
    assert insertion_place(text, [Answer("x", 25), Answer("y" * 8, 15)]) == 10
    assert insertion_place(text, [Answer("x", 25), Answer("y" * 8, 15), Answer("z" * 8, 5)]) == 0
    assert insertion_place(text, [Answer("x", 25), Answer("y" * 5, 15)]) == 20
