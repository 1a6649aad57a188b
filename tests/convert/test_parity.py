"""Converted models compute what transformers' classes compute, and converting there and back changes no bit."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import save_file
from support.commands import truneg_data
from support.convert_models import (
    LINES,
    PAIRS,
    SMALL,
    TOKENS,
    WIDE,
    Both,
    assert_same_tensors,
    load_with_fairseq,
    random_model,
    save,
    share_embeddings,
    stored,
    with_heads,
    write_dictionary,
)
from support.tokenizers_made import FAST_KINDS, fast_tokenizer
from tokenizers import ByteLevelBPETokenizer, Tokenizer

import truneg_fairseq
from truneg_fairseq.convert.architecture import architecture_flags, model_config
from truneg_fairseq.convert.from_hf import from_hf
from truneg_fairseq.convert.to_hf import to_hf
from truneg_fairseq.convert.token_ids import find_vocabulary, read_dictionary, rows_by_id
from truneg_fairseq.data.tokenizer import read_vocabulary, wordpiece_tokenizer
from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.vocabulary import read_symbols

TOLERANCE = 1e-5
SINGLE = ([24, 5, 11], [0, 0, 0])
FULL = ([40], [17])
PADDED = ([7, 40, 2, 19], [3, 12, 0, 18])


truneg_fairseq.register()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Binarized data's dictionary, and the vocabulary in Hugging Face's order."""
    folder = write_dictionary(tmp_path / "data-bin", TOKENS)
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in TOKENS))
    return folder


def convert(model, data: Path, name: str = "model", **options):
    return from_hf(save(model, data.parent / name), data, data.parent / f"{name}.pt", **options)


def largest(difference: torch.Tensor) -> float:
    return float(difference.abs().max())


@pytest.mark.parametrize(
    ("kind", "settings", "batch"),
    [
        ("BertForMaskedLM", SMALL, PAIRS),
        ("BertForMaskedLM", WIDE, FULL),
        ("BertForMaskedLM", {"tie_word_embeddings": False}, PAIRS),
        ("BertForPreTraining", WIDE, PADDED),
        ("ElectraForMaskedLM", SMALL, PAIRS),
        ("ElectraForMaskedLM", {**WIDE, "embedding_size": 48}, PADDED),
        ("ElectraForMaskedLM", {"tie_word_embeddings": False, "embedding_size": 40, "layer_norm_eps": 1e-3}, PAIRS),
        ("RobertaForMaskedLM", SMALL, SINGLE),
        ("RobertaForMaskedLM", {**WIDE, "type_vocab_size": 2, "tie_word_embeddings": False}, (PADDED[0], [0] * 4)),
    ],
)
def test_masked_lms_there_and_back(kind: str, settings: dict, batch: tuple, data: Path) -> None:
    model = random_model(kind, **settings)
    report = convert(model, data)
    heads = kind == "BertForPreTraining"
    ours, task = load_with_fairseq(report.output, data, load_checkpoint_heads=heads)
    assert len(task.source_dictionary) == len(TOKENS)
    both = Both(data, TOKENS, *batch)
    expected = both.logits(model)
    assert expected.std() > 0.5, "logits too small to compare"
    assert largest(both.ours(ours) - expected) < TOLERANCE
    if heads:  # BERT's next-sentence classifier
        with torch.no_grad():
            found = ours(both.ids, features_only=True, classification_head_name="next_sentence")[0]
        assert largest(found - both.hf(model).seq_relationship_logits) < TOLERANCE
    assert report.parameters == sum(parameter.numel() for parameter in ours.parameters())

    again = to_hf(report.output, data.parent / "again")
    assert again.architecture == kind
    back = getattr(transformers, kind).from_pretrained(again.output).eval()
    assert largest(both.logits(back) - expected) < TOLERANCE
    before, after = stored(data.parent / "model"), stored(again.output)
    assert before.keys() == after.keys()
    # RoBERTa's token type is added to its positions; of an untied head's two biases one is without effect.
    roberta = ("position_embeddings.weight", "token_type_embeddings.weight") if kind.startswith("Roberta") else ()
    untied = () if settings.get("tie_word_embeddings", True) else ("predictions.bias", "lm_head.bias")
    kept = [name for name in after if not name.endswith((*roberta, *untied))]
    assert_same_tensors({name: after[name] for name in kept}, {name: before[name] for name in kept})


def test_rows_without_a_token_are_left_out(data: Path) -> None:
    """Which resize_token_embeddings(pad_to_multiple_of=64) makes."""
    model, folder = random_model("BertForMaskedLM", vocab_size=len(TOKENS) + 3), data.parent / "padded"
    model.save_pretrained(folder)
    (folder / "vocab.json").write_text(json.dumps({token: row for row, token in enumerate(TOKENS)}))
    report, both = from_hf(folder, data, data.parent / "padded.pt"), Both(data, TOKENS, *PAIRS)
    assert any(note.startswith("left out: 3 rows of the embeddings") for note in report.notes)
    assert largest(both.ours(load_with_fairseq(report.output, data)[0]) - both.logits(model)) < TOLERANCE


@pytest.mark.parametrize("kind", ["RobertaForMaskedLM", "XLMRobertaForMaskedLM", "CamembertForMaskedLM"])
def test_roberta_without_token_types_round_trips_exactly(kind: str, data: Path) -> None:
    """Zeros of the token type, as in the released weights; the signs of zeros stay too."""
    tokens = ["<s>", "<pad>", "</s>", "<unk>", *[t for t in TOKENS if not t.startswith("[")], "<mask>"]
    (data / "vocab.txt").unlink()
    model = random_model(kind, tokens=tokens)
    with torch.no_grad():
        model.roberta.embeddings.token_type_embeddings.weight.zero_()
        model.roberta.embeddings.position_embeddings.weight[5] = -0.0
    model.save_pretrained(data.parent / "roberta")
    row_of = {token: row for row, token in enumerate(tokens)}
    for folder in (data, data.parent / "roberta"):
        (folder / "vocab.json").write_text(json.dumps(row_of))
    report = from_hf(data.parent / "roberta", data, data.parent / "roberta.pt")
    both = Both(data, tokens, *SINGLE)
    assert largest(both.ours(load_with_fairseq(report.output, data)[0]) - both.logits(model)) < TOLERANCE
    again = to_hf(report.output, data.parent / "again")
    assert_same_tensors(stored(again.output), stored(data.parent / "roberta"))
    assert json.loads((again.output / "config.json").read_text())["max_position_embeddings"] == 24 + 2


@pytest.mark.parametrize("kind", ["BertModel", "ElectraModel"])
def test_encoders_there_and_back(kind: str, data: Path) -> None:
    """Also with the position numbers that older files hold."""
    model = random_model(kind)
    folder = save(model, data.parent / "model")
    weights = stored(folder)
    save_file({**weights, "embeddings.position_ids": torch.arange(24)[None]}, folder / "model.safetensors")
    report = from_hf(folder, data, data.parent / "model.pt")
    both = Both(data, TOKENS, *PAIRS)
    ours, _ = load_with_fairseq(report.output, data)
    expected, features = both.hf(model).last_hidden_state[both.real], both.ours(ours, features_only=True)
    assert largest(features - expected) < TOLERANCE
    if kind == "BertModel":  # its masked-LM head starts as the identity
        assert any("starts as the identity" in note for note in report.notes)
        head = F.layer_norm(F.gelu(features), features.shape[-1:], eps=1e-12)
        torch.testing.assert_close(both.ours(ours), head @ ours.encoder.sentence_encoder.embed_tokens.weight.T)
    again = to_hf(report.output, data.parent / "again", part="encoder")
    assert again.architecture == kind
    assert_same_tensors(stored(again.output), weights)
    back = transformers.AutoModel.from_pretrained(again.output).eval()
    assert largest(both.hf(back).last_hidden_state[both.real] - expected) < TOLERANCE


def electra(data: Path, **settings):
    """Discriminator and generator that share their embeddings, of different widths, and where they are saved."""
    discriminator = random_model("ElectraForPreTraining", 1, **settings)
    sizes = {"hidden_size": 24, "num_attention_heads": 2, "intermediate_size": 40, "num_hidden_layers": 3}
    generator = random_model("ElectraForMaskedLM", 2, **{**settings, **sizes})
    share_embeddings(generator, discriminator)
    return discriminator, generator, save(generator, data.parent / "generator")


@pytest.mark.parametrize(
    "settings",
    [SMALL, {**SMALL, "embedding_size": 32}, {**WIDE, "tie_word_embeddings": False}],
    ids=["small", "one width", "wide, untied"],
)
def test_both_halves_of_an_electra_there_and_back(settings: dict, data: Path) -> None:
    discriminator, generator, folder = electra(data, **settings)
    report = convert(discriminator, data, generator=folder)
    model, task = load_with_fairseq(report.output, data)
    assert task.replaced_token_detection
    assert report.parameters == sum(parameter.numel() for parameter in model.parameters())
    both = Both(data, TOKENS, *PAIRS)
    special = torch.tensor([symbol.startswith("<") for symbol in both.symbols])
    masked = (torch.rand(both.ids.shape, generator=torch.Generator().manual_seed(3)) < 0.5) & ~special[both.ids]
    source = both.ids.masked_fill(masked, task.mask_idx)
    filled = both.ids.masked_fill(masked, both.symbols.index("cat"))
    with torch.no_grad():
        output = model(source, masked_tokens=masked, replace=lambda found: filled)
    assert largest(output.generator_logits - both.hf(generator, source).logits[masked][:, both.rows]) < TOLERANCE
    assert largest(output.logits[both.real] - both.hf(discriminator, filled).logits[both.real]) < TOLERANCE
    for part, expected in ((None, data.parent / "model"), ("generator", folder)):
        again = to_hf(report.output, data.parent / f"again-{part}", part=part)
        assert_same_tensors(stored(again.output), stored(expected))
        back = getattr(transformers, again.architecture).from_pretrained(again.output)
        assert_same_tensors(back.state_dict(), type(back).from_pretrained(expected).state_dict())
    with pytest.raises(TrueNegError, match=r"--part masked-lm: .* has none; expected one of discriminator, gen"):
        to_hf(report.output, data.parent / "no", part="masked-lm")


def test_flags_are_those_that_differ_from_the_architectures_defaults() -> None:
    electra = {"embedding_size": 128, "hidden_size": 64, "num_attention_heads": 1, "intermediate_size": 256}
    for kind, settings, expected in (
        ("BertConfig", {}, "bert"),
        ("BertConfig", {"hidden_dropout_prob": 0.2}, "bert --dropout 0.2 --pooler-dropout 0.2"),
        ("BertConfig", {"layer_norm_eps": 1e-5}, "bert --layer-norm-eps 1e-05"),
        ("ElectraConfig", electra, "electra "),
        ("RobertaConfig", {"layer_norm_eps": 1e-5, "type_vocab_size": 1}, "roberta "),
    ):
        config = model_config(getattr(transformers, kind)(**settings), Path("config.json"))
        assert " ".join(architecture_flags(config)).startswith(f"--arch {expected}")


@pytest.mark.parametrize(
    ("source", "classes"),
    [("BertForMaskedLM", 3), ("ElectraForPreTraining", 16), ("RobertaForMaskedLM", 2), ("ElectraForPreTraining", 1)],
)
def test_fine_tuned_classifiers(source: str, classes: int, data: Path) -> None:
    report = convert(random_model(source), data)
    ours, _ = load_with_fairseq(report.output, data)
    ours.register_classification_head("sentence_classification_head", num_classes=classes)
    with torch.no_grad():
        for parameter in ours.classification_heads.parameters():
            parameter.normal_(0.0, 0.3, generator=torch.Generator().manual_seed(parameter.numel()))
    (data / "label").mkdir()
    names = [f"name{index}" for index in range(classes)]
    # fairseq-preprocess pads its dictionaries.
    (data / "label" / "dict.txt").write_text("".join(f"{label} 9\n" for label in names) + "madeupword0000 0\n")

    again = to_hf(with_heads(report.output, data, ours.eval().state_dict()), data.parent / "again")
    assert again.architecture == source.split("For", maxsplit=1)[0] + "ForSequenceClassification"
    model = transformers.AutoModelForSequenceClassification.from_pretrained(again.output).eval()
    both = Both(data, TOKENS, *(SINGLE if source.startswith("Roberta") else PAIRS))
    with torch.no_grad():
        expected = ours(both.ids, features_only=True, classification_head_name="sentence_classification_head")[0]
    found = both.hf(model).logits
    assert found.shape == (3, classes)
    assert expected.std() > 0.2
    assert largest(found - expected) < TOLERANCE
    assert model.config.problem_type == ("regression" if classes == 1 else "single_label_classification")
    if classes > 1:
        assert model.config.id2label == dict(enumerate(names))


@pytest.mark.parametrize("source", ["BertForMaskedLM", "ElectraForPreTraining", "RobertaForMaskedLM"])
def test_question_answering(source: str, data: Path) -> None:
    """The head that is named question_answering_head: row 0 scores starts, row 1 ends."""
    report = convert(random_model(source), data)
    ours, _ = load_with_fairseq(report.output, data)
    head = torch.nn.Linear(32, 2)
    extra = {f"question_answering_head.out_proj.{name}": tensor for name, tensor in head.state_dict().items()}
    checkpoint = with_heads(report.output, data, extra)
    again = to_hf(checkpoint, data.parent / "again")
    assert again.architecture == source.split("For", maxsplit=1)[0] + "ForQuestionAnswering"
    model = transformers.AutoModelForQuestionAnswering.from_pretrained(again.output).eval()
    both = Both(data, TOKENS, *(SINGLE if source.startswith("Roberta") else PAIRS))
    outputs = both.hf(model)
    with torch.no_grad():
        expected = head(both.ours(ours, features_only=True)).unbind(-1)
    for found, logits in zip((outputs.start_logits, outputs.end_logits), expected, strict=True):
        assert largest(found[both.real] - logits) < TOLERANCE


def tokenizer_of(checkpoint: Path, folder: Path, **options):
    report = to_hf(checkpoint, folder, **options)
    assert not any("no tokenizer" in note for note in report.notes)
    return transformers.AutoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize("beside", [True, False], ids=["of binarize.py", "vocab.txt alone"])
def test_the_tokenizer_writes_what_the_data_hold(data: Path, beside: bool) -> None:
    """As pieces of a line between <s> and </s>, and two lines as BERT's pairs."""
    report = convert(random_model("BertForMaskedLM"), data)
    if beside:
        wordpiece_tokenizer(read_vocabulary(data / "vocab.txt")).save(data)
    tokenizer = tokenizer_of(report.output, data.parent / "hf")
    assert isinstance(tokenizer, transformers.BertTokenizer)
    pair = tokenizer("The CATS sat", "dog, [MASK] unknown", padding="max_length", max_length=13)
    pieces = "[CLS] the cat ##s sat [SEP] dog , [MASK] [UNK] [SEP] [PAD] [PAD]".split()
    assert pair["input_ids"] == [TOKENS.index(piece) for piece in pieces]
    assert pair["token_type_ids"] == [0] * 6 + [1] * 5 + [0] * 2
    assert pair["attention_mask"] == [1] * 11 + [0] * 2
    assert tokenizer.model_max_length == 24
    assert tokenizer.decode(tokenizer("cats sat")["input_ids"], skip_special_tokens=True) == "cats sat"


def test_without_a_vocabulary_the_dictionary_is_one(data: Path) -> None:
    model = random_model("BertForMaskedLM")
    report = convert(model, data)
    (data / "vocab.txt").unlink()
    again = to_hf(report.output, data.parent / "hf")
    assert any("numbered as in it" in note for note in again.notes)
    symbols = read_symbols(data)
    tokens = ["[CLS]", "[PAD]", "[SEP]", "[UNK]", *symbols[4:-1], "[MASK]"]
    assert (again.output / "vocab.txt").read_text().split() == tokens
    back = transformers.AutoModelForMaskedLM.from_pretrained(again.output).eval()
    assert back.config.pad_token_id == 1
    one, other = Both(data, TOKENS, *PAIRS), Both(data, tokens, *PAIRS)
    assert largest(one.logits(model) - other.logits(back)) < TOLERANCE
    tokenizer = transformers.AutoTokenizer.from_pretrained(again.output)
    assert tokenizer("a cat")["input_ids"] == [tokens.index(token) for token in ("[CLS]", "a", "cat", "[SEP]")]


def test_pairs_have_the_separators_that_they_were_trained_with(data: Path) -> None:
    """sentence_prediction's --separator-token, and RoBERTa, which knows no segments."""
    report = convert(random_model("BertForMaskedLM"), data)
    content = torch.load(report.output, weights_only=True)
    content["cfg"]["task"] = {"_name": "sentence_prediction", "separator_token": 2, "data": str(data)}
    torch.save(content, data.parent / "two.pt")
    tokenizer = tokenizer_of(data.parent / "two.pt", data.parent / "two")
    pieces = [TOKENS.index(piece) for piece in "[CLS] cat [SEP] [SEP] dog [SEP]".split()]
    assert tokenizer("cat", "dog")["input_ids"] == pieces
    assert tokenizer("cat", "dog")["token_type_ids"] == [0, 0, 0, 1, 1, 1]
    roberta = convert(random_model("RobertaForMaskedLM"), data, "roberta")
    inputs = tokenizer_of(roberta.output, data.parent / "roberta-hf")("cat", "dog")
    assert "token_type_ids" not in inputs
    assert inputs["input_ids"] == [TOKENS.index(piece) for piece in "[CLS] cat [SEP] dog [SEP]".split()]


@pytest.mark.parametrize("kind", ["another", "BERT's with accents"])
def test_a_tokenizer_beside_the_data_is_kept(data: Path, kind: str) -> None:
    from tokenizers import Tokenizer, normalizers

    report = convert(random_model("BertForMaskedLM"), data)
    tokenizer = Tokenizer.from_file(str(to_hf(report.output, data.parent / "hf").output / "tokenizer.json"))
    accents = normalizers.BertNormalizer(strip_accents=False)
    tokenizer.normalizer = normalizers.Replace("feline", "cat") if kind == "another" else accents
    tokenizer.save(str(data / "tokenizer.json"))
    found = tokenizer_of(report.output, data.parent / "kept")
    assert not isinstance(found, transformers.BertTokenizer)
    text, token = ("feline dog", "cat") if kind == "another" else ("cát dog", "[UNK]")
    assert found(text)["input_ids"] == [TOKENS.index(piece) for piece in ("[CLS]", token, "dog", "[SEP]")]
    assert found.mask_token == "[MASK]"


def assert_the_first_line_is_the_same(model, checkpoint: Path, folder: Path, data: Path, rows: torch.Tensor) -> None:
    """Its ids in the binarized data and from the exported tokenizer, and the logits of all three models."""
    numbers = torch.tensor([transformers.AutoTokenizer.from_pretrained(folder)(LINES[0])["input_ids"]])
    ids = torch.tensor([[0, *np.fromfile(data / "train.bin", np.uint16)[: numbers.size(1) - 1].tolist()]])
    assert int(ids[0, -1]) == 2
    assert torch.equal(rows[ids], numbers)
    back = transformers.AutoModelForMaskedLM.from_pretrained(folder).eval()
    ours, _ = load_with_fairseq(checkpoint, data)
    with torch.no_grad():
        logits = model(numbers).logits
        # RoBERTa's token type has been added to its positions.
        exact = 0 if model.config.model_type == "bert" else TOLERANCE
        assert largest(back(numbers).logits - logits) <= exact
        assert largest(ours(ids)[0] - logits[..., rows]) < TOLERANCE


@pytest.mark.parametrize("inside", [["<s>", "<pad>", "</s>", "<unk>", "<mask>"], []], ids=["inside", "as GPT-2"])
def test_byte_level_bpes(inside: list[str], tmp_path: Path) -> None:
    """With the special tokens inside vocab.json, as the tutorial of transformers trains it, they keep their numbers."""
    bpe, data = ByteLevelBPETokenizer(), tmp_path / "data"
    bpe.train_from_iterator(LINES * 3, 290, special_tokens=inside)
    bpe.save_model(str(tmp_path))
    (tmp_path / "text").write_text("\n".join(LINES))
    files = ("--tokenizer", tmp_path / "vocab.json", "--output-dir", data)
    truneg_data("binarize", "--train", tmp_path / "text", *files, "--workers", 1)
    symbols, tokens = read_symbols(data), sorted(bpe.get_vocab(), key=bpe.get_vocab().__getitem__)
    assert [symbol for symbol in symbols if symbol.isdigit()] == [str(number) for number in range(len(inside), 290)]
    if not inside:
        tokens = ["<s>", "<pad>", "</s>", "<unk>", *tokens, "<mask>"]
    rows = torch.tensor([tokens.index(bpe.id_to_token(int(s)) if s.isdigit() else s) for s in symbols])

    model = random_model("RobertaForMaskedLM", tokens=tokens)
    model.save_pretrained(roberta := tmp_path / "roberta")
    (roberta / "vocab.json").write_text(json.dumps({token: row for row, token in enumerate(tokens)}))
    (roberta / "merges.txt").write_bytes((data / "vocab.bpe").read_bytes())
    report = from_hf(roberta, data, tmp_path / "roberta.pt")
    found = tokenizer_of(report.output, tmp_path / "hf")
    # As in the released ones: the mask takes the space before it.
    mask = transformers.AddedToken("<mask>", lstrip=True, special=True)
    expected = transformers.RobertaTokenizer.from_pretrained(roberta, mask_token=mask)
    assert type(found) is type(expected)
    assert found.get_vocab() == expected.get_vocab()
    for inputs in ((LINES[0],), (" The café", "dogs<mask> saw <mask>"), ("",)):
        assert found(*inputs).data == expected(*inputs).data
    assert_the_first_line_is_the_same(model, report.output, tmp_path / "hf", data, rows)
    (data / "vocab.bpe").unlink()
    assert any("no tokenizer" in note for note in to_hf(report.output, tmp_path / "without").notes)


@pytest.mark.parametrize("kind", FAST_KINDS)
def test_any_fast_tokenizer_comes_back_with_its_ids(kind: str, tmp_path: Path) -> None:
    """What is trained on it has the same ids and logits in transformers."""
    folder, data, bert = fast_tokenizer(kind, tmp_path / "hf", LINES), tmp_path / "data", tmp_path / "bert"
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in LINES))
    arguments = ("--train", tmp_path / "text", "--tokenizer", folder, "--output-dir", data, "--workers", 1)
    truneg_data("binarize", *arguments)
    own = Tokenizer.from_file(str(data / "tokenizer.json")).get_vocab()
    model = random_model("BertForMaskedLM", tokens=sorted(own, key=own.__getitem__))
    model.save_pretrained(bert)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (bert / name).write_bytes((data / name).read_bytes())
    report = from_hf(bert, data, tmp_path / "bert.pt")
    found, original = (
        tokenizer_of(report.output, tmp_path / "again"),
        transformers.AutoTokenizer.from_pretrained(folder),
    )
    assert found.get_vocab() == own
    assert original.get_vocab().items() <= own.items()
    for line in (LINES[0], "  Thé dog    sat", f"a {found.mask_token} sat."):
        assert found(line, add_special_tokens=False).input_ids == original(line, add_special_tokens=False).input_ids
    numbers = found(LINES[0])["input_ids"]
    assert found.convert_ids_to_tokens([numbers[0], numbers[-1]]) == [found.cls_token, found.sep_token]
    pair = found(LINES[0], LINES[1])
    assert pair["token_type_ids"] == [0] * len(numbers) + [1] * (len(pair["input_ids"]) - len(numbers))
    rows = rows_by_id(find_vocabulary([data]), read_dictionary(data))
    assert_the_first_line_is_the_same(model, report.output, tmp_path / "again", data, rows)
