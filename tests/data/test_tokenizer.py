"""The kinds of tokenizers behind one interface: symbols, places in the text, files."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.commands import bert_vocabulary
from support.tokenizers_made import FAST_KINDS, WORDS, fast_tokenizer, gpt2, sentencepiece, wordpiece

from truneg_fairseq.data.tokenizer import (
    BERT_SPECIALS,
    FastTokenizer,
    Gpt2Tokenizer,
    SentencePieceTokenizer,
    TextTokenizer,
    TokenizerOptions,
    bert_tokenizer,
    load_tokenizer,
    read_vocabulary,
    vocabulary_of,
    wordpiece_tokenizer,
)
from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.vocabulary import SPECIAL_SYMBOLS, gpt2_text

GPT2 = gpt2()
GPT2_TOKENS = list(json.loads(GPT2.contents()["encoder.json"]))
MAKERS = {"wordpiece": wordpiece, "sentencepiece": sentencepiece, "gpt2": gpt2}


@pytest.fixture(scope="module", params=MAKERS)
def tokenizer(request) -> TextTokenizer:
    made = MAKERS[request.param]()
    assert made.tokenization == request.param
    return made


def test_symbols_are_those_of_the_dictionary():
    assert wordpiece().encode("The cats, unhappiness! Café 犬 日 [MASK]") == [
        *("the", "cat", "##s", ",", "un", "##happi", "##ness", "!", "cafe", "<unk>", "日", "[", "mask", "]")
    ]
    assert wordpiece().symbols() == tuple(WORDS[5:])
    assert [GPT2_TOKENS[int(symbol)] for symbol in GPT2.encode("the cat ü")] == ["the", "Ġcat", "Ġ", "Ã¼"]
    assert GPT2.symbols() == tuple(map(str, range(265)))
    assert GPT2.encode("<|endoftext|>") != ["264"]
    pieces = sentencepiece()
    assert "<unk>" in pieces.encode("the 犬")
    assert "".join(pieces.encode("the cat")) == "▁the▁cat"
    assert {"▁the", "狗"} <= set(pieces.symbols())


ANY_TEXT = st.text(
    st.one_of(st.sampled_from("the cats<unk>ü狗ﬁ \t\u00a0\u3000"), st.characters(exclude_categories=["Cs"])),
    max_size=30,
)


@pytest.mark.parametrize("kind", FAST_KINDS)
def test_any_fast_tokenizer(kind, tmp_path):
    fast = FastTokenizer.load(fast_tokenizer(kind, tmp_path / "hf"))
    symbols = fast.symbols()
    assert len(set(symbols)) == len(symbols) == len(fast.symbol_of) - 5
    assert not set(symbols) & SPECIAL_SYMBOLS
    text = "the cat    sat [MASK] <mask> <eos>"
    encoded = fast.encode_with_offsets(text)
    assert [symbol for symbol, *_ in encoded] == fast.encode(text)
    assert all(symbol.split() == [symbol] for symbol in symbols)
    assert not set(fast.encode(text)) & (SPECIAL_SYMBOLS - {"<unk>"})
    fast.save(tmp_path / "data")
    again = load_tokenizer(tmp_path / "data")
    assert (again.contents(), again.symbol_of) == (fast.contents(), fast.symbol_of)
    found = vocabulary_of(["<s>", "<pad>", "</s>", "<unk>", *symbols, "<mask>"], tmp_path / "data")
    marks = {"wordpiece": "wordpiece", "byte-level": "gpt2", "tutorial": "words"}
    assert found.tokenization == marks.get(kind, "sentencepiece")
    assert kind == "unigram" or "the" in found.words
    if kind == "byte-level":
        escaped = [index for index, symbol in enumerate(found.symbols) if symbol.startswith("<id:")]
        assert len(escaped) == 3
        assert not any(found.words[index] or found.continues[index] for index in escaped)


def test_special_tokens_that_are_not_there_are_added(tmp_path):
    """GPT-2's: the end of a text has three roles, and nothing is a mask."""
    from tokenizers import Tokenizer

    folder = fast_tokenizer("byte-level", tmp_path)
    content = json.loads((folder / "tokenizer.json").read_text())
    content["added_tokens"] = []
    for number, token in enumerate(BERT_SPECIALS):
        content["model"]["vocab"][f"<|{number}|>"] = content["model"]["vocab"].pop(token)
    (folder / "tokenizer.json").write_text(json.dumps(content))
    end = "<|0|>"
    (folder / "tokenizer_config.json").write_text(
        json.dumps(dict.fromkeys(("bos_token", "eos_token", "unk_token"), end))
    )
    fast = FastTokenizer.load(folder)
    names = {"<s>": end, "<pad>": "<pad>", "</s>": "</s>", "<unk>": "<unk>", "<mask>": "<mask>"}
    assert fast.special_tokens == names
    plain = Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert fast.symbol_of[: plain.get_vocab_size()] == ("<unk>", *fast.symbols())
    assert len(fast.symbol_of) == plain.get_vocab_size() + 4


@settings(max_examples=60, deadline=None)
@given(ANY_TEXT)
def test_places_are_in_the_text_and_tell_the_symbols(tokenizer, text):
    encoded = tokenizer.encode_with_offsets(text)
    assert [symbol for symbol, *_ in encoded] == tokenizer.encode(text)
    starts = [start for _, start, _ in encoded]
    assert starts == sorted(starts)
    for symbol, start, end in encoded:
        assert 0 <= start <= end <= len(text)
        surface = text[start:end]
        assert surface == surface.strip()
        if tokenizer.tokenization == "gpt2" and surface and surface.isascii():
            assert gpt2_text([GPT2_TOKENS[int(symbol)]]).strip() == surface
        if tokenizer.tokenization == "wordpiece" and surface.isascii() and symbol != "<unk>":
            assert symbol.removeprefix("##") == "".join(c for c in surface.lower() if c.isprintable())
    assert {symbol for symbol, *_ in encoded} <= {*tokenizer.symbols(), "<unk>"}


def test_symbols_are_no_special_ones_and_each_is_there_once(tokenizer):
    symbols = tokenizer.symbols()
    assert len(set(symbols)) == len(symbols)
    assert not set(symbols) & SPECIAL_SYMBOLS
    assert tokenizer.encode("") == []


def test_the_flag_takes_every_kind_of_file(tmp_path):
    for name, made in MAKERS.items():
        made().save(tmp_path / name)
    (tmp_path / "vocab.txt").write_text("".join(f"{word}\n" for word in WORDS), encoding="utf-8")
    (tmp_path / "merges.txt").write_bytes((tmp_path / "gpt2" / "vocab.bpe").read_bytes())
    (tmp_path / "vocab.json").write_bytes((tmp_path / "gpt2" / "encoder.json").read_bytes())
    for path, name in (
        *((name, name) for name in MAKERS),
        ("vocab.txt", "wordpiece"),
        ("wordpiece/tokenizer.json", "wordpiece"),
        ("sentencepiece/sentencepiece.model", "sentencepiece"),
        ("gpt2/encoder.json", "gpt2"),
        ("vocab.json", "gpt2"),
    ):
        assert TokenizerOptions(tokenizer=tmp_path / path).load().contents() == MAKERS[name]().contents(), path


def test_a_cased_tokenizer_keeps_case_and_the_vowel_signs_of_scripts_without_capitals(tmp_path):
    words = ["The", "the", "हिन्दी", "がく", "น้ำ", "السَّلام"]
    wordpiece_tokenizer([*BERT_SPECIALS, *words], cased=True).save(tmp_path)
    assert load_tokenizer(tmp_path).encode(" ".join([*words, "THE"])) == [*words, "<unk>"]


def test_sentencepieces_own_symbols_never_come_from_text():
    pieces = sentencepiece(user_defined_symbols=["<mask>", "<ent>"], pad_id=3)
    assert "<mask>" not in pieces.symbols()
    assert "<ent>" in pieces.symbols()
    assert "<unk>" in pieces.encode("the <mask> cat")
    assert not SPECIAL_SYMBOLS - {"<unk>"} & set(pieces.encode("<s> <pad> </s> <mask>"))
    bytes_too = sentencepiece(byte_fallback=True, vocab_size=400)
    assert bytes_too.encode_with_offsets("犬")[-3:] == [("<0xE7>", 0, 0), ("<0x8A>", 0, 0), ("<0xAC>", 0, 1)]


def test_the_tokenizer_beside_the_data_tells_how_words_are_marked(tmp_path):
    """Few pieces of languages without spaces have SentencePiece's mark."""
    symbols = ["<s>", "<pad>", "</s>", "<unk>", "▁", "日", "本", *(chr(0x4E00 + n) for n in range(500)), "<mask>"]
    with pytest.raises(TrueNegError, match=r"0\.2% of the symbols have the mark of sentencepiece.*--tokenization"):
        vocabulary_of(symbols, tmp_path)
    assert vocabulary_of(symbols, tmp_path, tokenization="words").words[5] == "日"
    sentencepiece().save(tmp_path)
    found = vocabulary_of(symbols, tmp_path)
    assert (found.tokenization, found.words[5], bool(found.continues[5])) == ("sentencepiece", None, True)
    assert vocabulary_of(symbols, tmp_path, tokenization="words").words[5] == "日"


def test_added_tokens_are_words(tmp_path):
    tokens = json.loads(GPT2.contents()["encoder.json"])
    byte = Gpt2Tokenizer(json.dumps({**tokens, "covid": len(tokens)}).encode(), GPT2.contents()["vocab.bpe"])
    for tokenizer, symbol in ((sentencepiece(user_defined_symbols=["covid"]), "covid"), (byte, str(len(tokens)))):
        tokenizer.save(tmp_path / tokenizer.tokenization)
        found = vocabulary_of(
            ["<s>", "<pad>", "</s>", "<unk>", *tokenizer.symbols()], tmp_path / tokenizer.tokenization
        )
        index = found.symbols.index(symbol)
        assert (found.words[index], bool(found.continues[index])) == ("covid", False)
        assert tokenizer.added_symbols == {symbol}
    assert found.words[found.symbols.index(str(tokens["cat"]))] is None


def test_what_is_no_tokenizer_is_one_line(tmp_path):
    gpt2().save(tmp_path / "both")
    wordpiece().save(tmp_path / "both")
    for name, lines in (("cased.txt", [*BERT_SPECIALS, "The"]), ("cut", WORDS[2:]), ("twice", [*WORDS, "cat"])):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    for message, call in (
        ("entries with upper-case letters.*add --cased", TokenizerOptions(tokenizer=tmp_path / "cased.txt").load),
        (r"has no \[PAD\], \[UNK\] among its 16 lines", lambda: read_vocabulary(tmp_path / "cut")),
        ("has entries that are repeated among its 19 lines", lambda: read_vocabulary(tmp_path / "twice")),
        ("has no tokenizer beside its data, or several; expected one, as", lambda: load_tokenizer(tmp_path)),
        ("has no tokenizer beside its data, or several; expected one", lambda: load_tokenizer(tmp_path / "both")),
        ("tokenizer.json: no such file; expected a fast tokenizer", lambda: FastTokenizer.load(tmp_path)),
        ("encoder.json: cannot be read", lambda: FastTokenizer.load(tmp_path / "both" / "encoder.json")),
        ("expected a SentencePiece model", lambda: SentencePieceTokenizer(b"junk")),
        ("it is empty.*expected a SentencePiece", lambda: SentencePieceTokenizer(b"")),
        ("expected GPT-2's tokens", lambda: Gpt2Tokenizer(b'{"a": 0}', b"#version: 0.2\nq q\n")),
        ("has white space", lambda: sentencepiece(user_defined_symbols=["a b"])),
    ):
        with pytest.raises(TrueNegError, match=message) as error:
            call()
        assert "\n" not in str(error.value)


TRICKY = [
    "Hello, world!  It's 3.14 o'clock -- isn't it?",
    "Zażółć gęślą jaźń; naïve façade, Ångström, İstanbul, ß, ﬁ",
    "東京 is 日本's capital。한국어 텍스트 и русский текст",
    "a" * 100 + " " + "b" * 101,
    "\ufeffsoft\u00adhyphen zero\u200bwidth e\u0301 \u202eright-to-left \ufffd \ue000 \t tab\x0cfeed\u2028 \0.",
    "http://example.org/path?query=1&other=2 user@example.org #hashtag 😀👍🏽 <s> [MASK]",
]


@settings(max_examples=100, deadline=None)
@given(st.one_of(st.sampled_from(TRICKY), st.text(st.characters(exclude_categories=["Cs"]), max_size=60)))
def test_any_text_is_read_as_transformers_reads_it(bert, line):
    reference, tokenizer = bert
    pieces = tokenizer.encode(line, add_special_tokens=False).tokens
    assert pieces == reference.tokenize(line, split_special_tokens=True)  # "[PAD]" in a text is no padding
    # fairseq separates symbols at every kind of white space.
    assert all(piece.split() == [piece] for piece in pieces)
    assert not set(pieces) & (set(BERT_SPECIALS) - {"[UNK]"})


@pytest.fixture(scope="module")
def bert():
    from transformers import BertTokenizer

    path = bert_vocabulary()
    return BertTokenizer(vocab=str(path), do_lower_case=True), bert_tokenizer(read_vocabulary(path))


SCRIPT = Path(__file__).resolve().parents[2] / "data-bin-scripts" / "train_wordpiece.py"
DOGS = ["The dogs barked at the Café.", "", "[MASK] the dog barks, the cat purrs!", "unbarked 狗", "q" * 30_000] * 20


def test_a_vocabulary_is_trained_the_same_in_every_process_and_spells_its_text(tmp_path, monkeypatch, capsys):
    text, vocab, other = (tmp_path / name for name in ("text.txt", "new/vocab.txt", "other.txt"))
    text.write_text("\n".join(DOGS) + "\n", encoding="utf-8")
    command = [sys.executable, SCRIPT, "--inputs", text, text, "--vocab-size", "60", "--output"]
    done = subprocess.run([*command, vocab], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"{vocab}: 60 entries\nnext: truneg data binarize --tokenizer {vocab}")

    def train(*arguments: object) -> None:
        monkeypatch.setattr(sys, "argv", list(map(str, (SCRIPT, *arguments))))
        runpy.run_path(str(SCRIPT), run_name="__main__")

    train(*command[2:], other)
    assert vocab.read_bytes() == other.read_bytes()
    vocabulary = read_vocabulary(vocab)
    assert tuple(vocabulary[:5]) == BERT_SPECIALS and "the" in vocabulary
    assert vocabulary == [entry.lower() if entry not in BERT_SPECIALS else entry for entry in vocabulary]
    assert "q" not in vocabulary, "a word without an end is left out"
    encoded = bert_tokenizer(vocabulary).encode(" ".join(DOGS[:4]), add_special_tokens=False).tokens
    assert not {"[UNK]", "[MASK]"} & set(encoded), "a literal [MASK] in the text is ordinary text"
    train("--inputs", text, "--output", other, "--cased")
    assert {"The", "the", "Café"} <= set(read_vocabulary(other))
    assert "of 30,522: the text has no more" in capsys.readouterr().out
    text.write_text("\n \n", encoding="utf-8")
    with pytest.raises(SystemExit, match=r"text\.txt: no text to learn words from"):
        train("--inputs", text, "--output", tmp_path / "none.txt")
