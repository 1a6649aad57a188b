"""A sheet for people: blinded, shuffled, and what its marks say."""

from __future__ import annotations

import csv

import pytest

from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.inspection.measurements import Example
from truneg_fairseq.inspection.sheet import NO_SOURCE, Case, Precision, draw, key_path, read_precision, write_sheet


def case(number: int, *sources: str) -> Case:
    return Case(Example("before", f"gold{number}", f"guess{number}", "after", 0.1, 0.2), frozenset(sources))


CASES = [case(n, *(("a",) if n % 3 == 0 else ("a", "b") if n % 3 == 1 else ())) for n in range(60)]


def test_every_source_gets_its_cases_and_the_order_tells_nothing():
    drawn = draw(CASES, ["a", "b"], 5)
    assert len({one.example for one in drawn}) == len(drawn)
    for source in ("a", "b"):
        assert sum(source in one.sources for one in drawn) == 5
    assert sum(not one.sources for one in drawn) == 5
    assert drawn == draw(CASES, ["a", "b"], 5), "seeded"
    numbers = [int(one.example.gold.removeprefix("gold")) for one in drawn]
    assert numbers != sorted(numbers)
    assert sorted(draw(CASES, ["a", "b"], 1000), key=str) == sorted(CASES, key=str)


@pytest.mark.parametrize("sources", [("narrow", "wide"), ("wide", "narrow")])
def test_a_source_inside_another_one_does_not_bias_it(sources):
    """All cases of the narrow source are acceptable and the wide one's too; of the others that it has none is."""
    cases = [case(n, "narrow", "wide") if n < 100 else case(n, "wide") for n in range(2000)]
    accepted, marked = {"narrow": 0, "wide": 0}, {"narrow": 0, "wide": 0}
    for seed in range(20):
        for one in draw(cases, sources, 50, seed):
            for source in one.sources:
                marked[source] += 1
                accepted[source] += int(one.example.gold.removeprefix("gold")) < 100
    assert marked == {"narrow": 1000, "wide": 1000}
    assert accepted["narrow"] == 1000
    low, high = Precision("wide", 1000, accepted["wide"]).interval(0.999)
    assert low < 0.05 < high


def test_marks_become_precision_by_source(tmp_path):
    sheet = tmp_path / "s.csv"
    write_sheet(sheet, CASES[:9])
    text = sheet.read_text(encoding="utf-8")
    assert text.splitlines()[1] == "1,before [gold0] after,gold0,guess0,"
    with key_path(sheet).open(encoding="utf-8") as stream:
        assert [row["sources"] for row in csv.DictReader(stream)] == ["a", "a;b", ""] * 3
    marks = ["yes", "No", "n", "1", "y", "", "0", "yes", "no"]
    lines = [line + mark for line, mark in zip(text.splitlines()[1:], marks, strict=True)]
    sheet.write_text("\ufeff" + "\n".join([text.splitlines()[0], *lines]), encoding="utf-8")
    assert read_precision(sheet) == [Precision("a", 6, 4), Precision("b", 3, 2), Precision(NO_SOURCE, 2, 0)]


def test_wilsons_interval():
    # Agresti and Coull 1998: 0 of 10 gives 0 to 0.2775; 7 of 10 gives 0.397 to 0.892.
    assert Precision("a", 10, 0).interval() == pytest.approx((0.0, 0.2775), abs=1e-4)
    assert Precision("a", 10, 7).interval() == pytest.approx((0.3968, 0.8922), abs=1e-4)
    assert Precision("a", 0, 0).interval() == (0.0, 1.0)


def test_a_spreadsheet_takes_no_word_for_a_formula(tmp_path):
    write_sheet(tmp_path / "s.csv", [Case(Example("", "=1+1", "@x", "", 0.1, 0.2), frozenset())])
    with (tmp_path / "s.csv").open(encoding="utf-8") as stream:
        row = next(csv.DictReader(stream))
    assert (row["original"], row["prediction"]) == ("'=1+1", "'@x")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("case,acceptable\n1,perhaps\n", "line 2: acceptable is 'perhaps'; expected yes or no"),
        ("case,acceptable\n1,\n", "nothing is marked"),
        ("case,acceptable\n77,yes\n", "case '77' is not in"),
        ("a,b\n1,2\n", "has no column 'case'"),
    ],
)
def test_sheets_that_are_none(content, message, tmp_path):
    sheet = tmp_path / "s.csv"
    write_sheet(sheet, CASES[:3])
    sheet.write_text(content)
    with pytest.raises(TrueNegError, match=message):
        read_precision(sheet)


def test_a_key_line_that_breaks_off_has_no_sources(tmp_path):
    (tmp_path / "s.csv").write_text("case,acceptable\n1,yes\n2,no\n")
    (tmp_path / "s.key.csv").write_text("case,sources\n1,wordnet\n2\n")
    assert read_precision(tmp_path / "s.csv") == [Precision("wordnet", 1, 1), Precision(NO_SOURCE, 1, 0)]


def test_a_sheet_without_its_key(tmp_path):
    (tmp_path / "s.csv").write_text("case,acceptable\n1,yes\n")
    with pytest.raises(TrueNegError, match=r"s.key.csv: cannot be read \(No such file"):
        read_precision(tmp_path / "s.csv")
