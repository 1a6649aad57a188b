"""BART: fairseq's and transformers' compute the same, and converting there and back changes no bit."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from support.commands import PLUGIN, WORDS, run_command, truneg, truneg_data, write_sentences
from support.convert_models import TOKENS, assert_same_tensors, load_with_fairseq, randomize, save, stored
from support.convert_models import write_dictionary as write_dict
from support.translations import TRAINING, write_translations

import truneg_fairseq
from truneg_fairseq.convert.from_hf import from_hf
from truneg_fairseq.convert.rows import find_vocabulary
from truneg_fairseq.convert.to_hf import to_hf
from truneg_fairseq.data.tokenizer import BERT_SPECIALS
from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.models.checkpoints import read_checkpoint

transformers = pytest.importorskip("transformers")
truneg_fairseq.register()

TOLERANCE = 1e-6
SIZES = {
    **{"d_model": 16, "encoder_layers": 2, "decoder_layers": 1, "encoder_attention_heads": 2, "pad_token_id": 0},
    **{"decoder_attention_heads": 4, "encoder_ffn_dim": 24, "decoder_ffn_dim": 40, "max_position_embeddings": 20},
}
SMALL = [
    part
    for side, layers, ffn, heads in (("encoder", 2, 24, 2), ("decoder", 1, 40, 4))
    for name, value in (("layers", layers), ("embed-dim", 16), ("ffn-embed-dim", ffn), ("attention-heads", heads))
    for part in (f"--{side}-{name}", value)
]


def random_bart(tokens: list[str], **settings: object):
    config = transformers.BartConfig(vocab_size=len(tokens), **{**SIZES, **settings})
    model = randomize(transformers.BartForConditionalGeneration(config))
    model.final_logits_bias.zero_()
    return model


def sentences(dictionary, rows: list[int], ends: list[int]) -> torch.Tensor:
    """Random ones of fairseq's numbers, int64, shape (2, 8), one padded on the right."""
    generator = torch.Generator().manual_seed(3)
    ids = torch.tensor(rows)[torch.randint(len(rows), (2, 8), generator=generator)]
    for row, length in enumerate((8, 5)):
        ids[row, length - len(ends) : length] = torch.tensor(ends)
        ids[row, length:] = dictionary.pad()
    return ids


def largest_difference(checkpoint: Path, data: Path, folder: Path, **overrides: object) -> tuple[float, float]:
    """Of the logits of both sides on the same sentences; beside it the spread of fairseq's."""
    ours, task = load_with_fairseq(checkpoint, data, **overrides)
    theirs = transformers.BartForConditionalGeneration.from_pretrained(folder).eval()
    dictionary, vocabulary = task.target_dictionary, find_vocabulary([folder])
    assert vocabulary is not None
    row_of = {token: row for row, token in enumerate(vocabulary.tokens)}
    rows = torch.tensor([row_of[vocabulary.special_tokens.get(token, token)] for token in dictionary.symbols])
    source = sentences(dictionary, list(range(4, len(dictionary))), [dictionary.eos()])
    target = sentences(dictionary, list(range(4, len(dictionary))), [dictionary.eos()])
    lengths = source.ne(dictionary.pad()).sum(1)
    real = target.ne(dictionary.pad())
    with torch.no_grad():
        expected = ours(source, lengths, target)[0][real]
        found = theirs(
            input_ids=rows[source],
            attention_mask=source.ne(dictionary.pad()).long(),
            decoder_input_ids=rows[target],
        ).logits[real][:, rows]
    return float((found - expected).abs().max()), float(expected.std())


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = write_dict(tmp_path / "data-bin", TOKENS)
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in TOKENS))
    return folder


def test_transformers_bart_there_and_back(data: Path, tmp_path: Path) -> None:
    save(random_bart(TOKENS), tmp_path / "bart")
    report = from_hf(tmp_path / "bart", data, tmp_path / "bart.pt")
    difference, spread = largest_difference(report.output, data, tmp_path / "bart")
    assert spread > 0.5 and difference < TOLERANCE
    again = to_hf(report.output, tmp_path / "again")
    assert again.architecture == "BartForConditionalGeneration" and not any("left out" in n for n in again.notes)
    assert_same_tensors(stored(again.folder), stored(tmp_path / "bart"))
    config = transformers.AutoConfig.from_pretrained(again.folder)
    assert all(getattr(config, name) == value for name, value in SIZES.items())
    tokenizer = transformers.AutoTokenizer.from_pretrained(again.folder)
    words = ["[CLS]", *"the cat ##s sat".split(), "[SEP]"]
    assert tokenizer.convert_ids_to_tokens(tokenizer("the cats sat")["input_ids"]) == words
    assert tokenizer.mask_token == "[MASK]"


@pytest.mark.slow
def test_a_trained_denoiser_there_and_back(tmp_path: Path) -> None:
    write_sentences(tmp_path / "text.txt", 60, seed=1)
    (tmp_path / "vocab.txt").write_text(
        "".join(f"{token}\n" for token in (*BERT_SPECIALS, *WORDS, "##s", "##ing", "##ly"))
    )
    data = tmp_path / "data-bin"
    truneg_data(
        *("binarize", "--train", tmp_path / "text.txt", "--valid", tmp_path / "text.txt"),
        *("--tokenizer", tmp_path / "vocab.txt", "--output-dir", data, "--workers", 1),
    )
    masks = "--mask 0.3 --mask-length subword --replace-length 1 --tokens-per-sample 32 --rotate 0".split()
    train(data, tmp_path, "--task", "denoising", *masks, "--label-smoothing", 0.1)
    there_and_back(tmp_path / "checkpoint_last.pt", data, tmp_path)


@pytest.mark.slow
def test_a_trained_translator_there_and_back_translates_alike(tmp_path: Path) -> None:
    """One dictionary, tags of languages: the decoder begins with the target's."""
    data = write_translations(tmp_path / "pairs", joined=True)
    train(data, tmp_path, "--task", "translation_from_pretrained_bart", "--langs", "en,de", "-s", "de", "-t", "en")
    folder = there_and_back(tmp_path / "checkpoint_last.pt", data, tmp_path)
    ours, task = load_with_fairseq(tmp_path / "checkpoint_last.pt", data)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    given = tokenizer("ein mann läuft im park", return_tensors="pt")
    symbols = "ein mann läuft im park </s> [de]"
    source = task.source_dictionary.encode_line(symbols, append_eos=False, add_if_not_exist=False).long()[None]
    assert tokenizer.convert_ids_to_tokens(given["input_ids"][0]) == symbols.split()
    settings = type("Settings", (), {"beam": 1, "max_len_b": 12})()
    sample = {"net_input": {"src_tokens": source, "src_lengths": torch.tensor([source.size(1)])}}
    expected = task.build_generator([ours], settings).generate([ours], sample)[0][0]["tokens"]
    with torch.no_grad():
        found = model.generate(**given, max_new_tokens=13, min_new_tokens=1, num_beams=1, do_sample=False)[0, 1:]
    assert tokenizer.convert_ids_to_tokens(found) == [task.target_dictionary[token] for token in expected]


def train(data: Path, folder: Path, *flags: object) -> None:
    command = [data, "--arch", "bart_base", *SMALL, "--criterion", "label_smoothed_true_neg", *flags, *TRAINING]
    ends = ["--max-update", 3, "--save-dir", folder, "--no-epoch-checkpoints", "--required-batch-size-multiple", 1]
    run_command([sys.executable, "-m", "fairseq_cli.train", *command, "--user-dir", PLUGIN, *ends])


def there_and_back(checkpoint: Path, data: Path, place: Path) -> Path:
    run_command(truneg("convert", "to-hf", checkpoint, place / "bart"))
    difference, spread = largest_difference(checkpoint, data, place / "bart")
    assert spread > 0.1 and difference < TOLERANCE
    run_command(truneg("convert", "from-hf", place / "bart", "--data", data, "--output", place / "back.pt"))
    before, after = (read_checkpoint(path) for path in (checkpoint, place / "back.pt"))
    assert_same_tensors(after.state, before.state)
    largest_difference(place / "back.pt", data, place / "bart")  # its task loads, too
    return place / "bart"


REFUSED = {
    "scale_embedding": ({"scale_embedding": True}, "scale_embedding is True, expected False"),
    "untied": ({"tie_word_embeddings": False}, "tie_word_embeddings is False, expected True"),
    "activation": ({"activation_function": "relu"}, "activation_function is 'relu', expected 'gelu'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_other_nets_of_transformers_are_refused(case: str, data: Path, tmp_path: Path) -> None:
    settings, message = REFUSED[case]
    save(random_bart(TOKENS, **settings), tmp_path / "bart")
    with pytest.raises(TrueNegError, match=message):
        from_hf(tmp_path / "bart", data, tmp_path / "bart.pt")


def test_a_bias_of_the_logits_is_refused(data: Path, tmp_path: Path) -> None:
    model = random_bart(TOKENS)
    model.final_logits_bias[0, 3] = 0.5
    save(model, tmp_path / "bart")
    with pytest.raises(TrueNegError, match="final_logits_bias is not zero"):
        from_hf(tmp_path / "bart", data, tmp_path / "bart.pt")


@pytest.mark.parametrize(
    ("argument", "value"),
    [("no_scale_embedding", False), ("share_all_embeddings", False), ("encoder_normalize_before", True)],
)
def test_other_nets_of_fairseq_are_refused(argument: str, value: bool, data: Path, tmp_path: Path) -> None:
    report = from_hf(save(random_bart(TOKENS), tmp_path / "bart"), data, tmp_path / "bart.pt")
    content = torch.load(report.output, weights_only=True)
    setattr(content["cfg"]["model"], argument, value)
    torch.save(content, report.output)
    with pytest.raises(TrueNegError, match=f"was trained with {argument} {value}, expected"):
        to_hf(report.output, tmp_path / "again")
