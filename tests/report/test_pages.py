"""Pages in a real browser: nothing is missing, nothing is fetched, text stays text, keys are enough."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.browser import DESKTOP, PHONE, Browser

from truneg_fairseq.evaluation.explain import (
    FALSE_NEGATIVE,
    RIGHT,
    TRUE_NEGATIVE,
    ExplainedSentence,
    MaskedWord,
    explanation_page,
)
from truneg_fairseq.report.charts import Bar, Line, interval_chart, line_chart, thinned
from truneg_fairseq.report.html import Cell, Page, Section, Table

EVIL = "<script>document.title = 'run'</script><img src=x onerror=\"document.title='run'\">"


@pytest.fixture(scope="module")
def browser(tmp_path_factory) -> Iterator[Browser]:
    opened = Browser(tmp_path_factory.mktemp("chromium"))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    charts = [
        line_chart("loss", [Line(EVIL, [(0, 3.0), (5, 1.0)], [(0, 2.5, 3.5), (5, 0.5, 1.5)], True)], y_title=EVIL),
        interval_chart("differences", [Bar("a", 1.0, (0.5, 1.5), EVIL), Bar("b", -1.0, None, "x")], x_title="points"),
    ]
    rows = [[Cell("b", kind="right"), Cell("10", 10)], [Cell(EVIL), Cell("9", 9)], ["a", "-"]]
    table = Table(EVIL, ["name", "value"], rows, filtered=True)
    section = Section(EVIL, "part", [EVIL], [EVIL], charts=charts, tables=[table])
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(Page(EVIL, [EVIL], [section]).render(), encoding="utf-8")
    return path


DRAWN = """
[...document.querySelectorAll('figure')].map(figure => {
  const box = figure.querySelector('svg').getBoundingClientRect();
  const marks = [...figure.querySelectorAll('[role="graphics-symbol"], [role="graphics-object"] path')];
  return [box.width > 100, box.height > 60, marks.some(mark => mark.getBoundingClientRect().width > 1)];
})
"""


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_chart_is_drawn_and_the_console_is_empty(browser, file, width, dark):
    browser.open(file, width, dark=dark)
    assert browser.evaluate(DRAWN) == [[True, True, True]] * 2
    assert browser.evaluate("document.documentElement.scrollWidth") == width, "nothing sticks out"
    background = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(22, 22, 22)" if dark else "rgb(255, 255, 255)")
    series = browser.evaluate("getComputedStyle(document.querySelector('svg path[stroke^=var]')).stroke")
    assert series == ("rgb(86, 180, 233)" if dark else "rgb(0, 114, 178)")
    assert browser.problems == []


def test_intervals_stand_under_their_label_with_their_name():
    bars = [Bar(label, 1.0, (0.5, 1.5), str(series)) for label in ("z", "a") for series in range(9, 0, -1)]
    drawn = ET.fromstring(interval_chart("differences", bars, x_title="points").file())
    texts = [element.text for element in drawn.iter() if element.tag.endswith("text")]
    assert [text for text in texts if text in ("z", "a")] == ["z", "a"]
    axes = [axis for axis in drawn.iter() if (axis.get("aria-label") or "").startswith("Y-axis")]
    names = [[element.text for element in axis.iter() if element.tag.endswith("text")] for axis in axes]
    assert names == [[str(series) for series in range(9, 0, -1)]] * 2


def test_text_stays_text_and_the_page_would_run_no_other_script(browser, file, tmp_path):
    """Even where some text was not escaped: the page's policy names the one script that may run."""
    browser.open(file)
    assert browser.evaluate("document.title") == EVIL
    assert browser.evaluate("document.querySelector('h2').textContent") == EVIL
    assert browser.evaluate("document.scripts.length") == 1
    assert browser.evaluate("document.images.length") == 0
    open_door = tmp_path / "open.html"
    open_door.write_text(file.read_text(encoding="utf-8").replace("</main>", f"{EVIL}</main>"), encoding="utf-8")
    browser.open(open_door)
    assert browser.evaluate("document.title") == EVIL
    assert any("Content Security Policy" in problem for problem in browser.problems)


def test_tables_sort_and_filter_by_keys_alone(browser, file):
    browser.open(file)
    names = "[...document.querySelectorAll('tbody tr')].filter(r => !r.hidden).map(r => r.cells[0].textContent)"

    def tab_to(selector: str) -> None:
        for _ in range(40):
            browser.press("Tab", 9)
            if browser.evaluate(f"document.activeElement.matches({selector!r})"):
                return
        pytest.fail(f"{selector} cannot be reached by the Tab key")

    tab_to("input[type=search]")
    browser.type("B")
    assert browser.evaluate(names) == ["b"]
    browser.evaluate("document.activeElement.select()")
    browser.press("Backspace", 8)
    assert len(browser.evaluate(names)) == 3
    tab_to("th:nth-child(2) button")
    browser.press("Enter", 13)
    assert browser.evaluate(names) == [EVIL, "b", "a"], "9 before 10, other text last"
    assert browser.evaluate("document.activeElement.parentElement.getAttribute('aria-sort')") == "ascending"
    browser.press("Enter", 13)
    assert browser.evaluate("document.activeElement.parentElement.getAttribute('aria-sort')") == "descending"
    assert browser.evaluate(names)[-2:] == ["b", EVIL]
    assert browser.problems == []


def test_arrows_before_numbers_sort_as_numbers(browser, tmp_path):
    values = ["\u21910.3", ">1,000", "\u21930.20", "\u219312.5", "\u21912"]
    table = Table("t", ["name", "\u0394"], [[f"{row}", value] for row, value in enumerate(values)])
    (tmp_path / "page.html").write_text(Page("p", [], [Section("s", "part", tables=[table])]).render())
    browser.open(tmp_path / "page.html")
    browser.evaluate("document.querySelector('th:nth-child(2) button').click()")
    cells = "[...document.querySelectorAll('tbody tr')].map(row => row.cells[1].textContent)"
    assert browser.evaluate(cells) == ["\u219312.5", "\u21930.20", "\u21910.3", "\u21912", ">1,000"]


def test_a_name_that_is_not_utf_8_is_written():
    name = b"run-\xff".decode("utf-8", "surrogateescape")
    assert "run-?" in Page(name, [name], []).render().encode().decode()


def test_the_page_of_an_explanation(browser, tmp_path):
    words = [("the", "the", RIGHT, {}), ("primary", "main", FALSE_NEGATIVE, {"embedding": 0.5})]
    parts: list[tuple[str, MaskedWord | None]] = []
    for gold, prediction, verdict, scores in (*words, (EVIL, "x", TRUE_NEGATIVE, {"embedding": 0.5})):
        word = MaskedWord(gold, prediction, 0.25, 0.5, [(gold, 0.25)], ["main", "chief"], scores, None, verdict, "why")
        parts.append((f" {gold}", word))
    parts.append((".", None))
    path = tmp_path / "e.html"
    path.write_text(explanation_page([ExplainedSentence(parts)], "t").render(), encoding="utf-8")
    browser.open(path, PHONE)
    assert browser.evaluate("document.querySelector('.sentence').textContent").strip() == f"the primary {EVIL}."
    kinds = "[...document.querySelectorAll('.sentence .word')].map(word => word.className)"
    assert browser.evaluate(kinds) == ["word right", "word false-negative", "word true-negative"]
    goals = "[...document.querySelectorAll('.sentence a')].every(a => document.querySelector(a.getAttribute('href')))"
    assert browser.evaluate(goals)
    assert "[main] chief" in browser.evaluate("document.querySelectorAll('tbody tr')[1].textContent")
    assert browser.evaluate("document.documentElement.scrollWidth") == PHONE
    assert browser.problems == []


@pytest.mark.parametrize("character", ["\x07", "\x1b", "\ufffe"])
def test_a_control_character_in_a_name_is_drawn_as_the_replacement_character(character):
    """The library that draws ends the process at it."""
    drawn = line_chart("Loss", [Line(f"a{character}b", [(1, 2.0), (2, 3.0)])], y_title="bits").file()
    assert "a\ufffdb" in drawn


def test_many_points_become_means():
    points = [(float(x), float(x % 2)) for x in range(10_000)]
    few = thinned([*points, (5.0, float("nan"))], most=100)
    assert len(few) == 100
    assert all(y == 0.5 for _, y in few)
    assert few[0][0] == 49.5
