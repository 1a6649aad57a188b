"""The model card of an export, where it goes, and what loads it beside from_pretrained."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from support.convert_models import TOKENS, random_model, run_command, save, write_dictionary

transformers = pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory) -> Path:
    """A checkpoint as a training leaves it: with its criterion, its updates and the records beside it."""
    folder = tmp_path_factory.mktemp("trained")
    data = write_dictionary(folder / "data", TOKENS)
    (data / "vocab.txt").write_text("".join(f"{token}\n" for token in TOKENS))
    splits = {"train": {"sequences": 12, "tokens": 12345}}
    record = {"settings": {"tokenizer": {"kind": "wordpiece", "sha256": "x"}, "text": {}}, "splits": splits}
    (data / "record.json").write_text(json.dumps(record))
    path = folder / "model.pt"
    save(random_model("BertForMaskedLM"), folder / "hf")
    run_command(folder / "hf", path, "--data", data)
    content = torch.load(path, weights_only=True)
    content["cfg"]["criterion"] = {"_name": "masked_lm_hc", "hc_weight": 1.0, "sr_word_weight": 0.0}
    content["cfg"]["checkpoint"] = {"finetune_from_model": str(folder / "start.pt")}
    content["optimizer_history"][-1]["num_updates"] = 4000
    torch.save(content, path)
    last = {"versions": {"torch": "2.13", "nltk": None}, "revision": "abc+", "synonym_source": "mythes"}
    starts = [{"versions": {"torch": "1"}}, {**last, "settings": {"lr": "[0.01]"}}]
    (folder / "manifest.json").write_text(json.dumps({"starts": starts}))
    return path


def card(checkpoint: Path, folder: Path) -> tuple[dict, str]:
    import yaml

    run_command(checkpoint, folder)
    _, block, text = (folder / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    return yaml.safe_load(block), text


def test_the_card_tells_training_and_data(checkpoint, tmp_path):
    block, text = card(checkpoint, tmp_path / "my-model")
    assert (block["pipeline_tag"], block["library_name"]) == ("fill-mask", "transformers")
    assert "license" not in block  # to be filled in
    for part in (
        *("`masked_lm_hc`", "`hc_weight` 1.0", "Synonyms: mythes", "Started from the weights of: `start.pt`"),
        *("Updates: 4,000", "Settings: `lr` 0.01", "Versions: torch 2.13", "Revision: abc+", "12,345 tokens"),
        "@inproceedings{zhang2023true",
    ):
        assert part in text
    for part in ("sr_word_weight", str(tmp_path), str(checkpoint.parent)):
        assert part not in text
    code = text.split("```python\n")[1].split("```")[0].replace('"."', repr(str(tmp_path / "my-model")))
    loaded: dict = {}
    exec(code, loaded)
    assert type(loaded["model"]).__name__ == "BertForMaskedLM"


@pytest.mark.parametrize(
    ("criterion", "objective", "tag"),
    [
        ({"_name": "masked_lm"}, None, False),
        ({"_name": "masked_lm_true_neg", "uniform_targets": 0.1}, "`uniform_targets` 0.1", False),
        ({"_name": "masked_lm_hc"}, "`hc_weight` 1.0", True),
        ({"_name": "electra", "sr_word_weight": 0.5}, "`sr_word_weight` 0.5", True),
    ],
)
def test_only_models_trained_on_true_negatives_have_that_tag(checkpoint, tmp_path, criterion, objective, tag):
    content = torch.load(checkpoint, weights_only=True)
    content["cfg"]["criterion"] = criterion
    torch.save(content, tmp_path / "model.pt")
    block, text = card(tmp_path / "model.pt", tmp_path / "hf")
    assert ("true-negatives" in block["tags"]) == tag
    assert criterion["_name"] in block["tags"]
    assert (f"- Objective: {objective}\n" in text) if objective else ("Objective" not in text)
