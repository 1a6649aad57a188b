"""truneg explain: what it says is what the model does; and what explain and evaluate refuse of data."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from support.masked_lms import evaluated, opened
from support.trainings import table_of
from transformers import pipeline

from truneg_fairseq.commands.main import main
from truneg_fairseq.evaluation.explain import Explainer
from truneg_fairseq.evaluation.held_out import exclusions, flaw_of
from truneg_fairseq.evaluation.models import OpeningOptions

TEXT = "The primary car walks to main, <script>."


def explained(text: str, model: Path, data: Path, folder: Path, *flags: object) -> dict[str, dict]:
    """By text, the parts of a sentence that were masked."""
    words = ("explain", text, "--checkpoint", model, "--data", data, "--cpu", "--json", folder / "e.json", *flags)
    main([str(word) for word in words])
    (line,) = (folder / "e.json").read_text(encoding="utf-8").splitlines()
    record = json.loads(line)
    assert record["text"] == text
    return {part["text"]: part for part in record["parts"] if "verdict" in part}


def test_every_word_is_masked_in_turn(converted, bert, tmp_path, capsys):
    masked = explained(TEXT, *converted, tmp_path, "--html", tmp_path / "e.html")
    shown = capsys.readouterr().out
    assert list(masked) == ["The", "primary", "car", "walk", "s", "to", "main", ",", "."], "'script' is unknown"
    fill = pipeline("fill-mask", model=str(bert))
    tokens = fill.tokenizer(TEXT).input_ids
    for place, part in ((2, masked["primary"]), (5, masked["s"])):
        text = fill.tokenizer.decode([*tokens[1:place], fill.tokenizer.mask_token_id, *tokens[place + 1 : -1]])
        filled = fill(text, top_k=5)
        assert [chance for _, chance in part["top"]] == pytest.approx([each["score"] for each in filled], abs=1e-5)
        gold = fill(text, targets=[fill.tokenizer.convert_ids_to_tokens(tokens[place])])[0]
        assert part["gold_probability"] == pytest.approx(gold["score"], abs=1e-5)
    for piece in ("s", "walk"):
        assert masked[piece]["verdict"] == "right" or "is a piece" in masked[piece]["reason"]
    assert {"main", "principal", "chief"} <= set(masked["primary"]["synonyms"])
    assert set(masked["primary"]["scores"]) == {"embedding", "context"}
    assert masked[","]["verdict"] == "right" or masked[","]["reason"] == "',' has no synonym in the table (wordnet)"
    assert "\x1b" not in shown, "no colours where stdout is not a terminal"
    model, data = converted
    assert shown.splitlines()[-1] == f"next: truneg evaluate {model} --data {data} --task held-out=valid"
    html = (tmp_path / "e.html").read_text(encoding="utf-8")
    assert html.count("<script>") == 1
    assert "&lt;script&gt;" in html


def test_a_folder_of_hugging_face_is_explained_as_the_checkpoint(converted, bert, tmp_path):
    model, data = converted
    text, detector = "The big car walked , xyz to the table .", ("--detector", "table+embedding+context")
    ours, theirs = (explained(text, each, data, tmp_path, *detector) for each in (model, bert))
    assert ours.keys() == theirs.keys() == {*"The big car walked , to the table .".split()}
    named = {"<s>": "[CLS]", "<pad>": "[PAD]", "</s>": "[SEP]", "<unk>": "[UNK]", "<mask>": "[MASK]"}
    for one, other in zip(ours.values(), theirs.values(), strict=True):
        for name in ("gold_probability", "prediction_probability", "scores"):
            assert one[name] == pytest.approx(other[name], abs=1e-4)
        assert named.get(one["prediction"], one["prediction"]) == other["prediction"]
        assert (one["verdict"], sorted(one["synonyms"])) == (other["verdict"], sorted(other["synonyms"]))
    scorer, own = opened(bert)
    pair = [own.vocabulary.symbols.index(theirs["car"][name]) for name in ("gold", "prediction")]
    cosine = float(torch.cosine_similarity(*scorer.embeddings[pair], dim=0))
    assert theirs["car"]["scores"]["embedding"] == pytest.approx(cosine, abs=1e-5)


def test_the_verdict_is_the_tables_and_the_detectors(converted, tmp_path):
    words = ("car", "film", "child", "quick", "table")
    plain = explained(" ".join(words), *converted, tmp_path)
    word = next(word for word in words if plain[word]["prediction"].isalpha())
    prediction, listed = plain[word]["prediction"], len(plain[word]["synonyms"])
    assert plain[word]["verdict"] == "true negative"
    assert plain[word]["reason"] == f"{prediction!r} is not among the {listed} synonyms of {word!r} (wordnet)"
    table = ("--synonym-table", table_of(converted[1], [(word, prediction), (word, "auto")], tmp_path / "t.npz"))

    def verdict(*flags: object) -> tuple[str, str]:
        of_word = explained(" ".join(words), *converted, tmp_path, *flags)[word]
        assert set(of_word["synonyms"]) == {prediction, "auto"}, "shown with any detector"
        return of_word["verdict"], of_word["reason"].split("; people accept it with a probability of 0.")[0]

    assert verdict(*table) == ("false negative", f"{prediction!r} is among the 2 synonyms of {word!r} (test)")
    for detector in ("table+embedding", "embedding"):
        assert verdict(*table, "--detector", detector) == ("true negative", f"judged unacceptable ({detector})")


def test_forms_of_a_word_opposites_and_pieces_are_no_false_negatives(tokens):
    excluded, vocabulary = exclusions(tokens), tokens.vocabulary.words
    comma = tokens.vocabulary.symbols.index(",")
    for word, other, line in (
        ("car", tokens.token("auto"), ""),
        ("walked", tokens.token("walk"), "'walk' is another form of the same word, or its opposite"),
        ("large", tokens.token("small"), "'small' is another form of the same word, or its opposite"),
        ("car", comma, "not a word for another word"),
    ):
        assert flaw_of(tokens.token(word), other, tokens, excluded) == line, (word, vocabulary[other])


def test_the_table_of_the_training_is_used(converted, tmp_path):
    model, data = converted
    content = torch.load(model, weights_only=True)
    table = str(table_of(data, [("car", "main")], tmp_path / "t.npz"))
    content["cfg"]["criterion"] = {"_name": "masked_lm_hc", "hc_weight": 1.0, "synonym_table": table}
    torch.save(content, tmp_path / "trained.pt")
    assert explained("seven car", tmp_path / "trained.pt", data, tmp_path)["car"]["synonyms"] == ["main"]


def test_a_text_is_not_cut_inside_a_word(converted):
    model, data = converted
    explainer = Explainer(model, OpeningOptions(data=data, cpu=True))
    positions, continues = explainer._model.longest, explainer._vocabulary.continues
    ids = [explainer._vocabulary.symbols.index(piece) for piece in ("car", "walk", "##s") * positions]
    parts = list(explainer._parts(ids))
    assert [start for start, _ in parts] == [0, *(stop for _, stop in parts[:-1])]
    assert parts[-1][1] == len(ids)
    assert all(1 <= stop - start <= positions - 2 for start, stop in parts)
    assert not any(continues[ids[start]] for start, _ in parts)
    assert any(continues[ids[start + positions - 2]] for start, _ in parts[:-1]), "or it is luck"


def test_damaged_data_and_those_of_another_dictionary_are_refused(folder, checkpoints, tmp_path):
    checkpoint, data = checkpoints["bert"], tmp_path / "data-bin"
    shutil.copytree(folder / "data-bin", data)
    with (data / "valid.bin").open("r+b") as stream:
        stream.write(b"\xff\x7f")
    for split, line in (
        ("valid", "valid.bin: has the id 32,767, but"),
        ("vaild", f"held-out=vaild: {data} has no such split; expected one that"),
    ):
        with pytest.raises(SystemExit, match=line):
            evaluated([checkpoint], [f"held-out={split}"], "--data", data)
    with (data / "dict.txt").open("a") as stream:
        stream.write("more 1\n")
    with pytest.raises(SystemExit, match="prepare the data with the model's dictionary"):
        explained("car", checkpoint, data, tmp_path)


def test_cpu_keeps_off_the_gpu(folder, checkpoints, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "_lazy_init", lambda: pytest.fail("the GPU was used"))
    data = folder / "data-bin"
    explained("The car.", checkpoints["bert"], data, tmp_path)
    evaluated([checkpoints["bert"]], ["held-out=valid"], "--data", data)
    assert "\nheld-out text\n" in capsys.readouterr().out
