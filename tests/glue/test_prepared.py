"""A prepared task of which something is missing; validation of all that is there; files of a task's format."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from support.glue_files import VALID, write_data, write_glue

import truneg_fairseq
from truneg_fairseq.commands.main import main
from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.glue.files import TASKS, is_labelled, read_split
from truneg_fairseq.glue.prepared import check_folder


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> Path:
    data = write_data(tmp_path_factory.mktemp("data") / "bin")
    return write_glue(tmp_path_factory.mktemp("glue"), data, ["RTE", "STS-B", "CoLA"])


@pytest.fixture
def copy(prepared, tmp_path) -> Path:
    return Path(shutil.copytree(prepared, tmp_path / "glue"))


MISSING = r"cannot be read \(No such file or directory\); prepare the task again"
DAMAGE = {
    "second sentence": (
        "RTE",
        ["input1/train.bin", "input1/train.idx"],
        rf"input1/train.bin: {MISSING}",
    ),
    "first sentence": (
        "RTE",
        ["input0/train.bin"],
        rf"input0/train.bin: {MISSING}",
    ),
    "all second ones": (
        "RTE",
        ["input1"],
        rf"input1/train.bin: {MISSING}",
    ),
    "labels": (
        "RTE",
        ["label/valid.bin", "label/valid.idx"],
        rf"label/valid.bin: {MISSING}",
    ),
    "scores": ("STS-B", ["label/train.label"], r"label/train.label: cannot be read; expected 40 scores"),
}


def task_of(folder: Path, name: str):
    truneg_fairseq.register()
    from truneg_fairseq.glue.task import GlueConfig, GlueTask

    cfg = GlueConfig(data=str(folder / name), num_classes=2, max_length=16, max_positions=24, seed=1)
    cfg.regression_target, cfg.classification_head_name = not TASKS[name].labels, "head"
    return GlueTask.setup_task(cfg)


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_missing_part_is_told(kind, copy):
    """By the command before it reads a checkpoint, and by the task in fairseq-train."""
    name, files, message = DAMAGE[kind]
    for file in files:
        path = copy / name / file
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    words = ["--checkpoint", "none.pt", "--data", copy, "--output", copy / "out", "--tasks", name]
    with pytest.raises(SystemExit, match=message):
        main(["glue", *map(str, words)])
    assert not (copy / "out").exists()
    with pytest.raises(SystemExit, match=message):
        task_of(copy, name).load_dataset("valid" if "valid" in message else "train")


def test_parts_of_other_lengths_are_told(copy):
    """Of half a copy, and of two preparations."""
    for split, ending in (("train", "bin"), ("train", "idx")):
        shutil.copy(copy / f"RTE/input1/valid.{ending}", copy / f"RTE/input1/{split}.{ending}")
    with pytest.raises(TrueNegError, match=r"input1/train: has 13 examples, expected 40; prepare the task again"):
        check_folder(TASKS["RTE"], copy / "RTE")
    (copy / "STS-B/input0/valid.bin").write_bytes(b"")
    with pytest.raises(TrueNegError, match=r"input0/valid.bin: has 0 bytes, its index expects [1-9]\d*; prepare"):
        check_folder(TASKS["STS-B"], copy / "STS-B")
    (copy / "CoLA/label/valid.idx").write_bytes(b"no")
    with pytest.raises(TrueNegError, match=r"label/valid.idx: is damaged or cut .*; prepare the task"):
        check_folder(TASKS["CoLA"], copy / "CoLA")


def test_without_a_description_the_folders_tell(copy):
    (copy / "RTE/info.json").unlink()
    task = task_of(copy, "RTE")
    assert len(task.load_dataset("train")) == 40
    (copy / "RTE/input1/valid.idx").unlink()
    with pytest.raises(SystemExit, match=r"input1/valid: no such data; expected the split valid"):
        task.load_dataset("valid")


def test_validation_has_every_example(prepared):
    """fairseq's own multiple is 8: of 13 examples it would take 8."""
    task = task_of(prepared, "RTE")
    for split, expected in (("valid", VALID), ("train", 40 - 40 % 16)):
        task.load_dataset(split)
        batches = task.get_batch_iterator(
            task.dataset(split), max_sentences=16, required_batch_size_multiple=16
        ).next_epoch_itr(shuffle=False)
        assert sum(int(batch["nsentences"]) for batch in batches) == expected


def test_files_with_and_without_labels(prepared, tmp_path):
    official = prepared.parent / "official"
    for name in ("RTE", "CoLA", "STS-B"):
        assert is_labelled(TASKS[name], official / name / "dev.tsv")
        assert not is_labelled(TASKS[name], official / name / "test.tsv")
    # CoLA's dev file has no header; a file that was made like it may have one.
    lines = (official / "CoLA/dev.tsv").read_text()
    path = tmp_path / "dev.tsv"
    path.write_text("source\tlabel\tmark\tsentence\n" + lines)
    assert is_labelled(TASKS["CoLA"], path)
    found, plain = (read_split(TASKS["CoLA"], "valid", file) for file in (path, official / "CoLA/dev.tsv"))
    assert (found.texts, found.labels) == (plain.texts, plain.labels)


def test_a_hugging_face_folder_is_no_checkpoint(prepared, tmp_path):
    folder = tmp_path / "hf"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": "bert"}))
    convert = r"hf: is a Hugging Face model, expected a fairseq checkpoint; convert it: truneg convert from-hf"
    words = ["--data", prepared, "--output", tmp_path / "out", "--tasks", "RTE", "--cpu"]
    with pytest.raises(SystemExit, match=convert):
        main(["glue", "--checkpoint", str(folder), *map(str, words)])
    with pytest.raises(SystemExit, match=convert):
        main(["glue", "predict", "--checkpoint", str(folder), "--data", "dev.tsv"])
    with pytest.raises(SystemExit, match=convert):
        main(["inspect", "--checkpoint", str(folder), "--data", "bin"])


def test_outputs_that_cannot_be_written_are_told_first(tmp_path):
    """Before the checkpoint, which is not there, is looked for."""
    for words in (
        ["glue", "predict", "--checkpoint", "none.pt", "--data", "dev.tsv", "--output", "/dev/null/answers.tsv"],
        ["inspect", "--checkpoint", "none.pt", "--data", "bin", "--json", str(tmp_path / "no/rates.jsonl")],
    ):
        with pytest.raises(
            SystemExit, match=rf"{words[-2]} {words[-1]}: cannot be written \(.*\); choose another folder"
        ):
            main(words)
    with pytest.raises(SystemExit, match=r"--output .*dev.tsv: is the file of --data too; expected different files"):
        main(
            [
                "glue",
                "predict",
                "--checkpoint",
                "none.pt",
                "--data",
                str(tmp_path / "dev.tsv"),
                "--output",
                str(tmp_path / "dev.tsv"),
            ]
        )


def test_the_required_options_are_named(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["glue", "--data", "glue"])
    assert caught.value.code == 2
    assert "the following arguments are required: --checkpoint, --output" in capsys.readouterr().err
