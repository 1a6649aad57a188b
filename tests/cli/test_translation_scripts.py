"""The scripts of user_dir_examples/translation: from text to the scores of a comparison."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.commands import REPOSITORY, command_environment, run_command, stand_ins, truneg, write_sentences

SCRIPTS = REPOSITORY / "user_dir_examples" / "translation"


def run_script(name: str, *arguments: object, fails: bool = False) -> str:
    commands = os.pathsep.join([str(stand_ins().folder), str(Path(sys.executable).parent), os.environ["PATH"]])
    command = ["bash", str(SCRIPTS / name), *map(str, arguments)]
    done = subprocess.run(command, env=command_environment(PATH=commands), capture_output=True, text=True, check=False)
    assert (done.returncode != 0) == fails, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stderr


@pytest.mark.slow
def test_an_arm_of_the_comparison_ends_with_a_line_that_compare_reads(wordnet, tmp_path):
    text, pairs, run = tmp_path / "text", tmp_path / "pairs", tmp_path / "both-3"
    text.mkdir()
    for seed, (split, count) in enumerate({"train": 120, "valid": 20, "test": 6, "test1": 5}.items()):
        for language in ("de", "en"):  # each sentence is its own translation
            write_sentences(text / f"{split}.{language}", count, seed)
    broken = (text / "train.de").read_text(encoding="utf-8").replace(" ", "\u2028", 1)  # no end of a line
    (text / "train.de").write_text(broken, encoding="utf-8")
    run_script("prepare.sh", text, "de", "en", pairs, 200)
    assert len((pairs / "text" / "train.de").read_text(encoding="utf-8").split("\n")) == 121
    assert sorted(path.name for path in pairs.glob("test*.en.bin")) == ["test.de-en.en.bin", "test1.de-en.en.bin"]
    assert "has data already; choose another folder" in run_script(
        "prepare.sh", text, "de", "en", pairs, 100, fails=True
    )
    run_command(truneg("synonyms", "build", "--data", pairs / "dict.en.txt", "--output", pairs / "synonyms.npz"))
    run_command(truneg("data", "counts", "--data", pairs / "dict.en.txt"))
    run_script("multi30k.sh", pairs, "both", 3, run, "--cpu", "--num-workers", 0, "--max-epoch", 1)
    assert len((run / "test.H").read_text().splitlines()) == 6
    others = [tmp_path / "other.1", tmp_path / "other.2"]
    for path in others:
        path.write_text((run / "test.H").read_text())  # each translation is what others say
    printed = run_command([sys.executable, SCRIPTS / "scores.py", pairs, run, "--others", *others]).stdout
    lines = {line["task"]: line for line in map(json.loads, printed.splitlines()[-4:])}
    held_out = lines["held-out text, generated"]
    assert (held_out["model"], held_out["seed"]) == ("both", 3)
    valid = [json.loads(row)["values"] for row in (run / "metrics.jsonl").read_text().splitlines() if '"valid"' in row]
    assert held_out["metrics"]["bits"] == pytest.approx(float(valid[-1]["nll_loss"]), abs=2e-3)
    assert held_out["metrics"].keys() >= {"ece", "smoothed"}
    for split, name in (("test", "test2016"), ("test1", "test2017")):
        for score, own in zip(json.loads((run / f"scores.{split}.json").read_text()), ("bleu", "chrf"), strict=True):
            assert lines[f"translation {name}"]["metrics"][own] == pytest.approx(score["score"] / 100, abs=1e-6)
    assert lines["translation test2016, 3 references"]["metrics"]["chrf"] == pytest.approx(1)
    (tmp_path / "scores.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines.values()))
    assert "translation test2016, 3 references" in run_command(truneg("compare", tmp_path / "scores.jsonl")).stdout
