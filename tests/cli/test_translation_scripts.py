"""The scripts of user_dir_examples/translation: from text to the scores of a comparison."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.commands import REPOSITORY, command_environment, run_command, truneg, write_sentences

SCRIPTS = REPOSITORY / "user_dir_examples" / "translation"


def run_script(name: str, *arguments: object) -> None:
    commands = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    command = ["bash", str(SCRIPTS / name), *map(str, arguments)]
    done = subprocess.run(command, env=command_environment(PATH=commands), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


@pytest.mark.slow
def test_an_arm_of_the_comparison_ends_with_a_line_that_compare_reads(wordnet, tmp_path):
    text, pairs, run = tmp_path / "text", tmp_path / "pairs", tmp_path / "both-3"
    text.mkdir()
    for seed, (split, count) in enumerate({"train": 120, "valid": 20, "test": 6, "test1": 5}.items()):
        for language in ("de", "en"):  # each sentence is its own translation
            write_sentences(text / f"{split}.{language}", count, seed)
    run_script("prepare.sh", text, "de", "en", pairs, 200)
    run_command(truneg("synonyms", "build", "--data", pairs / "dict.en.txt", "--output", pairs / "synonyms.npz"))
    run_command(truneg("alternatives", "--data", pairs / "dict.en.txt"))
    run_script("multi30k.sh", pairs, "both", 3, run, "--cpu", "--num-workers", 0, "--max-epoch", 1)
    assert len((run / "test.H").read_text().splitlines()) == 6
    printed = run_command([sys.executable, SCRIPTS / "scores.py", pairs, run]).stdout
    line = json.loads(printed.splitlines()[-1])
    assert (line["model"], line["task"], line["seed"]) == ("both", "Multi30k", 3)
    valid = [json.loads(row)["values"] for row in (run / "metrics.jsonl").read_text().splitlines() if '"valid"' in row]
    assert line["metrics"]["bits"] == pytest.approx(float(valid[-1]["nll_loss"]), abs=2e-3)
    assert line["metrics"].keys() >= {"bleu_test2016", "chrf_test2017", "ece", "smoothed"}
    (tmp_path / "scores.jsonl").write_text(json.dumps(line) + "\n")
    assert "Multi30k" in run_command(truneg("compare", tmp_path / "scores.jsonl")).stdout
