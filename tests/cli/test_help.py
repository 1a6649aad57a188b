"""The list of commands, and the options of criterions."""

from __future__ import annotations

from dataclasses import fields

import pytest

from truneg_fairseq.commands.main import COMMANDS, GROUPS, build_parser, main
from truneg_fairseq.hf import TrueNegativeArguments
from truneg_fairseq.options import flag_of


def test_help_lists_at_most_twelve_commands_in_groups(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = capsys.readouterr().out
    listed = [name for group in GROUPS.values() for name in group]
    assert len(listed) <= 12
    assert all(f"\n  {name} " in shown for name in listed)
    assert all(f"\n{group}:\n" in shown for group in GROUPS)
    assert "lexsub" not in shown
    assert max(map(len, shown.splitlines())) <= 100


@pytest.mark.parametrize("name", ["user-dir", "wordnet", "doctor", "lexsub", "cloze", "pairs", "glue"])
def test_short_names_of_commands_still_work(name, capsys):
    assert name in COMMANDS
    with pytest.raises(SystemExit) as caught:
        build_parser().parse_args([name, "--help"])
    assert caught.value.code == 0
    assert f"usage: truneg {name} " in capsys.readouterr().out


def test_the_options_of_a_criterion_are_those_that_are_declared(capsys):
    main(["options", "transformers"])
    shown = [line for line in capsys.readouterr().out.splitlines() if line.startswith("--")]
    assert {line.split()[0] for line in shown} == {flag_of(each.name) for each in fields(TrueNegativeArguments)}
    assert "--hc-weight  (default: 0.0; >= 0 and <= 1)" in shown


def test_a_preset_criterion_has_its_own_default(capsys):
    main(["options", "masked_lm_hc"])
    shown = capsys.readouterr().out
    assert "--hc-weight  (default: 1.0; >= 0 and <= 1)\n" in shown
    assert max(map(len, shown.splitlines())) <= 100


def test_an_unknown_criterion_is_answered_with_those_there_are():
    with pytest.raises(SystemExit, match=r"masked_lm_h: expected one of .*masked_lm_hc.*electra"):
        main(["options", "masked_lm_h"])
