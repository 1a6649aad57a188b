"""truneg compare --html on real trainings: what is on its page. In any page nothing is fetched, text stays text, links
lead somewhere; charts are SVG.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import math
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from support.cli_runs import hydra, training
from support.commands import REPOSITORY, run_command, truneg
from support.squad_examples import one_line

from truneg_fairseq.commands.main import main
from truneg_fairseq.evaluation.explain import (
    FALSE_NEGATIVE,
    RIGHT,
    TRUE_NEGATIVE,
    ExplainedSentence,
    MaskedWord,
    explanation_page,
)
from truneg_fairseq.fairseq_runs.folder import read_series
from truneg_fairseq.results.charts import Bar, interval_chart, line_chart, thinned
from truneg_fairseq.results.comparison import Comparison
from truneg_fairseq.results.html import Cell, Page, Section, Table
from truneg_fairseq.results.page import report_page
from truneg_fairseq.results.result import Metric, Result, append_result, examples_in
from truneg_fairseq.results.training_facts import find_runs, measured


def test_trainings_of_transformers(tmp_path, capsys):
    """The newest checkpoint has the whole log; losses, in nats there, are in bits."""
    log = [
        {"epoch": 0.5, "step": 1, "loss": 2 * math.log(2), "mlm_loss": 3 * math.log(2), "grad_norm": 1, "hc_pred": 4.0},
        {"epoch": 1.0, "step": 2, "eval_loss": math.log(2), "eval_runtime": 1, "eval_accuracy": 5.0},
        {"epoch": 1.0, "step": 2, "train_loss": 9, "train_runtime": 1, "total_flos": 1},
    ]
    for step in (1, 2):
        (tmp_path / "run" / f"checkpoint-{step}").mkdir(parents=True)
        state = {"global_step": step, "log_history": log[: 2 * step - 1]}
        (tmp_path / "run" / f"checkpoint-{step}" / "trainer_state.json").write_text(json.dumps(state))
    found = {(stage, name): values.popitem() for (stage, name), values in read_series(tmp_path / "run").items()}
    training = {"objective": (1, 2.0), "loss": (1, pytest.approx(3)), "hc_pred": (1, 4.0)}
    validation = {"loss": (2, 1.0), "accuracy": (2, 5.0)}
    expected = {("training", name): value for name, value in training.items()}
    assert found == expected | {("valid", name): value for name, value in validation.items()}
    assert "wrote" in report(capsys, tmp_path, tmp_path / "run")


UPDATES = ("--max-update", 4, "--validate-interval-updates", 2, "--save-interval-updates", 2)


@pytest.fixture(scope="module")
def runs(data_bin, tmp_path_factory) -> Path:
    """A baseline, measured, and a variant by hydra."""
    folder = tmp_path_factory.mktemp("runs")
    baseline = folder / "baseline"
    table = ("--criterion", "masked_lm_true_neg", "--synonym-table", data_bin / "synonyms.npz")
    run_command(training(data_bin, baseline, *table, "--tokenization", "wordpiece", *UPDATES, "--log-format", "none"))
    run_command(hydra(data_bin, folder / "hc", "hc", "optimization.max_update=4", "+criterion.tokenization=wordpiece"))
    checkpoints = sorted(baseline.glob("checkpoint_1_*.pt"))
    models = [f"{number}={checkpoint}" for number, checkpoint in enumerate(checkpoints)]
    files = ("--results", baseline / "measured.jsonl", "--html", folder / "evaluated.html")
    said = run_command(truneg("evaluate", *models, "--task", "held-out=valid", "--data", data_bin, *files)).stdout
    assert f"wrote {folder / 'evaluated.html'}" in said
    (folder / "verdict.txt").write_text(said.splitlines()[-2])
    return folder


def report(capsys, folder: Path, *arguments: object) -> str:
    """Runs the command in this process; what it printed."""
    main(["compare", *map(str, arguments), "--html", str(folder / "r.html")])
    return capsys.readouterr().out


def error(capsys, folder: Path, *arguments: object) -> str:
    message = one_line(lambda: report(capsys, folder, *arguments))
    assert not (folder / "r.html").exists()
    return message


def text_of(html: str) -> str:
    return re.sub(r"<[^>]*>", " ", html)


def test_curves_table_2_and_what_was_run(runs, tmp_path, capsys):
    report(capsys, tmp_path, runs / "baseline", f"variant={runs / 'hc'}")
    html = (tmp_path / "r.html").read_text(encoding="utf-8")
    for section in ("Overview", "Validation: valid", "While training", "(Table 2)", "words per second", "What was run"):
        assert section in html, section
    assert html.count("<figure>") == html.count("</svg>") >= 14
    accuracy = read_series(runs / "baseline")["valid", "accuracy"]
    assert list(accuracy) == [2, 4]
    assert f"{accuracy[4]:.4g}" in text_of(html)
    assert "finished" in html
    assert "masked_lm_true_neg" in html
    assert "objective=hc" in html
    assert re.search(r"<td>hc weight</td><td class=\"differs\">0.0</td><td class=\"differs\">1.0</td>", html)
    assert re.search(r"hc_pred, 95 % interval", html)
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=", html), "nothing from elsewhere"
    main(["compare", f"base={runs / 'baseline'}"])  # the held-out results in its folder
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "held-out text" and [line.split()[0] for line in lines[3:5]] == ["base/0", "base/1"]
    assert len(html.encode()) < 2_000_000


def test_the_page_of_an_evaluation_has_what_the_command_says(runs):
    html = (runs / "evaluated.html").read_text(encoding="utf-8")
    text, verdict = " ".join(text_of(html).split()), (runs / "verdict.txt").read_text()
    assert verdict.startswith("1 against 0: ")
    assert (
        text.index(verdict) < text.index("held-out text: differences to 0") < text.index("differences paired by item")
    )
    (run,) = find_runs([str(runs / "baseline")])
    assert len(re.findall(r"\[\S+ → \S+\]", text)) == sum(len(examples_in(each)) for each in run.results) > 0
    assert html.count("<figure>") == 2, "a chart for each unit"


def test_runs_in_progress_of_another_seed_and_continued_with_other_options(runs, tmp_path, capsys, monkeypatch):
    now = tmp_path / "now"
    now.mkdir()
    lines = (runs / "baseline" / "metrics.jsonl").read_text().splitlines()
    (now / "metrics.jsonl").write_text(f"{lines[0]}\n{lines[1][:30]}")
    manifest = (runs / "baseline" / "manifest.json").read_text()
    (now / "manifest.json").write_text(manifest.replace('"seed": 1', '"seed": 2'))
    mixed = shutil.copytree(runs / "baseline", tmp_path / "lr=0.1")  # as hydra's sweeps name folders
    first = json.loads(manifest)["starts"][0]
    later = {**first, "settings": {**first["settings"], "seed": 7}, "time": "later"}
    (mixed / "manifest.json").write_text(json.dumps({"starts": [first, later]}))
    report(capsys, tmp_path, runs / "baseline", now, mixed)
    html = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "<td>1 of 4</td><td>stopped</td>" in html
    assert "The runs differ in seed (1; 2; 7)" in html
    assert "lr=0.1 was continued at later with other options: --seed changed from 1 to 7 since the start of" in html
    # With a log interval of 3 the mean of the last epoch is all that tells update 4.
    kept = [line for line in lines if json.loads(line)["num_updates"] == 1 or json.loads(line)["kind"] == "epoch"]
    (mixed / "metrics.jsonl").write_text("\n".join(kept))
    report(capsys, tmp_path, runs / "baseline", mixed)
    assert (tmp_path / "r.html").read_text(encoding="utf-8").count("<td>4 of 4</td><td>finished</td>") == 2
    monkeypatch.setattr("truneg_fairseq.results.training_facts.is_held", lambda folder: folder == now)
    report(capsys, tmp_path, runs / "baseline", now)
    assert "<td>1 of 4</td><td>in progress</td>" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_folders_without_a_run(tmp_path, capsys):
    (tmp_path / "e" / "runs").mkdir(parents=True)
    (tmp_path / "e" / "results.jsonl").touch()
    (tmp_path / "empty").mkdir()
    page = tmp_path / "e" / "report.html"
    assert f"is an experiment, whose page is {page}" in error(capsys, tmp_path, tmp_path / "e")
    assert "empty: found no metrics.jsonl; expected the --save-dir" in error(capsys, tmp_path, tmp_path / "empty")
    assert "none: no such file; expected a result file" in error(capsys, tmp_path, tmp_path / "none")


def test_results_beside_trainings_with_corrected_intervals(runs, tmp_path, capsys):
    for model, seed in itertools.product(("base", "new", "newer"), (1, 2, 3)):
        line = Result(model=model, task="RTE", seed=seed, metrics={"accuracy": 0.5 + 0.1 * len(model) + 0.01 * seed})
        append_result(tmp_path / "results.jsonl", line)
    report(capsys, tmp_path, runs / "baseline", tmp_path / "results.jsonl", "--baseline", "new", "--bonferroni")
    html = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert html.index("Validation: valid") < html.index("RTE: differences to new") < html.index("paired by seed.")
    assert "Corrected for the number of models" in html
    assert "ECE the calibration error" not in html  # there is no held-out text


def test_measurements_of_other_texts_are_marked(tmp_path, capsys):
    for number, masked in ((9, 70), (10, 200)):
        facts = {"checkpoint": f"{number}.pt", "updates": number, "sequences": 3, "masked": masked}
        metrics = {"bits": 5.5 - number, "accuracy": 0.1} | ({"hc_pred": 0.2} if number == 10 else {})
        line = Result(model=f"m{number}", task="held-out text", seed=1, metrics=metrics, settings=facts)
        append_result(tmp_path / f"checkpoint_{number}.jsonl", line)
    assert [measured(each, "accuracy") for each in find_runs([str(tmp_path)])[0].results] == [(10.0,), (10.0,)]
    said = report(capsys, tmp_path, f"run={tmp_path}")
    assert "-4.5" in said and "-3.5" not in said, "the last checkpoint"
    html = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "of different texts or masks, which do not compare" in html
    assert "<td>-3.500</td><td>10.000</td><td>-</td>" in html
    assert "hc_iter" not in text_of(html), "nobody measured it"


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
    rows = [[Cell("b", kind="right"), "10"], [Cell(EVIL), "9"], ["a", "-"]]
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


BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
MEASURE = """
<script>
const cut = [];
for (const svg of document.querySelectorAll("svg")) {
  const boxes = [svg, ...svg.querySelectorAll("rect[rx]")].map((box) => box.getBoundingClientRect());
  for (const text of svg.querySelectorAll("text")) {
    const own = text.getBoundingClientRect();
    const around = boxes.filter((box) => box.left <= own.left && own.left < box.right && box.top <= own.top
      && own.bottom <= box.bottom && box.width > 250);
    if (text.textContent.trim() && (!around.length || around.some((box) => own.right > box.right + 1)))
      cut.push(text.textContent);
  }
}
for (const chart of document.querySelectorAll(".chart"))
  if (chart.scrollWidth > chart.clientWidth + 1) cut.push("a chart");
for (const table of document.querySelectorAll(innerWidth < 1200 ? "html" : "html, .scroll"))
  if (table.scrollWidth > table.clientWidth + 1) cut.push(`a table of ${table.scrollWidth} px`);
document.body.dataset.cut = JSON.stringify(cut);
</script>
"""


@pytest.mark.skipif(BROWSER is None, reason="no Chromium or Chrome is there to measure texts with")
@pytest.mark.parametrize("font", ["DejaVu Sans", "Liberation Sans"])
@pytest.mark.parametrize("width", [1200, 700])
def test_a_browser_cuts_no_text_of_the_pictures_and_of_a_page(font, width, tmp_path):
    """With the wide sans-serif of Linux and with a narrow one."""
    lines = [
        Result(model=model, task="T", seed=seed, metrics={"bits": 6 + seed / 9, "hits": 0.4}, shown=shown)
        for model, shown in itertools.product(
            ("baseline", "label-smoothing", "corpus-embedding-targets"),
            [{"bits": Metric("bits", False, "bits"), "hits": Metric("hits", True)}],
        )
        for seed in (1, 2, 3)
    ]
    page = report_page(Comparison(lines), title="Comparison")
    titles = [chart.title for section in page.sections for chart in section.charts]
    assert len(titles) == len(set(titles)) == 2
    listed = "part work go use office run role serve purpose map operate occasion".split()
    reason = "'elementary' is not among the 12 synonyms of 'function' (wordnet)"
    top, scores = [("contestant", 0.1)] * 5, {"embedding": -0.0779, "context": -0.4444}
    word = MaskedWord("function", "elementary", 0.25, 0.5, top, listed, scores, None, TRUE_NEGATIVE, reason)
    explained = explanation_page([ExplainedSentence([(" function", word)] * 20)], "What bert predicts")
    drawn = re.sub("<meta http-equiv.*", "", page.render() + explained.render())  # which lets no script of ours run
    pictures = [next((REPOSITORY / "docs").rglob(name)) for name in ("summary.svg", "method.svg", "sentences.svg")]
    drawn += "".join(f"<div>{path.read_text(encoding='utf-8')}</div>" for path in pictures)
    style = f"<style>* {{ font-family: '{font}' !important }}</style>"
    (tmp_path / "page.html").write_text(style + drawn + MEASURE, encoding="utf-8")
    switches = "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --dump-dom"
    switches += f" --disable-component-update --disable-sync --user-data-dir={tmp_path / 'user'}"
    command = [BROWSER, *switches.split(), f"--window-size={width},900", f"file://{tmp_path / 'page.html'}"]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    assert unescape(re.search(r'data-cut="([^"]*)"', found)[1]) == "[]"
