"""Text through datatrove's pipelines: what the example cleans away, and the format on both sides."""

from __future__ import annotations

import gzip
import json
import random
import sys

import pytest
from support.cli_runs import assert_one_line
from support.commands import REPOSITORY, run_command

pytest.importorskip("datatrove")

SCRIPT = REPOSITORY / "user_dir_examples" / "data" / "clean.py"
WORDS = "the of and to in garden window teacher morning river letter quiet yellow walked answered table under".split()


def make_document(seed: int) -> list[str]:
    """Three paragraphs of 30 words, which Gopher's rules accept."""
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=30)) + "." for _ in range(3)]


@pytest.mark.slow
def test_short_repeated_and_evaluated_documents_go_and_the_others_stay_as_they_are(tmp_path):
    good = [make_document(seed) for seed in range(8)]
    nearly = [*good[2][:2], good[2][2].replace(".", " .")]  # other marks alone
    measured, table = make_document(20), make_document(21)
    question = {"data": [{"paragraphs": [{"context": f"Context: {measured[1]}"}]}]}
    (tmp_path / "dev.json.gz").write_bytes(gzip.compress(json.dumps(question).encode()))
    (tmp_path / "dev.tsv").write_text(f"index\tsentence\n0\t{table[2]}\n")
    (tmp_path / "text").mkdir()
    repeated = ["the river of the garden and the river"] * 12
    bad = [make_document(22)[:1], repeated, measured, table, nearly]
    for name, documents in {"a": good[:4], "b": bad, "c": good[4:]}.items():
        lines = "".join("".join(f"{line}\n" for line in (*each, "")) for each in documents)
        (tmp_path / "text" / f"{name}.txt").write_text(lines)
    evaluations = ("--evaluations", tmp_path / "dev.json.gz", tmp_path / "dev.tsv")
    command = [sys.executable, SCRIPT, "--text", tmp_path / "text", "--output-dir", tmp_path / "clean", *evaluations]
    done = run_command(command)
    left = "".join(path.read_text() for path in sorted((tmp_path / "clean").iterdir()))
    assert left == "".join("".join(f"{line}\n" for line in (*each, "")) for each in good)
    assert f"{tmp_path / 'clean'}: 8 of 13 documents" in done.stdout
    for line in ("2 dropped: contaminated", "1 dropped: gopher_short_doc", "1 dropped: near duplicates"):
        assert line in done.stdout.splitlines()
    assert not (tmp_path / "clean.parts").exists()
    assert_one_line(run_command(command, check=False), f"--output-dir {tmp_path / 'clean'}: is already there")
