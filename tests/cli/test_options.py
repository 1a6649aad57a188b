"""Options of the truneg command that its subcommands share."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import pytest

from truneg_fairseq.commands.main import build_parser, main


def options(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.Action]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                yield from options(each)
        elif action.option_strings:
            yield f"{parser.prog} {action.option_strings[-1]}", action


def test_an_option_with_several_values_may_be_given_several_times():
    several = {name: action for name, action in options(build_parser()) if action.nargs == "+"}
    assert {"truneg data binarize --train", "truneg glue train --tasks", "truneg experiment --only"} <= several.keys()
    for name, action in several.items():
        found, flag = argparse.Namespace(), action.option_strings[-1]
        alone = argparse.ArgumentParser()
        alone._add_action(action)
        value = str(action.choices[0] if action.choices else 1)
        alone.parse_args([flag, value, flag, value, value], found)
        assert len(getattr(found, action.dest)) == 3, f"{name} keeps the last ones only, or its default too"


@pytest.mark.parametrize(
    "command",
    [
        ("compare", "F.svg", "--json", "F.svg"),
        ("compare", "F.svg", "--picture", "F.svg"),
        ("explain", "--checkpoint", "F.svg", "--data", ".", "--html", "F.svg"),
        ("explain", "--checkpoint", "c.pt", "--data", ".", "--file", "F.svg", "--json", "F.svg"),
        ("inspect", "--checkpoint", "F.svg", "--data", ".", "--json", "F.svg"),
        ("inspect", "--checkpoint", "c.pt", "--data", ".", "--synonym-table", "F.svg", "--json", "./F.svg"),
        ("report", ".", "--results", "F.svg", "--output", "F.svg"),
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
