"""Pieces to fairseq's binary format, through the real fairseq-preprocess."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from truneg_fairseq.data import binarize as binarize_module
from truneg_fairseq.data.binarize import BinarizedSplit, binarize
from truneg_fairseq.data.wordpiece import BERT_SPECIALS, encode_files
from truneg_fairseq.errors import TrueNegError

ROOT = Path(__file__).resolve().parents[1]
WORDS = ["the", "cat", "sat", "un", "##happy", ".", "é"]
TRAIN = ["the cat sat.", "", "The unhappy DOG sat", "é"] * 25
VALID = ["the cat", "unhappy", ""]


@pytest.fixture(scope="module")
def pieces(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("binarize")
    vocab = folder / "bert.txt"
    vocab.write_text("\n".join([*BERT_SPECIALS, *WORDS[:-1], "e"]) + "\n", encoding="utf-8")
    for name, lines in (("train", TRAIN), ("valid", VALID)):
        (folder / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    encode_files(vocab, [folder / "train.txt", folder / "valid.txt"], folder / "pieces")
    return folder / "pieces"


@pytest.fixture(scope="module")
def data_bin(pieces) -> Path:
    splits, made = binarize(pieces, pieces.parent / "data-bin")
    assert made
    assert splits == [
        BinarizedSplit("train", lines=100, blank=25, tokens=25 * (4 + 0 + 5 + 1 + 4), unknown=25),
        BinarizedSplit("valid", lines=3, blank=1, tokens=2 + 2 + 3, unknown=0),
    ]
    return pieces.parent / "data-bin"


def copy_pieces(pieces: Path, folder: Path) -> Path:
    folder.mkdir()
    for file in pieces.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    return folder


def test_ids_are_those_of_the_dictionary(pieces, data_bin):
    from fairseq.data import Dictionary, data_utils

    assert {path.name for path in data_bin.iterdir()} >= {
        "dict.txt",
        "vocab.txt",
        "train.bin",
        "train.idx",
        "valid.bin",
    }
    assert not (data_bin / "test.bin").exists()
    assert (data_bin / "dict.txt").read_bytes() == (pieces / "dict.txt").read_bytes()
    assert (data_bin / "vocab.txt").read_bytes() == (pieces / "vocab.txt").read_bytes()
    dictionary = Dictionary.load(str(data_bin / "dict.txt"))
    dataset = data_utils.load_indexed_dataset(str(data_bin / "train"), dictionary)
    written = (pieces / "train.pieces").read_text(encoding="utf-8").split("\n")[:-1]
    assert [dictionary.string(dataset[index], include_eos=True) for index in range(100)] == [
        f"{line} </s>".strip() for line in written
    ]
    assert dataset[1].tolist() == [dictionary.eos()]


def test_workers_do_not_change_the_data(pieces, data_bin, tmp_path):
    with_test = copy_pieces(pieces, tmp_path / "pieces")
    (with_test / "test.pieces").write_text("the cat\n", encoding="utf-8")
    splits, made = binarize(with_test, tmp_path / "data-bin", workers=3)
    assert made
    assert splits[2] == BinarizedSplit("test", lines=1, blank=0, tokens=3, unknown=0)
    for name in ("train.bin", "train.idx", "valid.bin", "valid.idx"):
        assert (tmp_path / "data-bin" / name).read_bytes() == (data_bin / name).read_bytes(), name
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data-bin", "pieces"]


def test_finished_folder_is_kept(pieces, data_bin, tmp_path, monkeypatch):
    def fail(*args: object) -> None:
        raise AssertionError("binarized again")

    monkeypatch.setattr(binarize_module, "_preprocess", fail)
    splits, made = binarize(pieces, data_bin)
    assert not made
    assert [split.lines for split in splits] == [100, 3]


def test_unfinished_and_foreign_folders(pieces, data_bin, tmp_path):
    other = copy_pieces(pieces, tmp_path / "pieces")
    (other / "test.pieces").write_text("the cat\n", encoding="utf-8")
    with pytest.raises(TrueNegError, match=r"data-bin: is there without test\.bin, test\.idx; remove it"):
        binarize(other, data_bin)
    (other / "test.pieces").unlink()
    (other / "dict.txt").write_text("the 1\n", encoding="utf-8")
    with pytest.raises(TrueNegError, match=r"its dict\.txt differs from .*pieces/dict\.txt; remove it"):
        binarize(other, data_bin)


def test_missing_pieces(pieces, tmp_path):
    with pytest.raises(
        TrueNegError, match=r"nothing: dict\.txt, vocab\.txt, train\.pieces, valid\.pieces missing; run"
    ):
        binarize(tmp_path / "nothing", tmp_path / "data-bin")
    other = copy_pieces(pieces, tmp_path / "a,b")
    with pytest.raises(TrueNegError, match="at commas"):
        binarize(other, tmp_path / "data-bin")
    (other / "valid.pieces").unlink()
    with pytest.raises(TrueNegError, match=r"a,b: valid\.pieces missing"):
        binarize(other, tmp_path / "data-bin")
    with pytest.raises(TrueNegError, match="--workers 0: expected 1 or more"):
        binarize(pieces, tmp_path / "data-bin", workers=0)
    assert not (tmp_path / "data-bin").exists()


def test_failure_of_fairseq_leaves_nothing(pieces, tmp_path):
    other = copy_pieces(pieces, tmp_path / "pieces")
    (other / "dict.txt").write_text("the 1\nthe 1\n", encoding="utf-8")
    with pytest.raises(TrueNegError, match=r"fairseq-preprocess failed with 1: .*Duplicate word") as error:
        binarize(other, tmp_path / "data-bin")
    assert "\n" not in str(error.value)
    assert [path.name for path in tmp_path.iterdir()] == ["pieces"]


def test_lines_that_fairseq_reads_otherwise(pieces, tmp_path):
    other = copy_pieces(pieces, tmp_path / "pieces")
    # Not written by encode_wordpiece.py: fairseq takes a lone carriage return for the end of a line.
    (other / "valid.pieces").write_bytes(b"the cat\rsat\n")
    with pytest.raises(TrueNegError, match=r"valid\.pieces: fairseq-preprocess made 2 items of 1 lines"):
        binarize(other, tmp_path / "data-bin")
    assert [path.name for path in tmp_path.iterdir()] == ["pieces"]


def test_script(pieces, data_bin):
    done = subprocess.run(
        [
            sys.executable,
            str(ROOT / "data-bin-scripts" / "binarize.py"),
            "--pieces-dir",
            pieces,
            "--output-dir",
            data_bin,
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"{data_bin}: is already there; remove it to binarize again",
        "train: 100 lines (25 blank), 350 tokens, 25 unknown (7.143%)",
        "valid: 3 lines (1 blank), 7 tokens, 0 unknown (0.000%)",
    ]
