"""Options of the truneg command that its subcommands share."""

from __future__ import annotations

import pytest

from truneg_fairseq.commands.main import main


@pytest.mark.parametrize(
    "command",
    [
        ("compare", "F.svg", "--json", "F.svg"),
        ("compare", "F.svg", "--picture", "F.svg"),
        ("explain", "--checkpoint", "F.svg", "--data", ".", "--html", "F.svg"),
        ("explain", "--checkpoint", "c.pt", "--data", ".", "--file", "F.svg", "--json", "F.svg"),
        ("inspect", "--checkpoint", "F.svg", "--data", ".", "--json", "F.svg"),
        ("inspect", "--checkpoint", "c.pt", "--data", ".", "--synonym-table", "F.svg", "--json", "./F.svg"),
        ("data", "train-wordpiece", "--inputs", "F.svg", "--output", "./F.svg", "--vocab-size", "60"),
    ],
)
def test_no_input_is_overwritten(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "F.svg"
    path.write_text('{"model": "a", "task": "CoLA", "seed": 1, "metrics": {"matthews": 0.5}}\n')
    before = path.read_bytes()
    with pytest.raises(SystemExit, match=r"F.svg: is the file of (-?-?[A-Za-z-]+) too; expected different files"):
        main(list(command))
    assert path.read_bytes() == before
