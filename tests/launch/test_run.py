"""One training in its folder: how its end is reported, and what is left; a stub stands for the process."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.experiments import evaluation
from truneg_fairseq.fairseq_runs.stopping import EXIT_DIVERGED, EXIT_STOPPED
from truneg_fairseq.launch import training_run as runs
from truneg_fairseq.launch.process import PRECISIONS
from truneg_fairseq.launch.training_run import Diverged, TrainingRun

KILLED = -9


@dataclass(frozen=True, kw_only=True)
class Tiny(TrainingRun):
    lr: float = 1e-3

    @property
    def name(self) -> str:
        return "tiny"

    @property
    def settings(self) -> dict[str, Any]:
        return {"lr": self.lr}

    @property
    def own_flags(self) -> list[object]:
        return ["data", "--lr", self.lr]


def play(monkeypatch: pytest.MonkeyPatch, printed: str, code: int, *files: str) -> None:
    """The next processes print this, leave these files and end with this code."""

    def run(_: object, *, log: Path, **__: object) -> int:
        with log.open("a") as stream:
            stream.write(printed)
        for name in files:
            (log.parent / name).touch()
        return code

    monkeypatch.setattr(runs, "run_logged", run)
    monkeypatch.setattr(evaluation, "call_logged", run)


def tiny(folder: Path, lr: float = 1e-3, precision: str = "fp32") -> Tiny:
    return Tiny(seed=1, folder=folder, precision=precision, lr=lr)


def train(folder: Path, lr: float = 1e-3) -> None:
    tiny(folder, lr).train(lambda updates: None)


def test_a_run_that_diverged_is_trained_with_a_lower_lr_and_explains_no_kill(tmp_path, monkeypatch):
    play(monkeypatch, "", EXIT_DIVERGED, "checkpoint_last.pt", "crash.pt")
    with pytest.raises(Diverged, match=r"lower --lr"):
        train(tmp_path, lr=1.0)
    assert not list(tmp_path.glob("*.pt"))
    play(monkeypatch, "begin training\n", KILLED, "checkpoint_last.pt", "crash.pt")
    with pytest.raises(TrueNegError, match=r"failed \(exit code -9, the log ends with: begin training\)") as caught:
        train(tmp_path)
    assert not isinstance(caught.value, Diverged)
    assert (tmp_path / "checkpoint_last.pt").exists()
    play(monkeypatch, "", 0, "checkpoint_last.pt", "finished.json")
    train(tmp_path)
    with pytest.raises(TrueNegError, match=r"was made with lr 0.001 \(now 1.0\); give the same options"):
        train(tmp_path, lr=1.0)


def test_checkpoints_of_another_training_are_left_alone(tmp_path, monkeypatch):
    """Continued they would be reported as this run; after one that diverged they would be gone."""
    play(monkeypatch, "", EXIT_DIVERGED)
    (tmp_path / "checkpoint_best.pt").write_text("pre-trained")
    with pytest.raises(TrueNegError, match=r"has checkpoints of another training; choose another --output"):
        train(tmp_path)
    assert [path.name for path in tmp_path.glob("[!.]*")] == ["checkpoint_best.pt"]


def test_a_second_command_leaves_the_settings_of_the_first(tmp_path, monkeypatch):
    """The first one has saved nothing yet; then the second one would go on with what it saves."""

    def run(_: object, *, log: Path, **__: object) -> int:
        with pytest.raises(TrueNegError, match="another command trains there"):
            train(tmp_path, lr=1e-4)
        assert json.loads((tmp_path / "settings.json").read_text()) == {"lr": 1e-3}
        assert not log.exists()
        (tmp_path / "checkpoint_last.pt").touch()
        return EXIT_STOPPED

    monkeypatch.setattr(runs, "run_logged", run)
    with pytest.raises(TrueNegError, match="start again to go on"):
        train(tmp_path)
    with pytest.raises(TrueNegError, match=r"was made with lr 0.001 \(now 0.0001\)"):
        train(tmp_path, lr=1e-4)


def test_the_command_has_the_precision(tmp_path):
    by_fairseq = 'fairseq-train --user-dir "$(truneg user-dir)" --num-workers 0 data --lr'
    commands = {precision: tiny(tmp_path, precision=precision).command for precision in PRECISIONS}
    assert commands["fp32"].startswith(by_fairseq) and "--fp16" not in commands["fp32"]
    assert commands["fp16"] == f"{commands['fp32']} --fp16 --fp16-no-flatten-grads"
    # fairseq-train's own --bf16 asks for a TPU.
    assert commands["bf16"].startswith("python -m truneg_fairseq.launch.process bf16 --num-workers 0 data --lr")
    assert commands["bf16"].partition(" data ")[2] == commands["fp32"].partition(" data ")[2]


def evaluation_in(folder: Path, **fields: Any) -> evaluation.Evaluation:
    names = {"name": "lexsub", "model": folder / "model.pt", "folder": folder / "lexsub", **fields}
    return evaluation.Evaluation(settings={}, fine_tuning=partial(list), results=list, **names)


def evaluate(one: evaluation.Evaluation) -> None:
    run = SimpleNamespace(experiment=SimpleNamespace(data=Path()), cpu=True, user_dir=None)
    evaluation.evaluate_together([one], run, lambda: None, None)


def test_an_interrupted_evaluation_begins_anew_with_another_model(tmp_path, monkeypatch):
    (tmp_path / "model.pt").write_text("one")
    found = evaluation_in(tmp_path)
    # An earlier error does not explain a later kill.
    for printed, code, told in (
        ("truneg_fairseq: error: no such file\n", 1, r"\(no such file\)"),
        ("", KILLED, r"\(exit code -9\)"),
    ):
        play(monkeypatch, printed, code, "results.jsonl")
        with pytest.raises(TrueNegError, match=rf"lexsub: failed {told}"):
            evaluate(found)
    play(monkeypatch, "", 0)
    evaluate(found)
    assert (tmp_path / "lexsub/results.jsonl").exists(), "of the same model it goes on"
    (tmp_path / "model.pt").write_text("another")
    evaluate(found)
    assert not (tmp_path / "lexsub/results.jsonl").exists()
