"""Pages: nothing is fetched, text stays text, links lead somewhere; charts as SVG."""

from __future__ import annotations

import base64
import hashlib
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest

from truneg_fairseq.evaluation.explain import (
    FALSE_NEGATIVE,
    RIGHT,
    TRUE_NEGATIVE,
    ExplainedSentence,
    MaskedWord,
    explanation_page,
)
from truneg_fairseq.report.charts import Bar, interval_chart, line_chart, thinned
from truneg_fairseq.report.html import Cell, Page, Section, Table

EVIL = "<script>document.title = 'run'</script><img src=x onerror=\"document.title='run'\">"


class Read(HTMLParser):
    """A page's tags with their attributes, and the text inside each kind of tag."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: dict[str, str] = {}
        self._open: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self._open.append(tag)

    def handle_endtag(self, tag):
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data):
        for tag in set(self._open):
            self.text[tag] = self.text.get(tag, "") + data

    def attributes(self, name: str) -> list[str]:
        return [attributes[name] for _, attributes in self.tags if name in attributes]


def test_text_stays_text_and_the_policy_names_the_only_script():
    charts = [
        line_chart("loss", {EVIL: [(0, 3.0, 2.5, 3.5), (5, 1.0, 0.5, 1.5)]}, y_title=EVIL),
        interval_chart("differences", [Bar("a", 1.0, (0.5, 1.5), EVIL), Bar("b", -1.0, None, "x")], x_title="points"),
    ]
    rows = [[Cell("b", kind="right"), Cell("10", 10)], [Cell(EVIL), Cell("9", 9)], ["a", "-"]]
    section = Section(EVIL, "part", [EVIL], [EVIL], charts=charts, tables=[Table(EVIL, ["name", "value"], rows)])
    page = Read(Page(EVIL, [EVIL], [section]).render())
    kinds = [tag for tag, _ in page.tags]
    assert kinds.count("script") == 1 and "img" not in kinds
    assert page.text["title"].strip() == EVIL
    assert EVIL in page.text["h2"] and EVIL in page.text["td"] and EVIL in page.text["svg"]
    digest = base64.b64encode(hashlib.sha256(page.text["script"].encode()).digest()).decode()
    (policy,) = [each for each in page.attributes("content") if "default-src" in each]
    assert policy == f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    assert not page.attributes("src") and not page.attributes("onerror")
    assert all(link.startswith("#") for link in page.attributes("href"))
    assert kinds.count("figure") == kinds.count("svg") == 2
    assert "var(--series-0)" in page.attributes("stroke")


def test_the_page_of_an_explanation():
    words = [("the", "the", RIGHT, {}), ("primary", "main", FALSE_NEGATIVE, {"embedding": 0.5})]
    parts: list[tuple[str, MaskedWord | None]] = []
    for gold, prediction, verdict, scores in (*words, (EVIL, "x", TRUE_NEGATIVE, {"embedding": 0.5})):
        word = MaskedWord(gold, prediction, 0.25, 0.5, [(gold, 0.25)], ["main", "chief"], scores, None, verdict, "why")
        parts.append((f" {gold}", word))
    page = Read(explanation_page([ExplainedSentence([*parts, (".", None)])], "t").render())
    kinds = [each for each in page.attributes("class") if each.startswith("word ")]
    assert kinds[-3:] == ["word right", "word false-negative", "word true-negative"]
    links = page.attributes("href")
    assert len(links) >= 3 and {link[1:] for link in links} <= set(page.attributes("id"))
    assert "[main] chief" in page.text["td"] and EVIL in page.text["p"]


def test_intervals_stand_under_their_label_with_their_name():
    bars = [Bar(label, 1.0, (0.5, 1.5), str(series)) for label in ("z", "a") for series in range(9, 0, -1)]
    drawn = ET.fromstring(interval_chart("differences", bars, x_title="points").file())
    texts = [element.text for element in drawn.iter() if element.tag.endswith("text")]
    assert [text for text in texts if text in ("z", "a")] == ["z", "a"]
    axes = [axis for axis in drawn.iter() if (axis.get("aria-label") or "").startswith("Y-axis")]
    names = [[element.text for element in axis.iter() if element.tag.endswith("text")] for axis in axes]
    assert names == [[str(series) for series in range(9, 0, -1)]] * 2


def test_a_name_that_is_not_utf_8_is_written():
    name = b"run-\xff".decode("utf-8", "surrogateescape")
    assert "run-?" in Page(name, [name], []).render().encode().decode()


@pytest.mark.parametrize("character", ["\x07", "\x1b", "\ufffe"])
def test_a_control_character_in_a_name_is_drawn_as_the_replacement_character(character):
    """The library that draws ends the process at it."""
    drawn = line_chart("Loss", {f"a{character}b": [(1, 2.0), (2, 3.0)]}, y_title="bits").file()
    assert "a\ufffdb" in drawn


def test_many_points_become_means():
    few = thinned([*((float(x), float(x % 2)) for x in range(30_000)), (5.0, float("nan"))])
    assert len(few) == 300
    assert all(y == 0.5 for _, y in few)
    assert few[0][0] == 49.5
