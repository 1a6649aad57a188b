"""user_dir_examples/from_scratch: trainings from random weights, and what is left of killed and finished ones."""

from __future__ import annotations

import gzip
import json
import runpy
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from support.commands import REPOSITORY, shared_file

FOLDER = REPOSITORY / "user_dir_examples" / "from_scratch"
SCRIPT, JUDGE = FOLDER / "train.py", FOLDER / "judge.py"
SHORT = ["--sequences", "48", "--epochs", "2", "--batch", "8", "--rate", "0.01"]
ARMS = ["plain", "corpus-0.8-falling", "shuffled-0.4", "hc-counts", "average-0.5"]


@pytest.fixture
def main(capsys) -> Callable[..., str]:
    def run(*arguments: object) -> str:
        runpy.run_path(str(SCRIPT))["main"]([*map(str, arguments)])
        return capsys.readouterr().out

    return run


@pytest.fixture
def texts(tmp_path) -> Path:
    """A folder as Multi30k's: some sentences, and five descriptions of each, the first the sentence itself."""
    subjects, verbs, places = "dog man woman girl".split(), "runs sits jumps".split(), "park street house beach".split()
    lines = [f"a {who} {does} in the {where} ." for who in subjects for does in verbs for where in places]
    others = [f"the {who} {does} near a {where}" for where in places for who in subjects for does in verbs]
    files = {"train": lines, "val": lines[:40], "test_2016_flickr": lines[:40], "test_2017_mscoco": others[:40]}
    files |= {f"test_2016_other.{number}": (lines if number == 1 else others)[:40] for number in range(1, 6)}
    for name, content in files.items():
        (tmp_path / f"{name}.en.gz").write_bytes(gzip.compress("\n".join(content).encode()))
    return tmp_path


def read(out: Path) -> list[dict]:
    lines = (out / "results.jsonl").read_text(encoding="utf-8").splitlines()
    return [{name: value for name, value in json.loads(line).items() if name != "wall_seconds"} for line in lines]


def test_a_line_for_each_quarter_and_a_killed_training_ends_as_it_would_have(texts, tmp_path, main):
    out, arguments = tmp_path / "out", ["short", *SHORT, "--texts", texts, "--arms", *ARMS]
    main(*arguments, "--output", out)
    lines = read(out)
    assert [(each["model"], each.get("at")) for each in lines] == [
        (arm, at) for arm in ARMS for at in (25, 50, 75, None)
    ]
    ends = {each["model"]: each["metrics"] for each in lines if "at" not in each}
    assert len({metrics["bits"] for metrics in ends.values()}) == len(ARMS), "each arm has its own loss"
    for metrics in ends.values():
        assert metrics["bits_tempered"] <= metrics["bits_valid"] + 1
        assert metrics["bits_valid_corpus"] <= metrics["bits_valid"]
        assert {"others", "elsewhere", "others_probability", "bits_other"} <= metrics.keys()
    whole = (out / "results.jsonl").read_text(encoding="utf-8")
    said = main(*arguments, "--output", out)
    assert said.count("trained before") == len(ARMS)
    assert (out / "results.jsonl").read_text(encoding="utf-8") == whole
    (out / "results.jsonl").write_text(whole[: len(whole) // 2], encoding="utf-8")  # in the middle of a line
    main(*arguments, "--output", out)
    assert sorted(map(str, read(out))) == sorted(map(str, lines))


def test_a_teacher_that_was_not_trained_and_a_missing_text_are_one_line(texts, tmp_path, main):
    with pytest.raises(SystemExit, match="train the arm plain with --seeds 11 first"):
        main("short", *SHORT, "--texts", texts, "--arms", "teacher-0.5", "--output", tmp_path / "out")
    with pytest.raises(SystemExit, match=r"train.en.gz: no such file; expected --texts"):
        main("short", "--texts", tmp_path / "nowhere", "--output", tmp_path / "out")


def test_trained_models_are_judged_beside_an_untrained_one_and_frequencies(texts, tmp_path, main, monkeypatch):
    out, zorro = tmp_path / "out", tmp_path / "agreement.txt"
    main("short", "--texts", texts, "--output", out, "--seeds", "1")
    long = " ".join(["the park in the house"] * 12)  # longer than the model reads
    zorro.write_text(f"a dogs runs .\na dog runs .\na dog dog {long} .\na dog runs in {long} .\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(FOLDER))
    judge = runpy.run_path(str(JUDGE))
    judge["main"](["short", "--texts", str(texts), "--output", str(out), "--task", f"zorro={zorro}"])
    judged = [json.loads(line) for line in (out / "judged.jsonl").read_text(encoding="utf-8").splitlines()]
    found = {each["model"]: each["example_ids"] for each in judged if each["task"] == "Zorro"}
    assert found.keys() == {"plain", "untrained", "frequencies"}
    assert found["plain"] == ["agreement 1"], "a pair with an unknown word is left out"


def test_a_long_context_is_read_around_the_place(texts, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    judge = runpy.run_path(str(JUDGE))
    tokens, lengths = torch.arange(2 * 60).view(2, 60), torch.tensor([60, 50])
    asked = torch.zeros(2, 60, dtype=torch.bool)
    asked[0, 59], asked[1, 3] = True, True
    model = judge["OwnModel"](tmp_path, None, None, lambda read, places: (read, read.flatten()[places]))
    read, there = model._around(tokens, lengths, asked)
    assert there.tolist() == [59, 63], "the tokens that are asked for"
    assert read[:, 0].tolist() == [18, 60]
    assert read[:, -1].tolist() == [59, 101]


def test_the_tables_of_the_page_are_made_of_the_published_lines():
    made = runpy.run_path(str(REPOSITORY / "docs" / "results" / "from_scratch.py"))
    table = made["tables"](*(made["read_results"]([made[lines]]) for lines in ("LINES", "JUDGED")))
    assert table in made["PAGE"].read_text(encoding="utf-8"), "python docs/results/from_scratch.py"


@pytest.mark.slow
def test_captions_by_five_people(tmp_path, main):
    """One of the five descriptions is the caption itself, and words that it has are not others' words."""
    folder = shared_file("multi30k")
    script = runpy.run_path(str(SCRIPT))
    text = script["Text"](script["SETTINGS"]["short"], folder, tmp_path / "text")
    captions = [set(row) for row in text.parts["test"]]
    assert not any(text.mentions[row, list(words)].any() for row, words in enumerate(captions))
    assert 5 < text.mentions.sum(1).double().mean() < 20
