"""truneg score: the numbers of the official scripts, to the last digit."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.commands import shared_file
from support.squad_examples import mixed_predictions, one_line

from truneg_fairseq.commands.main import main
from truneg_fairseq.finetuning import squad_score as scorer
from truneg_fairseq.finetuning.squad_files import Answer, Question, SquadData, read_squad, write_squad

WORDS = st.sampled_from("the a An cat Cat, dog's (big) U.S. 3.5% é A\xa0the anthe x \t ' \" The! …".split(" "))
TEXTS = st.lists(WORDS, max_size=5).map(" ".join)


def question(name: str, *answers: str, context: str = "") -> Question:
    return Question(name, "what?", context, tuple(Answer(answer, 0) for answer in answers))


def squad(*questions: Question, **fields) -> SquadData:
    return SquadData(questions, **fields)


def write(path: Path, content: object) -> Path:
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def run(capsys, *arguments: object) -> tuple[dict[str, float], str]:
    main(["score", *map(str, arguments)])
    captured = capsys.readouterr()
    return json.loads(captured.out), captured.err


def error(*arguments: object) -> str:
    return one_line(lambda: main(["score", *map(str, arguments)]))


# What the official evaluate-v1.1.py prints for mixed_predictions of these files.
PUBLISHED = {
    "squad/articles-dev.json": {"exact_match": 34.97720679651886, "f1": 61.53460099643264},
    "squad_adversarial/add_one_sent.json": {"exact_match": 35.142697257974255, "f1": 61.724239570580224},
}


def test_an_empty_list_of_answers_means_none_in_version_2(tmp_path):
    """Files made from other sources lack ``is_impossible``; test sets have no field ``answers`` at all."""
    answered = {"answers": [{"text": "b", "answer_start": 2}]}
    entries = [{"answers": []}, {}, answered, {"answers": [], "is_impossible": False}]
    qas = [{"id": str(place), "question": "q", **entry} for place, entry in enumerate(entries)]
    for version, asked, expected in (
        ("v2.0", qas[:3], [True, False, False]),
        ("", qas, [True, False, False, False]),
        ("1.1", qas[:3], [False] * 3),
    ):
        content = {"version": version, "data": [{"title": "t", "paragraphs": [{"context": "a b", "qas": asked}]}]}
        data = read_squad(write(tmp_path / "data.json", content))
        assert [one.impossible for one in data.questions] == expected
        write_squad(tmp_path / "copy.json", data)
        assert [one.impossible for one in read_squad(tmp_path / "copy.json").questions] == expected


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
    ("prediction", "truth", "exact", "f1"),
    [
        ("The Cat.", "a cat", True, 1.0),
        ("cat dog", "dog", False, 2 / 3),
        ("dog dog", "dog", False, 2 / 3),
        ("cat", "dog", False, 0.0),
        ("theatre", "atre", False, 0.0),
        ("A\u00a0dog", "dog", True, 1.0),
        ("the", "a", True, 0.0),  # nothing is left of either: equal, but no word in common
        ("10–12", "1012", False, 0.0),  # only ASCII punctuation goes
        ("10-12", "1012", True, 1.0),
    ],
)
def test_one_pair(prediction, truth, exact, f1):
    assert scorer.exact_match(prediction, truth) is exact
    assert scorer.f1(prediction, truth) == pytest.approx(f1)


@given(texts=st.lists(st.tuples(TEXTS, st.lists(TEXTS, min_size=1, max_size=3)), min_size=1, max_size=8))
@settings(max_examples=60, deadline=None)
def test_against_the_definition(texts):
    """Percent of the questions, bags of words counted word by word."""
    questions = [question(f"q{place}", *truths) for place, (_, truths) in enumerate(texts)]
    predictions = {f"q{place}": prediction for place, (prediction, _) in enumerate(texts)}
    exact = f1 = 0.0
    for prediction, truths in texts:
        words = scorer.normalize(prediction).split()
        best = 0.0
        for truth in truths:
            rest = scorer.normalize(truth).split()
            size = len(words) + len(rest)
            shared = 0
            for word in words:
                if word in rest:
                    rest.remove(word)
                    shared += 1
            best = max(best, 2 * shared / size if shared else 0.0)
        exact += any(words == scorer.normalize(truth).split() for truth in truths)
        f1 += best
    report = scorer.exact_match_and_f1(scorer.score_questions(questions, predictions), unanswerable=False)
    assert report == {
        "exact_match": pytest.approx(100 * exact / len(texts)),
        "f1": pytest.approx(100 * f1 / len(texts)),
    }


SQUAD_2 = squad(
    question("has", "cat"),
    question("half", "cat dog"),
    question("none"),
    question("wrong"),
    question("article", "the"),  # nothing is left of it, so that "" is right
    version="v2.0",
    unanswerable=True,
)
PREDICTIONS_2 = {"has": "Cat", "half": "dog", "none": "", "wrong": "cat", "article": ""}


def test_squad_2(capsys, tmp_path):
    write_squad(tmp_path / "data.json", SQUAD_2)
    report, _ = run(capsys, tmp_path / "data.json", write(tmp_path / "p.json", PREDICTIONS_2))
    assert report == {
        **{"exact": 60.0, "f1": pytest.approx(100 * (3 + 2 / 3) / 5), "total": 5},
        **{"HasAns_exact": pytest.approx(200 / 3), "HasAns_f1": pytest.approx(800 / 9), "HasAns_total": 3},
        **{"NoAns_exact": 50.0, "NoAns_f1": 50.0, "NoAns_total": 2},
    }
    assert list(report)[:4] == ["exact", "f1", "total", "HasAns_exact"]


def test_squad_2_with_probabilities(capsys, tmp_path):
    write_squad(tmp_path / "data.json", SQUAD_2)
    probabilities = {"has": 0.1, "half": 0.2, "none": 0.9, "wrong": 0.8, "article": 0.3}
    files = [write(tmp_path / "p.json", PREDICTIONS_2), "--na-prob-file", write(tmp_path / "na.json", probabilities)]
    report, _ = run(capsys, tmp_path / "data.json", *files)
    # Above 0.3 all count as unanswerable: has, half, article and the two without answer.
    assert (report["best_exact"], report["best_exact_thresh"]) == (80.0, 0.3)
    assert (report["best_f1"], report["best_f1_thresh"]) == (pytest.approx(100 * (2 / 3 + 4) / 5), 0.3)
    assert report["exact"] == 60.0
    report = scorer.score_v2(SQUAD_2, PREDICTIONS_2, probabilities, threshold=0.2)
    # "wrong" becomes right; "article", which has an answer in the file, becomes wrong; 0.2 itself is not above.
    assert report["exact"] == 60.0
    assert report["NoAns_exact"] == 100.0
    assert report["HasAns_f1"] == pytest.approx(100 * (1 + 2 / 3) / 3)


def test_the_best_threshold_counts_answers_to_unanswerable_questions():
    probabilities = {"wrong": 0.05, "has": 0.1, "half": 0.2, "article": 0.3, "none": 0.9}
    report = scorer.score_v2(SQUAD_2, PREDICTIONS_2, probabilities)
    # From the two without answer: -1 for "wrong", +1 for "has" and "article", and of equals the first counts.
    assert (report["best_exact"], report["best_exact_thresh"]) == (60.0, 0.3)
    assert (report["best_f1"], report["best_f1_thresh"]) == (pytest.approx(100 * (3 + 2 / 3) / 5), 0.3)


def test_the_version_alone_makes_it_squad_2(tmp_path):
    content = paragraphs(entry(answers=[]))
    for version in ("v2.0", "2", "2.0.1", 2.0):
        assert read_squad(write(tmp_path / "two.json", {**content, "version": version})).unanswerable
    for version in ("2024-05-01", "20", "1.2", "v1.1", ""):
        assert not read_squad(write(tmp_path / "one.json", {**content, "version": version})).unanswerable
    assert read_squad(write(tmp_path / "field.json", paragraphs(entry(is_impossible=False)))).unanswerable
    assert not read_squad(write(tmp_path / "one.json", content)).unanswerable


def test_writing_and_reading_give_the_same(tmp_path):
    data = squad(
        Question("a", "who?", "Ann met Bo.", (Answer("Ann", 0), Answer("Bo", 8)), "First"),
        Question("b", "whom?", "Ann met Bo.", (), "First", impossible=True),
        Question("c", "where?", "Nowhere é.", (), "Second"),
        version="v2.0",
        unanswerable=True,
    )
    write_squad(tmp_path / "data.json", data)
    assert read_squad(tmp_path / "data.json") == data
    first = json.loads((tmp_path / "data.json").read_text(encoding="utf-8"))["data"][0]
    assert len(first["paragraphs"]) == 1
    assert [entry["is_impossible"] for entry in first["paragraphs"][0]["qas"]] == [False, True]


def paragraphs(*entries: object) -> dict[str, object]:
    return {"version": "1.1", "data": [{"title": "t", "paragraphs": [{"context": "x", "qas": list(entries)}]}]}


def entry(**changes: object) -> dict[str, object]:
    return {"id": "a", "question": "?", "answers": [{"text": "x", "answer_start": 0}], **changes}


ROWS = [
    {"id": name, "title": None, "context": "Ann met Bo.", "question": text, "answers": answers}
    for name, text, answers in (
        (7, "who?", {"text": ["Bo"], "answer_start": [8]}),
        ("b", "?", {"text": [], "answer_start": []}),
    )
]


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
@pytest.mark.parametrize("count", [1, 2])
def test_rows_as_hugging_face_writes_them(form, count, tmp_path):
    """Integer ids are GermanQuAD's; an empty list of answers is SQuAD 2.0's, and the title of others is null."""
    rows, path = ROWS[:count], tmp_path / f"rows.{form}"
    if form == "jsonl":
        path.write_text("\ufeff" + "".join(f"{json.dumps(row)}\n\r\n" for row in rows), encoding="utf-8")
    else:
        table = pyarrow.Table.from_pylist([{**row, "id": str(row["id"])} for row in rows])
        pyarrow.parquet.write_table(table, path)
    expected = (
        Question("7", "who?", "Ann met Bo.", (Answer("Bo", 8),)),
        Question("b", "?", "Ann met Bo.", (), impossible=True),
    )
    assert read_squad(path) == SquadData(expected[:count], "", unanswerable=count == 2)


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ({"version": "1.1", "data": []}, "has no question; expected SQuAD's JSON"),
        ({"a": 1}, "Object missing required field data"),
        (paragraphs(entry(), entry()), "two questions have the id 'a'"),
        (paragraphs(entry(answers=[])), "question a: has no answers, and its file is not marked as SQuAD 2.0"),
    ],
)
def test_wrong_data_end_in_one_line(tmp_path, content, part):
    message = error(write(tmp_path / "data.json", content), write(tmp_path / "p.json", {"a": "x"}))
    assert part in message
