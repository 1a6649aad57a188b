"""truneg score: the numbers of the official scripts, to the last digit; and SQuAD's files in every form."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet
import pytest
from attack import write_squad
from support.commands import shared_file
from support.squad_examples import mixed_predictions, one_line

from truneg_fairseq.commands.main import main
from truneg_fairseq.finetuning import squad_files as scorer
from truneg_fairseq.finetuning.squad_files import Answer, Question, SquadData, read_squad


def question(name: str, *answers: str) -> Question:
    return Question(name, "what?", "", tuple(Answer(answer, 0) for answer in answers))


def write(path: Path, content: object) -> Path:
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def entry(name: str = "a", **fields: object) -> dict[str, object]:
    return {"id": name, "question": "?", "answers": [{"text": "x", "answer_start": 0}], **fields}


def file_of(*entries: object, version: object = "1.1") -> dict[str, object]:
    return {"version": version, "data": [{"title": "t", "paragraphs": [{"context": "x", "qas": list(entries)}]}]}


# What the official evaluate-v1.1.py prints for mixed_predictions of these files.
PUBLISHED = {
    "squad/articles-dev.json": {"exact_match": 34.97720679651886, "f1": 61.53460099643264},
    "squad_adversarial/add_one_sent.json": {"exact_match": 35.142697257974255, "f1": 61.724239570580224},
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_real_data_to_the_last_digit(tmp_path, name):
    path = shared_file(name)
    data = read_squad(path)
    predictions = write(tmp_path / "predictions.json", mixed_predictions(data))
    report, line = scorer.score_files(path, predictions)  # the command scores variants of questions in another way
    assert report == PUBLISHED[name]
    count = f"no answer to {len(data.questions) // 6:,} of {len(data.questions):,} questions, which score 0"
    assert f"{count} (the first is {data.questions[5].id})" in line


@pytest.mark.parametrize(
    ("prediction", "truths", "exact", "f1"),
    [
        ("The Cat.", ["a cat"], 1, 1.0),
        ("cat dog", ["dog"], 0, 2 / 3),
        ("dog dog", ["dog"], 0, 2 / 3),
        ("cat", ["dog"], 0, 0.0),
        ("theatre", ["atre"], 0, 0.0),
        ("A\u00a0dog", ["dog"], 1, 1.0),
        ("the", ["a"], 1, 0.0),  # nothing is left of either: equal, but no word in common
        ("10–12", ["1012"], 0, 0.0),  # only ASCII punctuation goes
        ("10-12", ["1012"], 1, 1.0),
        ("a big cat", ["dog", "cat sat", "big", "dog"], 0, 2 / 3),  # the best
    ],
)
def test_one_question(prediction, truths, exact, f1):
    assert scorer.score_question(prediction, truths) == scorer.QuestionScore(exact, pytest.approx(f1))


SQUAD_2 = SquadData(
    (
        question("has", "cat"),
        question("half", "cat dog"),
        question("none"),
        question("wrong"),
        question("article", "the"),  # nothing is left of it, so that "" is right
    ),
    version="v2.0",
    unanswerable=True,
)
PREDICTIONS_2 = {"has": "Cat", "half": "dog", "none": "", "wrong": "cat", "article": ""}


def score_2(folder: Path, capsys: pytest.CaptureFixture[str], probabilities: object = None) -> dict[str, float]:
    """By the real command."""
    write_squad(folder / "data.json", SQUAD_2)
    words = [folder / "data.json", write(folder / "p.json", PREDICTIONS_2)]
    words += ["--na-prob-file", write(folder / "na.json", probabilities)] if probabilities else []
    main(["score", *map(str, words)])
    return json.loads(capsys.readouterr().out)


def test_squad_2(capsys, tmp_path):
    report = score_2(tmp_path, capsys)
    assert report == {
        **{"exact": 60.0, "f1": pytest.approx(100 * (3 + 2 / 3) / 5), "total": 5},
        **{"HasAns_exact": pytest.approx(200 / 3), "HasAns_f1": pytest.approx(800 / 9), "HasAns_total": 3},
        **{"NoAns_exact": 50.0, "NoAns_f1": 50.0, "NoAns_total": 2},
    }
    assert list(report)[:4] == ["exact", "f1", "total", "HasAns_exact"]
    report = score_2(tmp_path, capsys, {"has": 0.1, "half": 0.2, "none": 0.9, "wrong": 0.8, "article": 0.3})
    # Above 0.3 all count as unanswerable: has, half, article and the two without answer.
    assert (report["best_exact"], report["best_exact_thresh"]) == (80.0, 0.3)
    assert (report["best_f1"], report["best_f1_thresh"]) == (pytest.approx(100 * (2 / 3 + 4) / 5), 0.3)
    assert report["exact"] == 60.0


def test_thresholds_count_answers_to_unanswerable_questions(capsys, tmp_path):
    """The best one, and the script's own, which is 1: differences of logits may pass it."""
    report = score_2(tmp_path, capsys, {"wrong": 0.05, "has": 0.1, "half": 0.2, "article": 0.3, "none": 0.9})
    # From the two without answer: -1 for "wrong", +1 for "has" and "article", and of equals the first counts.
    assert (report["best_exact"], report["best_exact_thresh"]) == (60.0, 0.3)
    assert (report["best_f1"], report["best_f1_thresh"]) == (pytest.approx(100 * (3 + 2 / 3) / 5), 0.3)
    report = score_2(tmp_path, capsys, {"has": 0.5, "half": 1, "none": 4.5, "wrong": 4, "article": 1.5})
    # "wrong" becomes right; "article", which has an answer in the file, becomes wrong; 1 itself is not above.
    assert (report["exact"], report["NoAns_exact"]) == (60.0, 100.0)
    assert report["HasAns_f1"] == pytest.approx(100 * (1 + 2 / 3) / 3)


NONE: dict[str, object] = {"answers": []}


@pytest.mark.parametrize(
    ("entries", "versions", "impossible"),
    [
        # Files made from other sources lack is_impossible; test sets have no field answers at all.
        ([NONE, {"answers": None}, {}], ("v2.0", "2", "2.0.1", 2.0), [True, False, False]),
        ([NONE, {"answers": None}, {}], ("2024-05-01", "20", "1.2", "v1.1", ""), None),
        ([NONE, {}, {**NONE, "is_impossible": False}], ("", "1.1"), [True, False, False]),
        ([{"is_impossible": False}], ("1.1",), [False]),
    ],
)
def test_what_makes_a_file_squad_2(tmp_path, entries, versions, impossible):
    """The version, or is_impossible; then an empty list of answers means that the question has no answer."""
    entries = [entry(str(number), **fields) for number, fields in enumerate(entries)]
    for version in versions:
        data = read_squad(write(tmp_path / "data.json", file_of(*entries, version=version)))
        assert data.unanswerable == (impossible is not None)
        assert [one.impossible for one in data.questions] == (impossible or [False] * len(entries))
        write_squad(tmp_path / "copy.json", data)
        assert read_squad(tmp_path / "copy.json") == data


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
@pytest.mark.parametrize("count", [1, 2])
def test_rows_as_hugging_face_writes_them(form, count, tmp_path):
    """Integer ids are GermanQuAD's; an empty list of answers is SQuAD 2.0's, and the title of others is null."""
    answers = [{"text": ["Bo"], "answer_start": [8]}, {"text": [], "answer_start": []}][:count]
    same = {"title": None, "context": "Ann met Bo.", "question": "who?"}
    rows, path = [{"id": 7 + n, **same, "answers": given} for n, given in enumerate(answers)], tmp_path / f"rows.{form}"
    if form == "jsonl":
        path.write_text("".join(f"{json.dumps(row)}\n\r\n" for row in rows))
    else:
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    expected = (
        Question("7", "who?", "Ann met Bo.", (Answer("Bo", 8),)),
        Question("8", "who?", "Ann met Bo.", (), impossible=True),
    )
    assert read_squad(path) == SquadData(expected[:count], "", unanswerable=count == 2)


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ({"version": "1.1", "data": []}, "has no question; expected SQuAD's JSON"),
        ({"a": 1}, "Object missing required field data"),
        (file_of(entry(), entry()), "two questions have the id 'a'"),
        (file_of(entry(answers=[])), "question a: has no answers, and its file is not marked as SQuAD 2.0"),
    ],
)
def test_wrong_data_end_in_one_line(tmp_path, content, part):
    files = write(tmp_path / "data.json", content), write(tmp_path / "p.json", {"a": "x"})
    assert part in one_line(lambda: main(["score", *map(str, files)]))
