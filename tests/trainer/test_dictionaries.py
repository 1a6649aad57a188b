"""Weights of one dictionary never go on over another dictionary of the same size."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.cli_runs import assert_one_line, content, training
from support.commands import PLUGIN, fairseq_train, run_command
from support.trainings import configuration
from support.translations import MODEL, TRAINING, write_translations

from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.trainer.preflight import check

STOCK = ("--criterion", "masked_lm", "--disable-validation")


def turned(data: Path, folder: Path, *names: str) -> Path:
    """The data with the lines of its dictionaries in another order."""
    shutil.copytree(data, folder)
    for name in names or ("dict.txt",):
        lines = (data / name).read_text().splitlines()
        (folder / name).write_text("\n".join(lines[::-1]) + "\n")
    return folder


@pytest.fixture(scope="module")
def start(data_bin, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("start")
    run_command(training(data_bin, folder, *STOCK, "--max-update", 1))
    return folder / "checkpoint_last.pt"


@pytest.fixture(scope="module")
def other(binarized, tmp_path_factory) -> Path:
    return turned(binarized, tmp_path_factory.mktemp("other") / "data-bin")


@pytest.mark.parametrize("flag", ["--finetune-from-model", "--restore-file", "--continue-once", "--save-dir"])
def test_a_training_with_another_dictionary_is_refused(flag, start, other, tmp_path):
    value = shutil.copytree(start.parent, tmp_path / "run") if flag == "--save-dir" else start
    run = training(other, tmp_path / "run", *STOCK, flag, value, "--max-update", 3)
    result = run_command(run, check=False)
    assert_one_line(result, "was trained with another vocabulary (fingerprint ")
    assert f"than that of {other} (" in result.stderr


def test_a_checkpoint_that_does_not_tell_its_dictionary_is_accepted(start, other, tmp_path):
    import torch

    state = content(start)
    told = state["extra_state"].pop("vocabulary")
    torch.save(state, tmp_path / "stock.pt")
    run_command(training(other, tmp_path, *STOCK, "--finetune-from-model", tmp_path / "stock.pt", "--max-update", 1))
    assert content(tmp_path / "checkpoint_last.pt")["extra_state"]["vocabulary"] != told


def test_parts_of_the_data_have_one_dictionary(binarized, other):
    with pytest.raises(TrueNegError, match=f"{other}: has another dictionary than {binarized}; binarize all parts"):
        check(configuration(f"{binarized}:{other}", *STOCK))


def test_the_second_dictionary_of_a_translation(tmp_path):
    data = write_translations(tmp_path / "data")
    other = turned(data, tmp_path / "other", "dict.en.txt")
    command = ("--task", "translation", *MODEL, *TRAINING, "--disable-validation", "--max-update", 1)
    run_command(fairseq_train(data, "--user-dir", PLUGIN, *command, "--save-dir", tmp_path / "run"))
    again = fairseq_train(other, "--user-dir", PLUGIN, *command, "--save-dir", tmp_path / "run", "--max-update", 2)
    assert_one_line(run_command(again, check=False), "with another target vocabulary")
