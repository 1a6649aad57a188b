"""The one mechanism for options: flags from dataclasses, ranges and choices checked in one place."""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.flags import add_arguments, check, from_arguments, option


@dataclass(kw_only=True)
class Example:
    files: list[Path] = option(help="texts", positional=True)
    rate: float = option(0.5, help="a share of 100 %", gt=0, le=1)
    count: int = option(3, help="how many", ge=1)
    kind: str = option("fast", help="which", choices=("fast", "slow"))
    sizes: list[int] = option(default_factory=lambda: [8], help="sizes", ge=1)
    name: str | None = option(None, help="a name")
    dry: bool = option(False, help="do nothing")


def parse(*words: str) -> Example:
    parser = argparse.ArgumentParser()
    add_arguments(parser, Example)
    return from_arguments(Example, parser.parse_args(words))


def test_flags_have_the_types_and_defaults_of_the_fields():
    assert parse("a", "b") == Example(files=[Path("a"), Path("b")])
    words = ("a", "--rate", "1", "--sizes", "1", "2", "--sizes", "4", "--name", "n", "--dry", "--kind", "slow")
    assert parse(*words) == Example(files=[Path("a")], rate=1.0, sizes=[1, 2, 4], name="n", dry=True, kind="slow")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--rate", "0"], "--rate 0.0: expected a finite number > 0 and <= 1"),
        (["--rate", "nan"], "--rate nan: expected a finite number > 0 and <= 1"),
        (["--count", "0"], "--count 0: expected a number >= 1"),
        (["--sizes", "2", "0"], "--sizes 0: expected a number >= 1"),
    ],
)
def test_a_value_out_of_range_names_flag_value_and_range(words, message):
    with pytest.raises(TrueNegError) as refused:
        parse("a", *words)
    assert str(refused.value) == message


def test_a_wrong_choice_of_any_source_names_the_choices():
    with pytest.raises(TrueNegError, match=r"^--kind other: expected fast or slow$"):
        check(Example(files=[], kind="other"))


@given(st.floats())
def test_exactly_the_numbers_in_the_range_pass(rate):
    try:
        check(Example(files=[], rate=rate))
        passes = True
    except TrueNegError:
        passes = False
    assert passes == (math.isfinite(rate) and 0 < rate <= 1)
