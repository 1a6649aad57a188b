"""`truneg memory`: the formula that tests/models/test_memory.py measures, for an architecture and a batch."""

from __future__ import annotations

import re

import pytest
from support.commands import run_command, truneg

from truneg_fairseq.commands.main import main

SMALL = ("memory", "--arch", "electra_small", "--batch-size", "128", "--tokens-per-sample", "128")


def gigabytes(capsys, *flags: str) -> list[float]:
    main([*SMALL, *flags])
    return [float(number) for number in re.findall(r"([\d.]+) GB", capsys.readouterr().out)]


def test_the_numbers_are_the_formula_s(capsys):
    assert gigabytes(capsys)[:2] == [0.17, 5.90]
    assert gigabytes(capsys, "--bf16")[:2] == [0.26, 4.20]


@pytest.mark.parametrize("flag", ["--sr-word", "--sr-sent"])
def test_what_is_more_takes_more(flag, capsys):
    held, peak, fused = gigabytes(capsys)
    assert held < fused < peak
    more = gigabytes(capsys, flag)
    assert more[0] == held
    assert more[1] > peak or flag == "--sr-word"
    assert gigabytes(capsys, "--mask-prob", "0.3")[1] > peak
    assert gigabytes(capsys, "--vocabulary-size", "300")[0] < held
    assert gigabytes(capsys, "--update-freq", "16")[1] == pytest.approx(peak + held / 3, abs=0.02)  # 4 bytes of 12


def test_bert_base_has_its_parameters():
    # Devlin et al. (2019) with the pooler: 109,482,240; this masked LM has a head in its place.
    told = run_command(truneg("memory", "--arch", "bert_base", "--batch-size", 1)).stdout
    pooler = 768 * 769
    head = 768 * 769 + 2 * 768 + 30_522
    assert f"{109_482_240 - pooler + head:,} parameters" in told


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--arch", "roberta_base"), "--arch: found 'roberta_base', expected one of bert"),
        (("--batch-size", "0"), "--batch-size: found 0, expected a number >= 1"),
        (("--update-freq", "0"), "--update-freq: found 0, expected a number >= 1"),
        (("--mask-prob", "1.5"), "--mask-prob: found 1.5, expected a share"),
    ],
)
def test_bad_input_is_one_line(flags, message):
    with pytest.raises(SystemExit, match=re.escape(message)):
        main([*SMALL, *flags])
