"""The task glue on prepared folders; files with and without labels."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.glue_files import VALID, write_data, write_glue

import truneg_fairseq
from truneg_fairseq.glue.files import TASKS, is_labelled, read_split


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> Path:
    data = write_data(tmp_path_factory.mktemp("data") / "bin")
    return write_glue(tmp_path_factory.mktemp("glue"), data, ["RTE", "STS-B", "CoLA"])


def task_of(folder: Path, name: str):
    truneg_fairseq.register()
    from truneg_fairseq.glue.task import GlueConfig, GlueTask

    cfg = GlueConfig(data=str(folder / name), num_classes=2, max_length=16, max_positions=24, seed=1)
    cfg.regression_target, cfg.classification_head_name = not TASKS[name].labels, "head"
    return GlueTask.setup_task(cfg)


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
