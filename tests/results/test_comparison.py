"""truneg compare: the paper's tables from result files, and what they say of noise."""

from __future__ import annotations

import io
import itertools
import json
import re
import shlex
import sys
import xml.etree.ElementTree as ET
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from support.commands import run_unread, truneg
from support.squad_examples import one_line

from truneg_fairseq.commands.main import main
from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.results.comparison import Comparison
from truneg_fairseq.results.intervals import Ratio, holm, p_value, ratios_as_fields
from truneg_fairseq.results.result import HELD_OUT, Metric, Result, append_result, read_results
from truneg_fairseq.results.tables import tables, verdict, verdict_over_items

GLUE = {
    **{"CoLA": "matthews", "SST-2": "accuracy", "MRPC": "accuracy", "STS-B": "spearman"},
    **{"QQP": "accuracy", "MNLI": "accuracy", "QNLI": "accuracy", "RTE": "accuracy"},
}
# Table 3's rows of ELECTRA-small.
PAPER = {
    "baseline": [56.8, 88.3, 87.4, 86.8, 88.3, 78.9, 87.9, 68.5],
    "hc": [62.0, 89.8, 87.0, 86.7, 89.0, 80.4, 88.0, 67.9],
    "sr": [61.1, 90.1, 89.5, 87.0, 89.4, 80.8, 88.8, 68.6],
}


def result(model: str, task: str, seed: int = 1, **metrics: float) -> Result:
    """GLUE's tasks share a table; losses are in bits."""
    is_glue = task in GLUE
    shown = {
        name: Metric(task if is_glue else name, name != "bits", "bits" if name == "bits" else "%", averaged=is_glue)
        for name in metrics
    }
    return Result(model=model, task=task, seed=seed, metrics=metrics, shown=shown, group="GLUE" if is_glue else "")


def test_values_over_training_are_in_the_order_of_the_updates():
    shares = [("after 50 %", 50.0, 0.3), ("after 6.25 %", 6.25, 0.1), ("at the end", None, 0.4)]
    found = Comparison(
        [replace(result("a", task, hc_iter=rate, bits=rate), group="text", at=at) for task, at, rate in shares]
    )
    quantities = found.groups["text over training"]
    assert [each.title for each in quantities[:4]] == [f"hc_iter {at}" for at in ("6.25 %", "50 %", "100 %", "rise")]
    assert found.summary("a", quantities[3]).mean == pytest.approx(0.3)
    assert [each.title for each in found.groups["text"]] == ["hc_iter", "bits"]


def test_a_line_describes_itself(capsys, tmp_path):
    """A task that the package has never heard of, with its own unit, group and direction."""
    shown = {"ms": Metric("gaze", False, "ms"), "hits": Metric("hits", True)}
    lines = [
        Result(model=model, task=task, seed=seed, metrics={"ms": ms + seed, "hits": 0.5}, shown=shown, group="Reading")
        for task in ("reading a", "reading b")
        for model, ms in (("base", 250.0), ("new", 240.0 if task == "reading a" else 260.0))
        for seed in (1, 2, 3)
    ]
    items = {"examples": {"hits": [0.0, 1.0]}, "example_ids": ["a", "b"], "settings": {"lr": 1e-4}}
    lines[0] = replace(lines[0], wall_seconds=1.5, peak_memory_mb=20.25, **items)
    path = write(tmp_path / "new" / "r.jsonl", lines)
    assert read_results([path]) == lines
    assert "wall_seconds" not in json.loads(path.read_text().splitlines()[1])
    values, differences = run(capsys, path).split("\n\n")[:2]
    assert values.splitlines()[1].split() == "Model gaze ↓ hits ↑ gaze ↓ hits ↑".split()
    assert [line.split()[-1] for line in differences.splitlines() if line.startswith("gaze")] == ["better", "worse"]
    (first, *_) = Comparison(lines).records()
    assert (first["table"], first["unit"], first["higher_is_better"]) == ("Reading", "ms", False)
    undescribed = write(tmp_path / "u.jsonl", [replace(result("a", "XNLI", accuracy=0.4), shown={})])
    assert rows(run(capsys, undescribed))["a"] == ["0.400"], "as it is"


def with_examples(model: str, seed: int, exact: list[float]) -> Result:
    return replace(result(model, "SQuAD", seed, EM=float(np.mean(exact))), examples={"EM": exact})


def glue(seeds: int = 1, spread: float = 0.0) -> list[Result]:
    """The paper's values; seed by seed moved by a spread that is the same for all models."""
    return [
        result(model, task, seed, **{metric: value / 100 + spread * (seed - (seeds + 1) / 2)})
        for model, row in PAPER.items()
        for (task, metric), value in zip(GLUE.items(), row, strict=True)
        for seed in range(1, seeds + 1)
    ]


def write(path: Path, results: list[Result]) -> Path:
    for item in results:
        append_result(path, item)
    return path


def run(capsys, *arguments: object) -> str:
    main(["compare", *map(str, arguments)])
    return capsys.readouterr().out


def error(*arguments: object) -> str:
    return one_line(lambda: main(["compare", *map(str, arguments)]))


def rows(output: str) -> dict[str, list[str]]:
    """The cells of the lines of the first table, by model."""
    table = output.partition("\n\n")[0].splitlines()[3:]
    return {line.split()[0]: line.split()[1:] for line in table}


def test_table_3_of_the_papers_values(capsys, tmp_path):
    output = run(capsys, path := write(tmp_path / "r.jsonl", glue()))
    assert output.splitlines()[-1] == f"next: truneg compare {path} --html page.html"
    assert output.splitlines()[1].replace(" ↑", "").split() == ["Model", *GLUE, "Average"]
    found = rows(output)
    assert found["baseline"] == [f"{value:.2f}" for value in PAPER["baseline"]] + ["80.36"]
    assert found["sr"][-1] == "81.91"
    assert "differences" not in output and "?" not in output, "one seed has values alone"
    assert "1 seed is no evidence for a difference; at least 3 in common are needed." in output


def test_seeds_are_paired(capsys, tmp_path):
    # Seeds that move all models alike leave no noise in the difference, however large the deviation is.
    output = run(capsys, write(tmp_path / "r.jsonl", glue(seeds=5, spread=0.01)))
    assert rows(output)["hc"][:2] == ["62.00", "±1.58"]
    assert re.search(r"^CoLA ↑: hc +\+5\.20 +\[\+5\.20, \+5\.20\] +5 +↑ better$", output, re.MULTILINE)
    assert re.search(r"^RTE ↑: hc +-0\.60 +\[-0\.60, -0\.60\] +5 +↓ worse$", output, re.MULTILINE)


def test_seeds_are_averaged_and_different_settings_named(capsys, tmp_path):
    settings = [{"lr": 0.1, "pairs": ["a"]}, {"lr": 0.1, "command": "b"}, {"lr": 0.2, "fp16": True, "command": "c"}]
    values = [0.5, 0.6, 0.9]
    results = [
        replace(result("only", "RTE", seed, accuracy=value), settings=each)
        for seed, (value, each) in enumerate(zip(values, settings, strict=True))
    ]
    output = run(capsys, write(tmp_path / "mixed.jsonl", results)).splitlines()
    assert "Averaged over seeds with different settings: only, RTE: lr, fp16" in output
    assert output[3].split() == ["only", "66.67", f"±{100 * np.std(values, ddof=1):.2f}"]
    assert not Comparison(results[:2]).mixed


@pytest.mark.parametrize("by_example", [False, True])
def test_a_rounding_error_is_no_difference(by_example):
    """Three times a tenth, in two ways."""
    one, other = 0.1 + 0.1 + 0.1, 0.3
    assert one != other
    runs = [
        with_examples(model, seed, [value] * 9) if by_example else result(model, "SQuAD", seed, EM=value)
        for seed, (model, value) in itertools.product(range(3), (("base", other), ("new", one)))
    ]
    comparison = Comparison(runs)
    summary = comparison.summary("new", comparison.groups["SQuAD"][0])
    assert summary.interval is not None
    assert (summary.difference, summary.interval.low, summary.interval.high) == (0, 0, 0)


def test_only_seeds_in_common_are_compared():
    runs = [result("base", "RTE", seed, accuracy=0.5) for seed in (1, 2)]
    runs += [result("new", "RTE", seed, accuracy=value) for seed, value in ((2, 0.6), (3, 0.9))]
    comparison = Comparison(runs)
    summary = comparison.summary("new", comparison.groups["GLUE"][0])
    assert (summary.paired_seeds, summary.difference, summary.interval) == (1, pytest.approx(0.1), None)
    assert summary.mean == pytest.approx(0.75)
    alone = Comparison([*runs, result("third", "RTE", 9, accuracy=0.9)])
    assert alone.summary("third", alone.groups["GLUE"][0]).difference is None


@pytest.mark.parametrize("changed", [[("new", 2)], [("base", 2), ("new", 2)]], ids=["a model", "a seed"])
@pytest.mark.parametrize("names", ["abcd", "bca"])
def test_all_runs_need_the_same_examples_in_the_same_order(changed, names):
    """Rows of other questions must not be averaged."""
    runs = []
    for model, seed in itertools.product(("base", "new"), (1, 2)):
        asked = list(names if (model, seed) in changed else "abc")
        runs.append(replace(with_examples(model, seed, [1.0] * len(asked)), example_ids=asked))
    comparison = Comparison(runs)
    summary = comparison.summary("new", comparison.groups["SQuAD"][0])
    assert summary.differences.ndim == 1, "over seeds alone"
    assert comparison.other_items == ["new and base, SQuAD, EM"]


def test_the_average_is_of_tasks_that_all_models_have(capsys, tmp_path):
    results = [item for item in glue() if item.task in ("CoLA", "RTE", "MRPC")]
    results = [item for item in results if (item.model, item.task) != ("sr", "MRPC")]
    output = run(capsys, write(tmp_path / "r.jsonl", results))
    assert "Average of 2" in output.splitlines()[1]
    assert float(rows(output)["baseline"][-1]) == pytest.approx((56.8 + 68.5) / 2, abs=0.051)
    assert rows(output)["sr"][1] == "-"


def test_latex_and_markdown(capsys, tmp_path):
    path = write(tmp_path / "r.jsonl", [*glue(seeds=3, spread=0.01), result("a_b & c|d", "CoLA", matthews=0.1)])
    latex = run(capsys, path, "--format", "latex")
    assert re.search(r"a\\_b \\& c\|d +& +10\.00 & +- & ", latex)
    assert r"62.00 $\pm$1.00" in latex and "$-$0.60" in latex and r"$\uparrow$ better" in latex
    assert "% GLUE: differences to baseline" in latex
    body = [line for line in latex.splitlines() if not line.startswith("%")]
    assert latex.count(r"\begin{tabular}") == latex.count(r"\toprule") == 2
    assert not any(character in "\n".join(body).replace(r"\%", "") for character in "±Δ↑↓%~")
    markdown = [line for line in run(capsys, path, "--format", "markdown").splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in markdown if line.startswith(("| Model", "| baseline", "| hc"))}) == 1
    assert any(r"c\|d" in line for line in markdown)


def test_intervals_can_be_corrected_for_the_number_of_models(capsys, tmp_path):
    """Bonferroni: with 5 models the interval of each is that of 99 %."""
    rng = np.random.default_rng(1)
    scores = rng.normal(0.5, 0.01, size=(6, 4))
    runs = [result(f"m{n}", "RTE", s, accuracy=scores[n, s]) for n in range(6) for s in range(4)]
    (quantity,) = Comparison(runs).groups["GLUE"]
    single, together = (Comparison(runs, corrected=flag).summary("m3", quantity) for flag in (False, True))
    assert single.interval.mean == together.interval.mean
    wider = [each.interval.high - each.interval.mean for each in (together, single)]
    assert wider[0] / wider[1] == pytest.approx(stats.t.ppf(0.995, 3) / stats.t.ppf(0.975, 3))
    path = write(tmp_path / "r.jsonl", runs)
    assert ". Corrected for the number of models" in " ".join(run(capsys, path, "--bonferroni").split())
    assert "Not corrected for the number of models" in " ".join(run(capsys, path).split())


def test_the_picture(capsys, tmp_path):
    values = {("base", 1): 0.5, ("base", 2): 0.5, ("new", 1): 0.4, ("new", 2): 0.6}
    lines = [result(model, "CoLA", seed, matthews=value) for (model, seed), value in values.items()]  # two seeds
    values |= {("base", 3): 0.5, ("new", 3): 0.5}
    lines += [result(model, "RTE", accuracy=value) for model, value in (("base", 0.5), ("new", 0.6))]
    lines += [result(model, "SQuAD", seed, EM=value, F1=0.5) for (model, seed), value in values.items()]
    lines += [result(model, "cloze", seed, bits=5.0) for model in ("base", "new") for seed in (1, 2, 3)]
    run(capsys, write(tmp_path / "r.jsonl", lines), "--picture", tmp_path / "p.svg")
    root = ET.parse(tmp_path / "p.svg").getroot()
    texts = [element.text for element in root.iter() if element.tag.endswith("text")]
    assert {"GLUE: differences to base", "RTE ↑", "SQuAD: differences to base", "EM ↑", "F1 ↑"} <= set(texts)
    axes = {f"{unit}; mean over seeds, 95 % interval" for unit in ("bits", "points")}
    assert axes <= set(texts), "an axis for each unit"
    points = [element for element in root.iter() if element.get("aria-roledescription") == "point"]
    known = [point.get("fill") is not None for point in points]
    assert known == [False] * 3 + [True] * 3, "hollow where there is no interval"
    assert [re.search(r": (\S+); ", point.get("aria-label"))[1] for point in points] == ["0", "10", "0", "0", "0", "0"]
    rules = [element for element in root.iter() if element.tag.endswith("line") and element.get("aria-label")]
    assert len(rules) == 6, "three intervals, and a line at 0 for each chart"


@pytest.mark.parametrize("end", ["", '\n{"model": "a", "task": "Co'], ids=["as editors leave it", "torn"])
def test_a_last_line_without_line_feed_is_read_and_half_a_line_is_dropped(end, tmp_path):
    path = write(tmp_path / "r.jsonl", [result("a", "CoLA", seed, matthews=0.5) for seed in (1, 2)])
    path.write_text(path.read_text().rstrip("\n") + end)
    assert [item.seed for item in read_results([path])] == [1, 2]
    append_result(path, result("a", "CoLA", 3, matthews=0.5))
    assert [item.seed for item in read_results([path])] == [1, 2, 3]


@pytest.mark.parametrize("content", [b'{"data": []}', b"[1,\n2", b"PK\x03\x04\xff\xfe\nhalf", b"a word"])
def test_a_file_of_something_else_is_left_as_it_is(content, tmp_path):
    path = tmp_path / "dev.json"
    path.write_bytes(content)
    with pytest.raises(TrueNegError, match=f"{path}: "):
        append_result(path, result("a", "CoLA", 1, matthews=0.5))
    assert path.read_bytes() == content


def test_several_may_add_at_once(tmp_path):
    path = tmp_path / "r.jsonl"
    with ThreadPoolExecutor(20) as pool:
        list(pool.map(lambda seed: append_result(path, result("a", "CoLA", seed, matthews=0.5)), range(20)))
    assert sorted(item.seed for item in read_results([path])) == list(range(20))


GOOD = {"model": "a", "task": "CoLA", "seed": 1, "metrics": {"matthews": 0.5}}


@pytest.mark.parametrize(
    ("lines", "more", "part"),
    [
        ([{"model": "a"}], [], "line 1: Object missing required field task"),
        ([{**GOOD, "model": ""}], [], "line 1: model: Expected str of length >= 1"),
        (
            [{**GOOD, "metrics": {"matthews": 57.0}, "shown": {"matthews": {"title": "CoLA"}}}],
            [],
            "metric matthews is 57.0; expected a fraction (0.758 for 75.8 %)",
        ),
        (
            [{**GOOD, "examples": {"matthews": [1, 0, 1]}, "denominators": {"matthews": [1, 1]}}],
            [],
            "line 1: denominators of matthews: expected a number >= 0 for each of its examples",
        ),
        ([GOOD, GOOD], [], "line 2: model 'a', task 'CoLA', seed 1 is in"),
        ([], [], "r.jsonl: has no results to compare"),
        ([GOOD], ["r.jsonl"], "r.jsonl twice; name it once"),
        ([GOOD], ["no.jsonl"], "no.jsonl: no such file"),
        ([GOOD], ["--baseline", "c"], "--baseline c: no results of it; expected one of a"),
        ([GOOD], ["--tasks", "x"], "--tasks x: no results of it; expected some of CoLA"),
        ([GOOD], ["--picture", "p.png"], "--picture p.png: expected a file name that ends with .svg"),
        (
            [GOOD, {**GOOD, "model": "b", "seed": 2}],
            ["--picture", "p.svg"],
            "--picture: no model has a task of the tables and a seed in common with the baseline a",
        ),
    ],
)
def test_wrong_input_ends_in_one_line(tmp_path, monkeypatch, lines, more, part):
    monkeypatch.chdir(tmp_path)
    Path("r.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert part in error("r.jsonl", *more)
    assert not Path("p.svg").exists()


def test_what_is_no_number_is_not_added(tmp_path):
    with pytest.raises(TrueNegError, match="the new result: metric matthews is nan"):
        append_result(tmp_path / "r.jsonl", result("a", "CoLA", 5, matthews=float("nan")))
    broken = replace(result("a", "CoLA", 5, matthews=0.5), examples={"matthews": [float("inf")]})
    with pytest.raises(ValueError, match="not JSON compliant"):
        append_result(tmp_path / "r.jsonl", broken)
    append_result(tmp_path / "r.jsonl", result("a", "CoLA", 6, matthews=1.0000001))  # a sum of fp32 probabilities


def test_files_tasks_and_models_are_chosen(capsys, tmp_path):
    """Two experiments may both have an arm "baseline" with seed 1."""
    paths = [write(tmp_path / f"its {n}.jsonl", [*glue(3), result("baseline", "cloze", bits=9.0)]) for n in range(2)]
    assert "name the file's models: NAME=" in error(*paths)
    output = run(capsys, paths[0], f"new={paths[1]}", "--tasks", "C*", "--models", "new/hc", "baseline")
    assert [line.split()[0] for line in output.splitlines()[3:5]] == ["new/hc", "baseline"]
    assert "cloze" not in output and "RTE" not in output and "differences to new/hc" in output
    assert shlex.split(output.splitlines()[-1])[3:5] == [str(paths[0]), f"new={paths[1]}"], "to be pasted into a shell"
    single = write(tmp_path / "s.jsonl", [result("hc", "CoLA", matthews=0.5)])
    assert [each.model for each in read_results([f"mine={single}"])] == ["mine"]


def test_terminals_that_lack_characters(tmp_path, monkeypatch):
    shown = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", shown)
    main(["compare", str(write(tmp_path / "r.jsonl", glue())), "--baseline", "hc"])
    text = shown.buffer.getvalue().decode("ascii")
    assert "CoLA ?" in text and "\\u" not in text


@pytest.mark.slow
def test_files_are_written_for_a_reader_that_leaves(tmp_path):
    path, made, picture = write(tmp_path / "r.jsonl", glue()), tmp_path / "made.json", tmp_path / "made.svg"
    assert run_unread(truneg("compare", path, "--json", made, "--picture", picture)) == 0
    assert made.exists() and picture.exists()
    assert run_unread(truneg("compare", path)) == 141  # 128 + SIGPIPE


NOISE = (0.0, 0.02, 0.05)


def losses(**by_arm: tuple[float, ...]) -> list[Result]:
    """Held-out losses in bits of each arm, by seed."""
    shown = {"bits": Metric("bits", False, "bits"), "ece": Metric("ECE", False)}
    return [
        Result(model=arm, task=HELD_OUT, seed=seed, metrics={"bits": bits, "ece": 0.02}, shown=shown)
        for arm, row in by_arm.items()
        for seed, bits in enumerate(row, start=1)
    ]


def test_a_verdict_of_many_arms_is_corrected_for_their_number():
    """Of twelve arms that differ from the baseline by noise alone, one "helps" in one of five experiments."""
    random = np.random.default_rng(1)
    helps = plain = 0
    for _ in range(30):
        base, *arms = random.normal(size=(13, 5))
        found = losses(baseline=tuple(base), **{f"a{n}": tuple(row) for n, row in enumerate(arms)})
        helps += any(" helps" in line for line in verdict(found, "baseline"))
        plain += any((row - base).mean() < 0 and p_value(row - base) < 0.05 for row in np.array(arms))
    assert helps <= 1 and plain >= 4
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03}) == pytest.approx({"a": 0.03, "b": 0.06, "c": 0.06})
    arms = {f"a{n}": tuple(each - 1 for each in NOISE[::-1]) for n in range(3)}
    assert "a0 helps: its held-out loss is lower than that of baseline (Holm's correction for 3 arms)." in verdict(
        losses(baseline=NOISE, **arms), "baseline"
    )


LOWER, SAME, HIGHER = (-0.201, -0.18, -0.151), (-0.31, -0.28, -0.27), (0.1, 0.12, 0.15)


@pytest.mark.parametrize(
    ("control", "arm", "line"),
    [
        ((-0.1, -0.08, -0.05), LOWER, "arm helps: its held-out loss is lower than that of baseline and control."),
        (
            (-0.3, -0.28, -0.25),
            SAME,
            "arm: the difference in held-out loss to control is not significant (control: about 7 more seeds needed).",
        ),
        ((), HIGHER, "arm does not help: its held-out loss is higher than that of baseline."),
        ((), (-1, -1), "arm: held-out loss -1.010 bits to baseline. 2 seeds are no evidence, at least 3 are needed."),
    ],
    ids=["lower", "not significant", "higher", "two seeds"],
)
def test_the_verdict_says_whether_an_arm_helps(control, arm, line):
    arms = {"control": control, "arm": arm} if control else {"arm": arm}
    assert verdict(losses(baseline=NOISE[: len(arm)], **arms), "baseline", "control")[0] == line


def test_the_verdict_has_each_arm_against_the_baseline_and_the_control():
    _, *said = verdict(losses(baseline=NOISE, control=(-0.1, -0.08, -0.05), arm=LOWER), "baseline", "control")
    assert said[0] == (
        "control against baseline: held-out loss better (-0.100 bits [-0.100, -0.100]); calibration error not "
        "significant (+0.00 points [+0.00, +0.00])."
    )
    assert [line.partition(":")[0] for line in said[1:]] == ["arm against baseline", "arm against control"]
    few = verdict(losses(baseline=NOISE[:2], arm=(-1.0, -1.0)), "baseline")
    assert few[1] == "arm against baseline: held-out loss -1.010 bits; calibration error +0.00 points."


def test_a_control_is_better_where_the_items_say_so():
    """Not where its value is a little higher, and not said of controls where none ran."""
    random, hits = np.random.default_rng(1), {"hits": Metric("hits", True)}
    own = random.random(40)
    runs = {"model": own, "near": own + random.normal(0.01, 0.05, 40), "far": own + 0.1, "ceiling": np.ones(40)}
    lines = [
        Result(model=model, task="T", seed=1, shown=hits, **ratios_as_fields({"hits": Ratio(values, np.ones(40))}))
        for model, values in runs.items()
    ]
    said = "model: better without training in 1 metric: hits (T) by far."
    comparison = Comparison(lines, over_items=True, controls={"near", "far", "ceiling"})
    assert verdict_over_items(comparison) == said
    assert [table.title for table in tables(comparison)] == ["T"], "no table of differences of controls"
    without = Comparison([lines[0], lines[1]], over_items=True, controls={"near"})
    assert without.summary("near", without.groups["T"][0]).difference > 0
    assert verdict_over_items(without) == "model: no control is significantly better."
    assert verdict_over_items(Comparison(lines[:1], over_items=True)) == "model: no other model and no control."
    others = Comparison(lines[:3], over_items=True)
    assert verdict_over_items(others).startswith("near against model: not significantly different in 1 metric | far ")
