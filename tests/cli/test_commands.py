"""The list of commands, the scripts that are commands, and how commands end: one line for whatever happens, by name."""

from __future__ import annotations

import errno
import os
import re
import runpy
import sys
import warnings

import pytest
from support.commands import REPOSITORY

from truneg_fairseq.commands.main import COMMANDS, build_parser, main
from truneg_fairseq.commands.parser import NoOptions


def test_help_lists_every_command_once(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = capsys.readouterr().out
    assert all(len(re.findall(rf"^ {{4}}{name}\b", shown, re.MULTILINE)) == 1 for name in COMMANDS)
    for words in ([], ["help"]):
        main(words)
        assert capsys.readouterr().out == shown


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_help(name, capsys):
    with pytest.raises(SystemExit) as caught:
        build_parser().parse_args([name, "--help"])
    assert caught.value.code == 0
    assert f"usage: truneg {name} " in capsys.readouterr().out


def test_train_shows_the_options_of_its_criterion(capsys):
    """Those of the paper first; each with its own default."""
    main(["train", "--criterion", "masked_lm_hc", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "(default: 1.0; >= 0 and <= 1)" in shown
    assert "'fairseq-train --help' lists fairseq's own options" in shown
    assert shown.index("--hc-weight") < shown.index("for research:") < shown.index("--softmax-temperature")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["train"], "--arch: found none; expected a model"),
        (["train", "data", "--criterion", "masked_lm_hc"], "--arch: found none"),
        (["train", "--help", "--criterion=masked_lm_h"], "masked_lm_h: expected one of .*masked_lm_hc.*electra"),
    ],
)
def test_a_training_that_lacks_something_is_one_line(words, line):
    with pytest.raises(SystemExit, match=line):
        main(words)


def help_of(capsys, run, *arguments: object) -> str:
    with pytest.raises(SystemExit) as ended:
        run(*arguments)
    assert ended.value.code == 0
    usage, _, rest = capsys.readouterr().out.partition("\n\n")
    assert usage.startswith("usage: ")
    return rest


@pytest.mark.parametrize("name", ["binarize", "prepare"])
def test_a_script_is_a_step(name, capsys, monkeypatch):
    script = str(REPOSITORY / "data-bin-scripts" / f"{name}.py")
    monkeypatch.setattr(sys, "argv", [script, "--help"])
    of_script = help_of(capsys, lambda: runpy.run_path(script, run_name="__main__"))
    assert help_of(capsys, main, ["data", name, "--help"]) == of_script
    assert "--output" in of_script


def end_of(monkeypatch, error: BaseException, *words: str) -> object:
    def fail(options: NoOptions) -> None:
        raise error

    monkeypatch.setitem(COMMANDS, "fail", fail)
    with pytest.raises(SystemExit) as caught:
        main(words or ["fail"])
    return caught.value.code


def test_unforeseen_errors_are_one_line_without_traceback(monkeypatch, capsys):
    code = end_of(monkeypatch, IndexError("list index out of range"))
    assert code == (
        "truneg_fairseq: error: IndexError: list index out of range; run the same command with --traceback to see "
        "where it arose"
    )
    assert "Traceback" not in capsys.readouterr().err
    for words in (("--traceback", "fail"), ("fail", "--traceback")):
        end_of(monkeypatch, IndexError("x"), *words)
        assert "Traceback" in capsys.readouterr().err
    denied = OSError(errno.EACCES, os.strerror(errno.EACCES), "a/b")
    assert end_of(monkeypatch, denied) == "truneg_fairseq: error: a/b: Permission denied"
    assert end_of(monkeypatch, KeyboardInterrupt()) == 130


@pytest.mark.parametrize(
    "command",
    [
        "compare F.svg --picture F.svg",
        "compare name=F.svg --html F.svg",
        "evaluate none.pt --task cloze=F.svg --html F.svg",
        "explain --checkpoint c.pt --data . --file F.svg --json F.svg",
        "explain --checkpoint c.pt --data . --synonym-table F.svg --json link.svg",
    ],
)
def test_no_input_is_overwritten(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "F.svg"
    path.write_text('{"model": "a", "task": "CoLA", "seed": 1, "metrics": {"matthews": 0.5}}\n')
    (tmp_path / "link.svg").symlink_to(path)
    before = path.read_bytes()
    with pytest.raises(SystemExit, match=r"\w+\.svg: is the file of -?-?[A-Za-z-]+ too; expected different files"):
        main(command.split())
    assert path.read_bytes() == before


def test_a_closed_stdout_is_one_line(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)  # as `truneg user-dir >&-` has it
    with pytest.raises(SystemExit, match="stdout: is closed; expected an open one"):
        main(["user-dir"])


@pytest.mark.parametrize("arguments", [["synonmys"], ["user-dir", "here"], ["synonyms", "build"], ["doctor", "--no"]])
def test_wrong_command_lines_exit_with_2(capsys, arguments):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "error: " in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    ["compare r.jsonl --json", "compare r.jsonl --picture", "explain car --checkpoint none.pt --data bin --json"],
)
def test_outputs_that_cannot_be_written_are_told_first(command, tmp_path, monkeypatch):
    """Before any input, none of which is there, is looked for."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    output = "file/out.svg"
    with pytest.raises(SystemExit) as caught:
        main([*command.split(), output])
    assert f"{command.split()[-1]} {output}" in str(caught.value)
    assert "cannot be written" in str(caught.value) or "is not a folder" in str(caught.value)


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
