"""fairseq's loggers for the runs of a fine-tuning."""

from __future__ import annotations

import importlib.util

import pytest

from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.finetuning.run import Loggers


@pytest.mark.parametrize("package", ["tensorboard", "wandb"])
def test_a_logger_that_is_not_installed_is_refused(package, tmp_path, monkeypatch):
    options = {"tensorboard": {"tensorboard_logdir": tmp_path}, "wandb": {"wandb_project": "p"}}[package]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else "found")
    flag = f"--{next(iter(options)).replace('_', '-')}"
    with pytest.raises(TrueNegError, match=f"^{flag}: needs the package {package}; run pip install {package}$"):
        Loggers(**options)
    assert Loggers().flags("model", "CoLA seed 1") == []


def test_a_run_is_told_apart_by_its_name(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: "found")
    board = ["--tensorboard-logdir", tmp_path / "m" / "CoLA-seed-1"]
    assert Loggers(tmp_path, "p").flags("m", "CoLA seed 1") == [*board, "--wandb-project", "p"]
