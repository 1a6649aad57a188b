"""truneg report on real trainings: what is on its page, and what it says of what is missing."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import sys
from argparse import Namespace
from pathlib import Path

import pytest
from support.cli_runs import hydra, training
from support.commands import run_command, truneg

from truneg_fairseq.commands.main import main
from truneg_fairseq.commands.output import write_json_lines
from truneg_fairseq.comparison.results import Result, append_result
from truneg_fairseq.inspection.measurements import COLUMNS, Measurement, read_measurements
from truneg_fairseq.report.run import find_runs

UPDATES = ("--max-update", 4, "--validate-interval-updates", 2, "--save-interval-updates", 2)


@pytest.fixture(scope="module")
def runs(data_bin, tmp_path_factory) -> Path:
    """A baseline with a log of JSON and TensorBoard's files, measured, and a variant by hydra."""
    folder = tmp_path_factory.mktemp("runs")
    baseline = folder / "baseline"
    baseline.mkdir()
    logs = ("--log-file", baseline / "train.log", "--tensorboard-logdir", baseline / "tb")
    table = ("--criterion", "masked_lm_true_neg", "--synonym-table", data_bin / "synonyms.npz")
    run_command(training(data_bin, baseline, *table, "--tokenization", "wordpiece", *UPDATES, *logs))
    run_command(hydra(data_bin, folder / "hc", "hc", "optimization.max_update=4", "+criterion.tokenization=wordpiece"))
    checkpoints = sorted(baseline.glob("checkpoint_1_*.pt"))
    measure = ("inspect", "--data", data_bin, "--tokenization", "wordpiece", "--json", baseline / "measured.jsonl")
    run_command(truneg(*measure, "--checkpoint", *checkpoints))
    return folder


def report(capsys, folder: Path, *arguments: object) -> str:
    """Runs the command in this process; what it printed."""
    main(["report", *map(str, arguments), "--output", str(folder / "r.html")])
    return capsys.readouterr().out


def error(capsys, folder: Path, *arguments: object) -> str:
    with pytest.raises(SystemExit) as stopped:
        report(capsys, folder, *arguments)
    assert not (folder / "r.html").exists()
    message = str(stopped.value.code)
    assert message.startswith("truneg_fairseq: error: ")
    assert "\n" not in message
    return message


def text_of(html: str) -> str:
    return re.sub(r"<[^>]*>", " ", html)


def test_a_baseline_needs_results(runs, tmp_path, capsys):
    with pytest.raises(SystemExit, match="--baseline nobody: has no effect without --results"):
        report(capsys, tmp_path, runs / "baseline", "--baseline", "nobody")


def test_curves_table_2_and_what_was_run(runs, tmp_path, capsys):
    printed = report(capsys, tmp_path, runs / "baseline", f"variant={runs / 'hc'}")
    html = (tmp_path / "r.html").read_text(encoding="utf-8")
    for section in ("Overview", "Validation: valid", "While training", "(Table 2)", "Speed and memory", "What was run"):
        assert section in html, section
    assert html.count("<figure>") == html.count("</svg>") >= 14
    log = (runs / "baseline" / "train.log").read_text(encoding="utf-8")
    last = json.loads(re.findall(r'\{"epoch": \d+, "valid_.*\}', log)[-1])
    assert f"{float(last['valid_accuracy']):.4g}" in text_of(html)
    assert "masked_lm_true_neg" in html
    assert "--config-name hc" in html
    assert re.search(r"<td>hc weight</td><td class=\"differs\">0.0</td><td class=\"differs\">1.0</td>", html)
    assert re.search(r"hc_pred, 95 % interval", html)
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=", html), "nothing from elsewhere"
    assert "variant: No measured checkpoints" in printed
    assert len(html.encode()) < 2_000_000


def test_tensorboards_files_alone(runs, tmp_path, capsys):
    shutil.copytree(runs / "baseline" / "tb", tmp_path / "tb")
    report(capsys, tmp_path, tmp_path / "tb")
    html = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "sequences with a correction" in html
    assert "4 of 4" in html


def test_a_run_in_progress_says_what_is_missing(runs, tmp_path, capsys):
    lines = (runs / "baseline" / "train.log").read_text(encoding="utf-8").splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith('{"epoch"'))
    log = tmp_path / "now.log"
    log.write_text("\n".join(lines[: first + 1]) + "\n" + lines[first + 1][:30], encoding="utf-8")
    printed = report(capsys, tmp_path, log)
    for sentence in (
        "now: No validation is logged yet.",
        "now: The log does not end: update 1 of 4; in progress, or stopped.",
        "now: 1 line(s) of the log are cut and left out.",
    ):
        assert sentence in printed
        assert sentence.removeprefix("now: ") in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_runs_that_do_not_compare_are_told(runs, tmp_path, capsys):
    other = tmp_path / "other.log"
    text = (runs / "baseline" / "train.log").read_text(encoding="utf-8")
    other.write_text(text.replace("'seed': 1", "'seed': 2"), encoding="utf-8")
    report(capsys, tmp_path, runs / "baseline", other)
    html = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "The runs differ in seed (1; 2)" in html


def test_results_of_fine_tuning(runs, tmp_path, capsys):
    results = tmp_path / "results.jsonl"
    for model, shift in (("base", 0.0), ("<script>alert(1)</script>", 0.1)):
        for seed in (1, 2):
            scores = {"accuracy": 0.5 + shift + 0.01 * seed}
            append_result(
                results, Result(model=model, task="RTE", seed=seed, metrics=scores, wall_seconds=61.5, peak_memory_mb=9)
            )
    report(capsys, tmp_path, runs / "baseline", "--results", results, "--baseline", "base")
    html = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "GLUE: differences to base" in html
    assert "[+10.00, +10.00]" in html
    assert "61.5" in html
    assert "<script>alert" not in html


def test_results_that_do_not_compare_leave_the_rest(runs, tmp_path, capsys):
    results = tmp_path / "results.jsonl"
    for model, scores in (("base", [0.0, 1.0]), ("new", [0.0, 1.0, 0.5])):
        metrics = {"accuracy": sum(scores) / len(scores)}
        append_result(results, Result(model=model, task="RTE", seed=1, metrics=metrics, examples={"accuracy": scores}))
    report(capsys, tmp_path, runs / "baseline", "--results", results)
    html = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "scores of other examples" in html
    assert "Validation: valid" in html


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a.log": ""}, "a.log: no statistics of a training; expected what fairseq-train prints"),
        ({}, "a.log: no such file; expected a training's folder or log"),
    ],
)
def test_logs_without_anything(files, message, tmp_path, capsys):
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    assert message in error(capsys, tmp_path, tmp_path / "a.log")


@pytest.mark.parametrize(
    ("run", "name"),
    [("baseline/train.log", "train.log"), *(("baseline", name) for name in ("train.log", "measured.jsonl"))],
)
def test_what_is_read_is_not_overwritten(run, name, tmp_path):
    output = tmp_path / "baseline" / name
    output.parent.mkdir()
    (output.parent / "train.log").write_text('{"epoch": 1, "train_loss": "5.75", "train_num_updates": "12"}\n')
    measured = {"checkpoint": "1.pt", **{name: 0 for name, _ in COLUMNS}}
    (output.parent / "measured.jsonl").write_text(json.dumps(measured))
    before = output.read_bytes()
    with pytest.raises(SystemExit, match=f"--output {output}: is the file of RUN too; expected different files"):
        main(["report", str(tmp_path / run), "--output", str(output)])
    assert output.read_bytes() == before


def test_a_folder_with_an_equals_sign_is_a_folder(runs, tmp_path, capsys):
    """As hydra's sweeps name them."""
    shutil.copytree(runs / "baseline", tmp_path / "lr=0.1")
    report(capsys, tmp_path, tmp_path / "lr=0.1", f"other={tmp_path / 'lr=0.1'}")
    assert "lr=0.1" in text_of((tmp_path / "r.html").read_text(encoding="utf-8"))


def test_a_folder_of_several_trainings_is_refused(runs, tmp_path, capsys):
    assert "holds the logs of 2 trainings" in error(capsys, tmp_path, runs)


def test_runs_with_fairseqs_own_save_dir_are_told_apart(tmp_path, capsys):
    """It is "checkpoints", relative to where each was started."""
    start = "{'_name': None, 'common': {'_name': None, 'seed': 1}, 'checkpoint': {'save_dir': 'checkpoints'}}\n"
    line = json.dumps({"epoch": 1, "loss": "5.5", "num_updates": "10"}) + "\n"
    for name in "ab":
        (tmp_path / "real" / name / "checkpoints").mkdir(parents=True)
        (tmp_path / "real" / name / "train.log").write_text(start + line)
    manifest = {"starts": [{"command": "fairseq-train there"}]}
    (tmp_path / "real" / "a" / "checkpoints" / "manifest.json").write_text(json.dumps(manifest))
    assert "holds the logs of 2 trainings" in error(capsys, tmp_path, tmp_path / "real")
    report(capsys, tmp_path, tmp_path / "real" / "a")
    assert "fairseq-train there" in text_of((tmp_path / "r.html").read_text(encoding="utf-8"))


def test_logs_of_one_time_are_read_in_the_order_of_their_names(tmp_path):
    for name in "dbca":
        (tmp_path / f"{name}.log").write_text(json.dumps({"epoch": 1, "loss": "5.5", "num_updates": "10"}) + "\n")
        os.utime(tmp_path / f"{name}.log", (1, 1))
    (run,) = find_runs([str(tmp_path)])
    assert [path.name for path in run.files] == ["a.log", "b.log", "c.log", "d.log"]


@pytest.mark.parametrize("time", ["2026-01-0{} 10:00:00 | INFO | ", "[2026-01-0{} 10:00:00,123][x][INFO] - "])
def test_logs_are_read_in_the_order_of_their_trainings(time, tmp_path):
    """The continued training was written to a log of an earlier name, and was copied first."""
    for name, day, loss in (("a", 2, "4"), ("b", 1, "5")):
        line = json.dumps({"epoch": 1, "loss": loss, "num_updates": "10"})
        (tmp_path / f"{name}.log").write_text(f"a warning\n{time.format(day)}{line}\n")
        os.utime(tmp_path / f"{name}.log", (1, 5 - day))
    (run,) = find_runs([str(tmp_path)])
    assert [path.name for path in run.files] == ["b.log", "a.log"]
    assert run.log.series["train_inner", "loss"] == {10: 4.0}


@pytest.mark.parametrize("argument", ["", "hc=", "=run1"])
def test_an_empty_name_or_path_is_one_line(argument, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run1").mkdir()
    (tmp_path / "run1" / "a.log").write_text(json.dumps({"epoch": 1, "loss": "5.5", "num_updates": "10"}) + "\n")
    assert f"{argument!r}: has an empty part; expected a training's folder" in error(
        capsys, tmp_path / "run1", argument
    )


def test_batches_by_tokens_differ_from_batches_by_sequences(tmp_path, capsys):
    for name, sizes in (("a", "'batch_size': 4, 'max_tokens': None"), ("b", "'batch_size': None, 'max_tokens': 400")):
        start = "{'_name': None, 'common': {'_name': None, 'seed': 1, 'fp16': False}, 'dataset': {" + sizes + "}}\n"
        line = json.dumps({"epoch": 1, "loss": "5.5", "num_updates": "10"}) + "\n"
        (tmp_path / f"{name}.log").write_text(start + line)
    report(capsys, tmp_path, tmp_path / "a.log", tmp_path / "b.log")
    text = text_of((tmp_path / "r.html").read_text(encoding="utf-8"))
    assert "The runs differ in batch_size (4; None)" in text
    assert "The runs differ in max_tokens (None; 400)" in text
    assert "The runs differ in fp16" not in text


def test_what_inspect_wrote_of_a_model_of_nan_is_read(tmp_path, capsys):
    values = {"loss": math.nan, "ppl": math.nan, "accuracy": 0.0, "ece": math.nan, "hc_pred": 0.0, "hc_iter": 0.0}
    made = [
        Measurement("a.pt", 1, values, sequences=10, masked=70),
        Measurement("b.pt", 2, {**values, "loss": 5.5}, sequences=33, masked=200),
    ]
    write_json_lines(Namespace(json=tmp_path / "m.jsonl"), [each.record() for each in made])
    assert "NaN" not in (tmp_path / "m.jsonl").read_text()
    assert math.isnan(read_measurements(tmp_path / "m.jsonl")[0].values["loss"])
    report(capsys, tmp_path, tmp_path)
    assert "of different texts or masks, which do not compare" in (tmp_path / "r.html").read_text(encoding="utf-8")
    example = {"before": "", "gold": "a", "prediction": "b", "after": "", "prediction_probability": 0.1}
    record = {**made[1].record(), "examples": [{**example, "gold_probability": "x"}]}
    (tmp_path / "m.jsonl").write_text(json.dumps(record | {"ppl": 1.0, "ece": 1.0}) + "\n")
    assert "is not what 'truneg inspect --json' writes" in error_of_page(capsys, tmp_path)


def error_of_page(capsys, folder: Path) -> str:
    (folder / "r.html").unlink()
    return error(capsys, folder, folder)


def test_two_runs_of_one_name_are_refused(runs, tmp_path, capsys):
    (tmp_path / "baseline").mkdir()
    shutil.copy(runs / "baseline" / "train.log", tmp_path / "baseline")
    assert "is called 'baseline' as" in error(capsys, tmp_path, runs / "baseline", tmp_path / "baseline")


def test_no_event_file(tmp_path, capsys):
    (tmp_path / "events.out.tfevents.1.x").write_bytes(b"not an event")
    error(capsys, tmp_path, tmp_path)


def test_the_page_needs_no_torch():
    code = "import sys, truneg_fairseq.report.page; sys.exit('torch' in sys.modules or 'fairseq' in sys.modules)"
    assert run_command([sys.executable, "-c", code], fresh=True).returncode == 0
