"""The example for BabyLM on small text: one file a source, checkpoints by words seen, models that load alone."""

from __future__ import annotations

import runpy
import sys

import pytest
from support.commands import REPOSITORY, run_command

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")

SCRIPT = REPOSITORY / "user_dir_examples" / "babylm" / "train.py"
SMALL = ["--vocabulary", 100, "--layers", 1, "--width", 64, "--length", 16, "--million", 100, "--use_cpu"]
WORDS = "the big cat sat on a mat and saw one small dog".split()


@pytest.fixture
def main(capsys):
    def run(*arguments):
        runpy.run_path(str(SCRIPT))["main"]([*map(str, arguments)])
        return capsys.readouterr().out

    return run


@pytest.fixture
def text(tmp_path, main):
    """Two sources of 264 words."""
    for name in ("spoken", "books"):
        lines = [" ".join(WORDS[start:] + WORDS[:start]) for start in range(11)]
        (tmp_path / f"{name}.train").write_text("\n\n\x07 ".join(lines) + "\n", encoding="utf-8")
    said = main("prepare", *tmp_path.glob("*.train"), "--output", tmp_path / "text")
    assert "books: 132 words" in said and "264 words" in said
    return tmp_path / "text"


def test_each_source_is_a_clean_file(text):
    assert sorted(file.name for file in text.iterdir()) == ["books.txt", "spoken.txt"]
    lines = (text / "books.txt").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 11 and lines[1] == " ".join([*WORDS[1:], WORDS[0]])


@pytest.mark.slow
def test_checkpoints_by_words_seen_load_without_the_package(text, tmp_path, main):
    out = tmp_path / "out"
    options = [*SMALL, "--num_train_epochs", 2, "--per_device_train_batch_size", 2, "--soft_targets", "uniform=0.1"]
    main("train", text, "--output_dir", out, *options)
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    main("train", text, "--output_dir", out, *options)  # it is finished
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    main("train", text, "--output_dir", tmp_path / "again", *options)
    assert (tmp_path / "again" / "model.safetensors").read_bytes() == (out / "model.safetensors").read_bytes()
    # 528 words in both epochs
    assert {folder.name for folder in out.glob("chck_*")} == {f"chck_{mark}M" for mark in range(1, 6)}
    load = (
        "import sys, transformers; model = transformers.AutoModelForMaskedLM.from_pretrained(sys.argv[1]); "
        "tokenizer = transformers.AutoTokenizer.from_pretrained(sys.argv[1]); "
        "print(type(model).__name__, tokenizer.tokenize('the cat'), 'truneg_fairseq' in sys.modules)"
    )
    loaded = run_command([sys.executable, "-c", load, out / "chck_1M"], fresh=True)
    assert loaded.stdout.strip() == "BertForMaskedLM ['the', 'cat'] False"
    weights = [transformers.AutoModelForMaskedLM.from_pretrained(out / name) for name in ("chck_1M", "chck_5M")]
    first, last = (model.get_input_embeddings().weight for model in weights)
    assert not first.equal(last)
