"""The list of commands, and the options of criterions."""

from __future__ import annotations

import json
from dataclasses import fields

import pytest

from truneg_fairseq.commands.main import COMMANDS, GROUPS, build_parser, main
from truneg_fairseq.hf import TrueNegativeArguments


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


@pytest.mark.parametrize("name", ["user-dir", "wordnet", "doctor", "alternatives", "lexsub", "cloze", "pairs", "glue"])
def test_short_names_of_commands_still_work(name, capsys):
    assert name in COMMANDS
    with pytest.raises(SystemExit) as caught:
        build_parser().parse_args([name, "--help"])
    assert caught.value.code == 0
    assert f"usage: truneg {name} " in capsys.readouterr().out


def test_the_options_of_a_criterion_are_those_that_are_declared(capsys):
    main(["options", "transformers", "--json", "-"])
    found = {each["name"]: each for each in json.loads(capsys.readouterr().out)}
    assert found.keys() == {each.name for each in fields(TrueNegativeArguments)}
    assert (found["hc_weight"]["default"], found["hc_weight"]["range"]) == ("0.0", ">= 0 and <= 1")


def test_a_preset_criterion_has_its_own_default(capsys):
    main(["options", "masked_lm_hc"])
    shown = capsys.readouterr().out
    assert "--hc-weight  (default: 1.0; >= 0 and <= 1)\n" in shown
    assert max(map(len, shown.splitlines())) <= 100


def test_an_unknown_criterion_is_answered_with_those_there_are():
    with pytest.raises(SystemExit, match=r"masked_lm_h: expected one of .*masked_lm_hc.*electra"):
        main(["options", "masked_lm_h"])
