"""How commands end: one line for whatever happens, by name."""

import errno
import os
import sys
import warnings

import pytest

from truneg_fairseq.commands.main import COMMANDS, main
from truneg_fairseq.commands.parser import NoOptions


def end_of(monkeypatch, error: BaseException, *arguments: str) -> object:
    def fail(options: NoOptions) -> None:
        raise error

    monkeypatch.setitem(COMMANDS, "fail", fail)
    with pytest.raises(SystemExit) as caught:
        main([*arguments, "fail"])
    return caught.value.code


def test_unforeseen_errors_are_one_line_without_traceback(monkeypatch, capsys):
    code = end_of(monkeypatch, IndexError("list index out of range"))
    assert code == (
        "truneg_fairseq: error: IndexError: list index out of range; run the same command with --traceback to see "
        "where it arose"
    )
    assert "Traceback" not in capsys.readouterr().err
    end_of(monkeypatch, IndexError("x"), "--traceback")
    assert "Traceback" in capsys.readouterr().err
    denied = OSError(errno.EACCES, os.strerror(errno.EACCES), "a/b")
    assert end_of(monkeypatch, denied) == "truneg_fairseq: error: a/b: Permission denied"


def test_interrupts(monkeypatch):
    assert end_of(monkeypatch, KeyboardInterrupt()) == 130


@pytest.mark.parametrize("asked", [False, True])
def test_warnings_of_other_packages_are_shown_where_they_are_asked_for(monkeypatch, asked):
    def warn(options: NoOptions) -> None:
        warnings.warn("pin_memory", UserWarning, stacklevel=1)

    monkeypatch.setitem(COMMANDS, "warn", warn)
    monkeypatch.setattr(sys, "warnoptions", ["default"] if asked else [])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        main(["warn"])
    assert len(caught) == asked


@pytest.mark.parametrize(
    "command",
    [
        "compare F.svg --json F.svg",
        "compare F.svg --picture F.svg",
        "explain --checkpoint F.svg --data . --html F.svg",
        "explain --checkpoint c.pt --data . --file F.svg --json F.svg",
        "explain --checkpoint c.pt --data . --synonym-table F.svg --json ./F.svg",
        "data wordpiece --inputs F.svg --output ./F.svg --vocab-size 60",
    ],
)
def test_no_input_is_overwritten(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "F.svg"
    path.write_text('{"model": "a", "task": "CoLA", "seed": 1, "metrics": {"matthews": 0.5}}\n')
    before = path.read_bytes()
    with pytest.raises(SystemExit, match=r"F.svg: is the file of (-?-?[A-Za-z-]+) too; expected different files"):
        main(command.split())
    assert path.read_bytes() == before


@pytest.mark.parametrize("arguments", [["synonmys"], ["user-dir", "here"], ["synonyms", "build"], ["doctor", "--no"]])
def test_wrong_command_lines_exit_with_2(capsys, arguments):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "error: " in capsys.readouterr().err


OUTPUTS = """
compare r.jsonl --json
compare r.jsonl --picture
explain car --checkpoint none.pt --data bin --json
explain car --checkpoint none.pt --data bin --html
report run --output
"""


@pytest.mark.parametrize("command", OUTPUTS.strip().split("\n"))
def test_outputs_that_cannot_be_written_are_told_first(command, tmp_path, monkeypatch):
    """Before any input, none of which is there, is looked for."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    output = "file/out.svg"
    with pytest.raises(SystemExit) as caught:
        main([*command.split(), output])
    assert f"{command.split()[-1]} {output}" in str(caught.value)
    assert "cannot be written" in str(caught.value) or "is not a folder" in str(caught.value)
