"""What conversions read beside a plain folder, the card of an export, and the one line that wrong input gets."""

from __future__ import annotations

import json
import os
import re
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
import yaml
from safetensors.torch import save_file
from support.convert_models import (
    TOKENS,
    assert_same_tensors,
    random_model,
    run_command,
    save,
    share_embeddings,
    stored,
    write_dictionary,
)
from support.squad_examples import one_line

from truneg_fairseq.convert.from_hf import from_hf, read_model
from truneg_fairseq.convert.to_hf import to_hf
from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.models.checkpoints import read_checkpoint
from truneg_fairseq.vocabulary import fingerprint, read_symbols


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_dictionary(tmp_path / "data-bin", TOKENS)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save(random_model("BertForMaskedLM"), tmp_path / "bert")


@pytest.fixture
def checkpoint(folder: Path, data: Path, tmp_path: Path) -> Path:
    return from_hf(folder, data, tmp_path / "ckpt.pt").output


def only_a_pickle(folder: Path) -> None:
    torch.save(stored(folder), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def test_shards_and_a_pickle_of_tensors_where_it_is_asked_for(folder, data, tmp_path, capsys) -> None:
    before = read_model(folder)
    random_model("BertForMaskedLM").save_pretrained(tmp_path / "shards", max_shard_size="20KB")
    assert not (tmp_path / "shards" / "model.safetensors").exists()
    assert_same_tensors(read_model(tmp_path / "shards").tensors, before.tensors)
    only_a_pickle(folder)
    run_command(folder, tmp_path / "out.pt", "--data", data, "--allow-pickle")
    assert_same_tensors(read_model(folder, allow_pickle=True).tensors, before.tensors)
    first, *notes, flags, last = capsys.readouterr().out.splitlines()
    assert first.startswith(
        f"wrote {tmp_path / 'out.pt'} (fairseq checkpoint): 2 layers, 32 wide, 4 heads, 23 tokens, "
    )
    assert last == f"next: truneg train {data} --finetune-from-model {tmp_path / 'out.pt'} with these flags ..."
    assert flags == (
        "--arch bert --encoder-layers 2 --encoder-embed-dim 32 --encoder-ffn-embed-dim 48 "
        "--encoder-attention-heads 4 --max-positions 24"
    )
    assert any(line.startswith("note: positions: at most 24 tokens") for line in notes)


def test_a_pickle_of_code_is_never_run(folder: Path, data: Path, tmp_path: Path) -> None:
    class Attack:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "attacked"),)

    (folder / "model.safetensors").unlink()
    torch.save({"tensor": Attack()}, folder / "pytorch_model.bin")
    with pytest.raises(TrueNegError, match="its weights cannot be read"):
        from_hf(folder, data, tmp_path / "out.pt", allow_pickle=True)
    assert not (tmp_path / "attacked").exists()


def edit(name: str, old: str, new: str) -> Callable[..., object]:
    return lambda folder, *_: (folder / name).write_text((folder / name).read_text().replace(old, new))


def set_config(**settings: object) -> Callable[..., object]:
    def change(folder: Path, *_: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, **settings}))

    return change


def change_checkpoint(**model: object) -> Callable[..., None]:
    def change(folder: Path, data: Path, checkpoint: Path) -> None:
        content = torch.load(checkpoint, weights_only=True)
        content["cfg"]["model"].update(model)
        torch.save(content, checkpoint)

    return change


def other_order(folder: Path, data: Path, checkpoint: Path) -> None:
    lines = sorted((data / "dict.txt").read_text().splitlines())
    (data / "dict.txt").write_text("\n".join(lines) + "\n")


IN, OUT = "bert earlier.pt --data data-bin", "ckpt.pt new"
WRONG = [  # how the inputs are spoilt, the command's words, and the line
    (lambda f, d, c: f.rename(f.with_name("away")), IN, r"config\.json: no such file"),
    (set_config(model_type="gpt2"), IN, "model_type is 'gpt2', expected one of bert, electra, rob"),
    (set_config(hidden_act="relu"), IN, "hidden_act is 'relu', expected 'gelu'"),
    (lambda f, d, c: only_a_pickle(f), IN, "weights cannot be read .*; truneg convert --allow-pickle also reads"),
    (set_config(num_hidden_layers=3), IN, r"bert: has no bert\.encoder\.layer\.2\.attention.*, other weights"),
    (set_config(num_hidden_layers=1), IN, r"has bert\.encoder\.layer\.1\.attention.* too, other weights"),
    (set_config(max_position_embeddings=30), IN, "max_position_embeddings is 30, which no weights beside it have"),
    (set_config(vocab_size=5_000_000), IN, "vocab_size is 5000000, which no weights beside it have"),
    (lambda f, d, c: (f / "vocab.txt").unlink(), IN, "bert: no vocabulary, but vocab_size is 23"),
    (edit("vocab.txt", "cat\n", ""), IN, r"txt: 22 tokens, but vocab_size is 23"),
    (edit("vocab.txt", "cat\n", "cow\n"), IN, r"dict\.txt: 1 of its 23 .*'cat'"),
    (None, "bert bert/vocab.txt --data data-bin", "vocab.txt: is the file of OUT too; expected different files"),
    (None, "someone/bert earlier.pt --data data-bin", r"someone/bert/config\.json: no such file"),
    (None, "ckpt.pt bert", "is there already; expected a new"),
    (None, "ckpt.pt earlier.pt", r"earlier\.pt: expected a folder; to another dictionary: truneg convert .* DIR, then"),
    (lambda f, d, c: torch.save({"model": {}, "cfg": None}, c), OUT, "no weights with a configuration"),
    (change_checkpoint(activation_fn="relu"), OUT, "activation_fn is 'relu'"),
    (change_checkpoint(encoder_ffn_embed_dim=40), OUT, r"shape \(48, 32\), expected shape \(40, 32\)"),
    (lambda f, d, c: d.rename(d.with_name("away")), OUT, "is not a folder here; give the data with --data"),
    (other_order, OUT, "was made with a vocabulary of fingerprint .*, the checkpoint is of"),
    (lambda f, d, c: (d / "dict.txt").write_text("cat 1\n"), OUT, "has 23 embeddings, the dictionary of .* 6 symbols"),
]


@pytest.mark.parametrize(("spoil", "words", "message"), WRONG)
def test_wrong_input_is_one_line_and_changes_nothing(spoil, words, message, folder, data, checkpoint, tmp_path) -> None:
    if spoil:
        spoil(folder, data, checkpoint)
    (tmp_path / "earlier.pt").write_text("an earlier one")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    given = [word if word.startswith(("-", "someone")) else tmp_path / word for word in words.split()]
    assert re.search(message, one_line(lambda: run_command(*given)))
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_hub_names_are_downloaded_only_when_asked_for(folder: Path, data: Path, tmp_path: Path, monkeypatch) -> None:
    download = Mock(return_value=str(folder))
    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    run_command("hub:someone/bert", tmp_path / "out.pt", "--data", data)
    download.assert_called_once_with("someone/bert", allow_patterns=["*.json", "*.txt", "*.safetensors"])
    download.side_effect = ConnectionError("no network")
    line = one_line(lambda: run_command("hub:someone/bert", tmp_path / "new.pt", "--data", data))
    assert "hub:someone/bert: cannot be read (no network); expected the name of a model" in line


def test_generators_of_another_electra(data: Path, tmp_path: Path) -> None:
    discriminator, generator = random_model("ElectraForPreTraining"), random_model("ElectraForMaskedLM", hidden_size=24)
    share_embeddings(generator, discriminator)
    folders = save(discriminator, tmp_path / "discriminator"), save(generator, tmp_path / "generator")
    report = from_hf(folders[0], data, tmp_path / "right.pt", generator=folders[1])
    assert not any("no masked-LM head" in note for note in report.notes)
    edit("vocab.txt", "cat\nsat\n", "sat\ncat\n")(folders[1], data, None)
    with pytest.raises(TrueNegError, match=r"generator: its tokens differ from those of .*discriminator"):
        from_hf(folders[0], data, tmp_path / "out.pt", generator=folders[1])
    (folders[1] / "vocab.txt").write_bytes((folders[0] / "vocab.txt").read_bytes())
    tensors = stored(folders[1])
    tensors["electra.embeddings.LayerNorm.bias"] += 1e-6
    save_file(tensors, folders[1] / "model.safetensors")
    with pytest.raises(TrueNegError, match=r"its embeddings differ from those of .*; expected one ELECTRA's"):
        from_hf(folders[0], data, tmp_path / "out.pt", generator=folders[1])


def test_arguments_of_fairseq_train_and_of_hydra(checkpoint: Path, data: Path, tmp_path: Path) -> None:
    """A dictionary with _name that has only what was set, a Namespace with arch, and before hydra one Namespace."""
    plain, content = to_hf(checkpoint, tmp_path / "plain").output, torch.load(checkpoint, weights_only=True)
    full = content["cfg"]["model"]
    sizes = {name: full[name] for name in full if name.startswith("encoder_") or name in ("max_positions", "_name")}
    spaces = Namespace(**{**full, "arch": full["_name"]})
    everything = {"cfg": None, "args": Namespace(**vars(spaces), task="masked_lm", data=str(data))}
    hydra, train = ({"cfg": {**content["cfg"], "model": arguments}} for arguments in (sizes, spaces))
    for name, stored_as in {"hydra": hydra, "train": train, "old": everything}.items():
        torch.save({**content, **stored_as}, tmp_path / f"{name}.pt")
        other = to_hf(tmp_path / f"{name}.pt", tmp_path / name).output
        for file in ("config.json", "model.safetensors"):
            assert (other / file).read_bytes() == (plain / file).read_bytes()


def test_weights_move_to_a_dictionary_in_another_order(checkpoint: Path, data: Path, tmp_path: Path) -> None:
    """Through a folder of Hugging Face."""
    other_order(checkpoint, other := write_dictionary(tmp_path / "other", TOKENS), checkpoint)
    run_command(checkpoint, tmp_path / "hf")
    run_command(tmp_path / "hf", tmp_path / "after.pt", "--data", other)
    assert read_checkpoint(tmp_path / "after.pt").vocabulary == fingerprint(read_symbols(other))
    (other / "vocab.txt").write_bytes((tmp_path / "hf" / "vocab.txt").read_bytes())
    to_hf(tmp_path / "after.pt", tmp_path / "again")
    assert_same_tensors(stored(tmp_path / "again"), stored(tmp_path / "hf"))


@pytest.mark.parametrize(
    ("name", "options", "described"),
    [
        ("masked_lm", {}, "plain, without true negatives"),
        ("label_smoothing", {"soft_targets": "uniform=0.1", "sr_word_weight": 0.0}, "--soft-targets uniform=0.1"),
        ("masked_lm_hc", {"hc_weight": 1.0, "hc_detector": "mine"}, "--hc-weight 1.0 --hc-detector mine"),
        ("electra", {"terms": "mine=0.5", "synonym_table": "/home/me/own.npz"}, "--terms mine=0.5"),
    ],
)
def test_the_card_tells_training_and_data(name, options, described, checkpoint, data, tmp_path) -> None:
    """Only models trained on true negatives have that tag."""
    (data / "record.json").write_text(
        json.dumps({"settings": {}, "splits": {"train": {"sequences": 12, "tokens": 12345}}})
    )
    content = torch.load(checkpoint, weights_only=True)
    content["cfg"] |= {"criterion": {"_name": name, **options}}
    content["cfg"]["checkpoint"] = {"finetune_from_model": str(tmp_path / "start.pt")}
    content["optimizer_history"][-1]["num_updates"] = 4000
    torch.save(content, checkpoint)
    run_command(checkpoint, tmp_path / "my-model")
    _, block, text = (tmp_path / "my-model" / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    block = yaml.safe_load(block)
    tags = ["truneg_fairseq", *(["true-negatives"] if name in ("masked_lm_hc", "electra") else []), name]
    assert block == {"library_name": "transformers", "tags": tags}, "the license is to be filled in"
    lines = [f"Criterion: `{name}`", f"Objective: `{described}`"]
    lines += ["Started from the weights of: `start.pt`", "Updates: 4,000", "Data, train: 12 sequences, 12,345 tokens"]
    assert "\n".join(f"- {line}" for line in lines) in text
    assert "@inproceedings{zhang2023true" in text
    assert str(tmp_path) not in text
    code = text.split("```python\n")[1].split("```")[0].replace('"."', repr(str(tmp_path / "my-model")))
    loaded: dict = {}
    exec(code, loaded)
    assert type(loaded["model"]).__name__ == "BertForMaskedLM"
