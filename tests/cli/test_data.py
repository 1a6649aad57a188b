"""`truneg data` and the scripts of data-bin-scripts/, which are the same."""

from __future__ import annotations

import runpy
import sys

import pytest
from support.commands import REPOSITORY

from truneg_fairseq.commands.data import COMMANDS
from truneg_fairseq.commands.main import main

SCRIPTS = REPOSITORY / "data-bin-scripts"
STEPS = [name for name in COMMANDS if name not in ("", "counts")]
NAMES = {"text": "extract_corpus", "wordpiece": "train_wordpiece"}
"""The scripts that have another name than their step."""


def help_of(capsys, run, *arguments: str) -> str:
    with pytest.raises(SystemExit) as ended:
        run(*arguments)
    assert ended.value.code == 0
    usage, _, rest = capsys.readouterr().out.partition("\n\n")
    assert usage.startswith("usage: ")
    return rest


@pytest.mark.parametrize("step", STEPS)
def test_a_script_is_a_step(step, capsys, monkeypatch):
    script = SCRIPTS / f"{NAMES.get(step, step.replace('-', '_'))}.py"
    monkeypatch.setattr(sys, "argv", [script.name, "--help"])
    of_script = help_of(capsys, lambda: runpy.run_path(str(script), run_name="__main__"))
    assert help_of(capsys, main, ["data", step, "--help"]) == of_script
    assert "--output" in of_script


def test_every_script_is_a_step_or_wordnet():
    names = {NAMES.get(step, step.replace("-", "_")) for step in STEPS}
    assert {path.stem for path in SCRIPTS.glob("*.py")} == names | {"get_wordnet"}
