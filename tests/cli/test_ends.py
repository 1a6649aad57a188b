"""How commands end: one line for whatever happens, by name."""

import errno
import gc
import io
import sys
import warnings

import pytest
from truneg_fairseq.commands.terminal import spell_for_terminal

from truneg_fairseq.commands import compare
from truneg_fairseq.commands.main import main

COMPARE = ["compare", "r.jsonl"]


def end_of(monkeypatch, error: BaseException, *arguments: str) -> object:
    def fail(args):
        path = args.results[0]
        assert path
        raise error

    monkeypatch.setattr(compare, "run", fail)
    with pytest.raises(SystemExit) as caught:
        main([*arguments, *COMPARE])
    return caught.value.code


def test_what_nobody_foresaw_is_one_line_with_the_file(monkeypatch, capsys):
    code = end_of(monkeypatch, IndexError("list index out of range"))
    assert code == (
        "truneg_fairseq: error: IndexError: list index out of range while r.jsonl was in use; this was not foreseen: "
        "please report it with what the same command prints with --traceback"
    )
    assert "Traceback" not in capsys.readouterr().err
    end_of(monkeypatch, IndexError("x"), "--traceback")
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (errno.EACCES, "a/b: Permission denied; change its permissions"),
        (errno.ENAMETOOLONG, "a/b: File name too long; give it a shorter name"),
        (errno.ENOTDIR, "a/b: Not a directory; a file is where a folder should be"),
        (errno.EISDIR, "a/b: Is a directory; a folder is where a file should be"),
        (errno.ENOSPC, "a/b: No space left on device; free space there"),
        (errno.ENOENT, "a/b: No such file or directory; check the name"),
    ],
)
def test_the_systems_errors_are_told_by_name(monkeypatch, number, message):
    import os

    assert message in end_of(monkeypatch, OSError(number, os.strerror(number), "a/b"))
    assert "r.jsonl: " in end_of(monkeypatch, OSError(number, os.strerror(number)))  # of a stream, without a name


def test_memory_interrupts_and_closed_pipes(monkeypatch, capfd):
    assert "not enough memory while r.jsonl was in use" in end_of(monkeypatch, MemoryError())
    gc.unfreeze()
    assert end_of(monkeypatch, KeyboardInterrupt()) == 130
    assert gc.get_freeze_count(), "Python's end looks through all that was imported, for seconds"
    gc.unfreeze()


def test_a_closed_stdout_is_one_line(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(SystemExit, match="stdout: is closed; expected an open one"):
        main(["user-dir"])


@pytest.mark.parametrize("asked", [False, True])
def test_warnings_of_other_packages_are_shown_where_they_are_asked_for(monkeypatch, asked):
    monkeypatch.setattr(compare, "run", lambda args: warnings.warn("pin_memory", UserWarning, stacklevel=1))
    monkeypatch.setattr(sys, "warnoptions", ["default"] if asked else [])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        main(COMPARE)
    assert len(caught) == asked


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["synonmys"], "did you mean 'synonyms'?"),
        (["data", "binarise"], "did you mean 'binarize'?"),
        (
            ["synonyms", "show", "big", "--neighbors", "3"],
            "truneg synonyms show: error: unrecognized arguments: --neighbors 3; did you mean --neighbours?",
        ),
        (["user-dir", "here"], "truneg user-dir: error: unrecognized arguments: here\n"),
        (["synonyms", "compare", "--seed", "-1"], "argument --seed"),
        (["attack", "squad", "--seed", "100000000000000000000"], "expected a whole number from 0 to 2147483647"),
        (["memory", "--batch-size", "9" * 5_000], "expected a whole number from 0"),
        (["memory", "--batch-size", "1", "--mask-prob", "nan"], "'nan': expected a finite number"),
    ],
)
def test_command_lines_are_checked(capsys, arguments, message):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("encoding", "errors"), [("ascii", "strict"), ("ascii", "surrogateescape"), ("latin-1", "strict")]
)
def test_terminals_without_arrows(encoding, errors):
    """Python's stdout takes surrogateescape in the locale C."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors=errors)
    spell_for_terminal(stream)
    stream.write("↑0.6 ± 0.1 Δ ☃")
    stream.flush()
    plus = "+-" if encoding == "ascii" else "±"
    assert stream.buffer.getvalue().decode(encoding) == f"^0.6 {plus} 0.1 diff. \\u2603"


def test_the_real_stdout_of_tests_is_left_alone():
    spell_for_terminal(sys.stdout)


OUTPUTS = """
compare r.jsonl --json
compare r.jsonl --picture
inspect --checkpoint none.pt --data bin --json
inspect --checkpoint none.pt --data bin --csv
inspect --checkpoint none.pt --data bin --sheet
inspect --checkpoint none.pt --data bin --picture
explain car --checkpoint none.pt --data bin --html
explain car --checkpoint none.pt --data bin --json
lexsub none.pt --data bin --judgements j.json --results
synonyms stats t.npz --picture
synonyms stats t.npz --json
squad predict --checkpoint none.pt --data d.json --output
glue --checkpoint none.pt --data . --output
attack score p.json --original-predictions a --transformed-predictions b --model m --seed 1 --results
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


@pytest.mark.parametrize("command", ["compare r.jsonl", "inspect --checkpoint none.pt --data bin", "synonyms stats t"])
def test_pictures_are_svg(command):
    with pytest.raises(SystemExit, match=r"--picture x.png: expected a file name that ends with .svg"):
        main([*command.split(), "--picture", "x.png"])


@pytest.mark.parametrize(
    "command",
    """
    convert to-hf hf out
    inspect --checkpoint hf --data bin
    explain car --checkpoint hf --data bin
    squad predict --checkpoint hf --data d.json --output answers.json
    glue predict --checkpoint hf --data dev.tsv
    """.strip().split("\n"),
)
def test_a_hugging_face_folder_is_told_how_to_become_a_checkpoint(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hf").mkdir()
    with pytest.raises(SystemExit, match=r"hf: is a folder, expected a fairseq checkpoint"):
        main(command.split())
    (tmp_path / "hf" / "config.json").write_text("{}")
    with pytest.raises(SystemExit, match=r"hf: is a Hugging Face model, .*; convert it: truneg convert from-hf hf"):
        main(command.split())
