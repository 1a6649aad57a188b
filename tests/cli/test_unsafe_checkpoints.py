"""A checkpoint that would run code when it is loaded: no command does it that favour."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from support.cli_runs import assert_one_line, training
from support.commands import run_command

from truneg_fairseq.commands.main import main

COMMANDS = {
    "evaluate": "evaluate evil.pt --data bin --task held-out=valid",
    "explain": "explain car --checkpoint evil.pt --data bin",
    "convert": "convert evil.pt folder",
    "predict": "predict evil.pt dev.tsv",
}


class Evil:
    """Makes a file where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return Path.touch, (self.path,)


@pytest.fixture
def trap(tmp_path, monkeypatch) -> Path:
    """The file that must not appear; evil.pt beside it. The variable makes torch load everything by default."""
    trap = tmp_path / "trap"
    torch.save({"model": {}, "cfg": Evil(trap), "optimizer_history": []}, tmp_path / "evil.pt")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    with pytest.warns(UserWarning, match="forcing weights_only=False"):
        torch.load("evil.pt")
    trap.unlink()
    return trap


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_run_no_code(command, trap, capsys):
    with pytest.raises(SystemExit, match=r"evil.pt: cannot be read \(it needs \w+, which is not safe to load\)"):
        main(COMMANDS[command].split())
    assert not trap.exists()


def test_the_hub_runs_no_code(trap, tmp_path):
    from truneg_fairseq.errors import TrueNegError
    from truneg_fairseq.models.bert import BertModel

    (tmp_path / "run").mkdir()
    (tmp_path / "evil.pt").rename(tmp_path / "run" / "checkpoint_last.pt")
    with pytest.raises(TrueNegError, match=r"from_pretrained: .*; run truneg convert CKPT.pt DIR"):
        BertModel.from_pretrained("run", "checkpoint_last.pt", "bin")
    assert not trap.exists()


@pytest.mark.parametrize("flag", ["--finetune-from-model", "--restore-file"])
def test_trainings_run_no_code(flag, trap, tmp_path, data_bin):
    command = training(data_bin, tmp_path / "run", "--criterion", "masked_lm", flag, tmp_path / "evil.pt")
    result = run_command(command, check=False, env={"TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1"})
    assert_one_line(result, "which is not safe to load")
    assert not trap.exists()
