"""The list of commands, and the options of criterions."""

from __future__ import annotations

import pytest

from truneg_fairseq.commands.main import COMMANDS, GROUPS, build_parser, main


@pytest.mark.parametrize("words", [[], ["help"], ["--help"]])
def test_help_lists_every_command_once(words, capsys):
    if words == ["--help"]:
        with pytest.raises(SystemExit):
            main(words)
    else:
        main(words)
    shown = capsys.readouterr().out
    assert len(COMMANDS) == sum(map(len, GROUPS.values()))
    assert all(shown.count(f"\n  {name} ") == 1 for name in COMMANDS)
    assert all(f"\n{group}:\n" in shown for group in GROUPS)
    assert max(map(len, shown.splitlines())) <= 100


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_help(name, capsys):
    with pytest.raises(SystemExit) as caught:
        build_parser().parse_args([name, "--help"])
    assert caught.value.code == 0
    assert f"usage: truneg {name} " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["compar"], "did you mean compare?"),
        (["compare", "r.jsonl", "--basline", "x"], "--basline; did you mean --baseline?"),
        (["compare", "r.jsonl", "--format", "markdwn"], "did you mean markdown?"),
    ],
)
def test_a_slip_is_answered_with_what_was_meant(words, line, capsys):
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2
    assert line in capsys.readouterr().err


def test_a_shell_completes_commands_and_flags(capsys):
    pytest.importorskip("shtab")
    main(["--print-completion", "bash"])
    shown = capsys.readouterr().out
    assert "--baseline" in shown and "experiment" in shown


def test_train_shows_the_options_of_its_criterion(capsys):
    """Those of the paper first; each with its own default."""
    main(["train", "--criterion", "masked_lm_hc", "--help"])
    shown = capsys.readouterr().out
    assert "--hc-weight  (default: 1.0; >= 0 and <= 1)\n" in shown
    assert "'fairseq-train --help' lists fairseq's own options" in shown
    assert shown.index("--hc-weight") < shown.index("For research:") < shown.index("--softmax-temperature")
    assert max(map(len, shown.splitlines())) <= 100


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
