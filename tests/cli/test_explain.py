"""truneg explain and evaluate on a real checkpoint: what they say is what the model does."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from support.cli_runs import assert_one_line, training
from support.commands import PIECES, WORDS, run_command, truneg
from support.trainings import table_of
from transformers import pipeline

from truneg_fairseq import register
from truneg_fairseq.commands.main import main
from truneg_fairseq.data.tokenizer import BERT_SPECIALS, wordpiece_tokenizer

TEXT = "The primary car walks to main, <script>."


@pytest.fixture(scope="module")
def trained(data_bin, tmp_path_factory) -> Path:
    """Data with their tokenizer, and two checkpoints that predict little but a few words."""
    register()
    data = tmp_path_factory.mktemp("explain") / "data-bin"
    shutil.copytree(data_bin, data)
    wordpiece_tokenizer((*BERT_SPECIALS, *WORDS, *PIECES)).save(data)
    steps = ("--max-update", 12, "--save-interval-updates", 6, "--validate-interval-updates", 6)
    run_command(training(data, data.parent / "run", "--criterion", "masked_lm", *steps))
    return data.parent


def explain(trained: Path, *arguments: object, **options) -> subprocess.CompletedProcess[str]:
    checkpoint = trained / "run" / "checkpoint_last.pt"
    command = ("explain", "--checkpoint", checkpoint, "--data", trained / "data-bin")
    return run_command(truneg(*command, *arguments), **options)


def records(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_every_word_is_masked_in_turn(trained, tmp_path):
    shown = explain(trained, TEXT, "--json", tmp_path / "e.json", "--html", tmp_path / "e.html")
    (record,) = records(tmp_path / "e.json")
    masked = {part["text"]: part for part in record["parts"] if "verdict" in part}
    assert list(masked) == ["The", "primary", "car", "walk", "s", "to", "main", ",", "."]
    assert record["text"] == TEXT
    assert [part["text"] for part in record["parts"] if "verdict" not in part], "'script' is unknown"

    main(["convert", str(trained / "run" / "checkpoint_last.pt"), str(tmp_path / "hf")])
    fill = pipeline("fill-mask", model=str(tmp_path / "hf"))
    tokens = fill.tokenizer(TEXT).input_ids
    for place, part in ((2, masked["primary"]), (5, masked["s"])):
        text = fill.tokenizer.decode([*tokens[1:place], fill.tokenizer.mask_token_id, *tokens[place + 1 : -1]])
        filled = fill(text, top_k=5)
        assert [chance for _, chance in part["top"]] == pytest.approx([each["score"] for each in filled], abs=1e-5)
        gold = fill(text, targets=[fill.tokenizer.convert_ids_to_tokens(tokens[place])])[0]
        assert part["gold_probability"] == pytest.approx(gold["score"], abs=1e-5)
    assert masked["s"]["verdict"] == "right" or "is a piece" in masked["s"]["reason"]
    assert masked["walk"]["verdict"] == "right" or "is a piece" in masked["walk"]["reason"]
    assert {"main", "principal", "chief"} <= set(masked["primary"]["synonyms"])
    assert set(masked["primary"]["scores"]) == {"embedding", "context"}
    assert masked[","]["verdict"] == "right" or masked[","]["reason"] == "',' has no synonym in the table (wordnet)"
    assert "\x1b" not in shown.stdout, "no colours where stdout is not a terminal"
    last = shown.stdout.splitlines()[-1]
    assert re.fullmatch(r"next: truneg evaluate \S+\.pt --data \S+ --task held-out=valid", last)
    assert shown.stderr.count("synonym table ") == 1
    html = (tmp_path / "e.html").read_text(encoding="utf-8")
    assert html.count("<script>") == 1
    assert "&lt;script&gt;" in html


@pytest.mark.slow
def test_the_verdict_is_the_tables_and_the_detectors(trained, tmp_path):
    def verdict(*arguments: object) -> dict:
        explain(trained, "seven car seven", "--json", tmp_path / "e.json", *arguments)
        (record,) = records(tmp_path / "e.json")
        (word,) = (part for part in record["parts"] if part["text"] == "car")
        return word

    plain = verdict()
    assert plain["verdict"] == "true negative"
    assert plain["reason"] == f"{plain['prediction']!r} is not among the 2 synonyms of 'car' (wordnet)"
    pairs = [("car", plain["prediction"]), ("car", "auto")]
    table = table_of(trained / "data-bin", pairs, tmp_path / "t.npz")
    excused = verdict("--synonym-table", table)
    if not plain["prediction"].isalpha():  # so small a model may predict a comma or a piece
        assert excused["reason"] == "not a word for another word"
        return
    assert excused["verdict"] == "false negative"
    among = f"{plain['prediction']!r} is among the 2 synonyms of 'car' (test); people accept it with a probability of "
    assert excused["reason"] == f"{among}{excused['acceptance']:.2f}"
    judged = verdict("--synonym-table", table, "--detector", "table+embedding")
    assert judged["verdict"] == "true negative"
    assert judged["reason"] == "judged unacceptable (table+embedding)"
    (trained / "data-bin" / "synonyms.npz").unlink()
    assert verdict("--detector", "embedding")["verdict"] == "true negative", "the table is built, to be shown"
    shown = verdict("--synonym-table", table, "--detector", "embedding")["synonyms"]
    assert set(shown) == {plain["prediction"], "auto"}


def test_the_table_of_the_training_is_used(trained, tmp_path):
    table = table_of(trained / "data-bin", [("car", "main")], tmp_path / "t.npz")
    content = torch.load(trained / "run" / "checkpoint_last.pt", weights_only=True)
    content["cfg"]["criterion"] = {"_name": "masked_lm_hc", "hc_weight": 1.0, "synonym_table": str(table)}
    torch.save(content, tmp_path / "trained.pt")
    explain(trained, "seven car", "--checkpoint", tmp_path / "trained.pt", "--json", tmp_path / "e.json")
    (record,) = records(tmp_path / "e.json")
    assert [part["synonyms"] for part in record["parts"] if part["text"] == "car"] == [["main"]]


def test_a_text_is_not_cut_inside_a_word(trained):
    from truneg_fairseq.evaluation.explain import Explainer
    from truneg_fairseq.evaluation.models import OpeningOptions

    options = OpeningOptions(data=trained / "data-bin")
    explainer = Explainer(trained / "run" / "checkpoint_last.pt", options)
    positions = explainer._model.longest
    ids = [explainer._vocabulary.symbols.index(piece) for piece in ("car", "walk", "##s") * positions]
    parts = list(explainer._parts(ids))
    assert len(parts) > 1
    assert [start for start, _ in parts] == [0, *(stop for _, stop in parts[:-1])]
    assert parts[-1][1] == len(ids)
    assert all(1 <= stop - start <= positions - 2 for start, stop in parts)
    assert not any(explainer._vocabulary.continues[ids[start]] for start, _ in parts)
    assert any(explainer._vocabulary.continues[ids[start + positions - 2]] for start, _ in parts[:-1]), "or it is luck"


def test_damaged_data_of_another_dictionary_or_none_are_refused(trained, tmp_path):
    checkpoint, data = trained / "run" / "checkpoint_last.pt", tmp_path / "data-bin"
    shutil.copytree(trained / "data-bin", data)
    with (data / "valid.bin").open("r+b") as stream:
        stream.write(b"\xff\x7f")
    damaged = truneg("evaluate", checkpoint, "--data", data, "--task", "held-out=valid")
    assert_one_line(run_command(damaged, check=False), "valid.bin: has the id 32,767, but")
    missing = truneg("evaluate", checkpoint, "--data", data, "--task", "held-out=vaild")
    assert_one_line(run_command(missing, check=False), f"held-out=vaild: {data} has no such split; expected one that")
    with (data / "dict.txt").open("a") as stream:
        stream.write("more 1\n")
    empty = f"{tmp_path}/dict.txt: no such file; expected the dictionary"
    for folder, line in ((data, "prepare the data with the model's dictionary"), (tmp_path, empty)):
        command = ("explain", "car", "--checkpoint", checkpoint, "--data", folder)
        assert_one_line(run_command(truneg(*command), check=False), line)


def test_cpu_keeps_off_the_gpu(trained, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "_lazy_init", lambda: pytest.fail("the GPU was used"))
    checkpoint, data = str(trained / "run" / "checkpoint_last.pt"), ["--data", str(trained / "data-bin"), "--cpu"]
    main(["explain", "--checkpoint", checkpoint, *data, TEXT])
    main(["evaluate", checkpoint, *data, "--task", "held-out=valid"])
    assert "\nheld-out text\n" in capsys.readouterr().out
