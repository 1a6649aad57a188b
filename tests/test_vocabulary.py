"""Whole words and pieces of dictionaries."""

from __future__ import annotations

import json

import pytest
import torch
from support.tokenizers_made import fast_tokenizer

from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.vocabulary import (
    Vocabulary,
    WordBoundaries,
    detect_tokenization,
    fingerprint,
    read_symbols,
    tokenization_of,
)

SPECIALS = ["<s>", "<pad>", "</s>", "<unk>"]


def facts(vocabulary: Vocabulary) -> dict[str, tuple[str | None, bool]]:
    known = zip(vocabulary.words, vocabulary.continues.tolist(), strict=True)
    return dict(zip(vocabulary.symbols, known, strict=True))


@pytest.mark.parametrize(
    ("tokenization", "words", "pieces", "others"),
    [
        ("wordpiece", ["primary", "#", ",", "the"], ["##s", "##ing"], []),
        ("sentencepiece", ["\u2581the"], ["s"], ["\u2581", ","]),
        ("gpt2", ["\u0120the", "\u0120caf\u00c3\u00a9"], ["s"], [","]),
        ("subword-nmt", ["primary", "ary", ","], [], ["prim@@", "c@@"]),
        ("words", ["primary", "1984", "Main"], [], []),
    ],
)
def test_marks_of_words(tokenization, words, pieces, others):
    """Words, pieces that continue one, and what is neither."""
    vocabulary = Vocabulary.from_symbols([*SPECIALS, *words, *pieces, *others, "<mask>"])
    assert vocabulary.tokenization == tokenization
    assert facts(vocabulary) == {
        **{word: (word.strip("\u2581\u0120").replace("\u00c3\u00a9", "é"), False) for word in words},
        **dict.fromkeys(pieces, (None, True)),
        **dict.fromkeys([*SPECIALS, *others, "<mask>"], (None, False)),
    }


def test_a_few_capitals_make_no_cased_vocabulary():
    words = [chr(97 + first) + chr(97 + second) for first in range(4) for second in range(26)]
    assert Vocabulary.from_symbols([*SPECIALS, *words, "URL", "[unused0]"]).lower_case
    assert not Vocabulary.from_symbols([*SPECIALS, *words, *map(str.capitalize, words[:6])]).lower_case


def test_an_added_token_is_a_word_in_the_spelling_of_the_trained_ones():
    for words, expected in ((["the", "##s"], "cafe"), (["The", "##s"], "Café")):
        found = Vocabulary.from_symbols([*SPECIALS, *words, "Café"], added=["Café"])
        assert found.words[-1] == expected
        assert found.spelled("Café") == expected


GPT2 = ["\u0120the", "\u0120caf\u00c3\u00a9", "s", ","]


def test_combining_marks_and_parts_of_characters_continue_a_word():
    """Hindi's vowel signs, and the two bytes of a letter that GPT-2's merges leave apart."""
    hindi = Vocabulary.from_symbols(["<s>", "\u2581\u0915", "\u093f", "\u0924", ","], "sentencepiece")
    assert [facts(hindi)[symbol][1] for symbol in ("\u093f", "\u0924", ",")] == [True, True, False]
    bytewise = Vocabulary.from_symbols(["<s>", "\u0120Erd", "\u00c5", "\u0133", "s", ","], "gpt2")
    assert [facts(bytewise)[symbol][1] for symbol in ("\u00c5", "\u0133", "s", ",")] == [True, True, True, False]


def test_fairseqs_numeric_gpt2_dictionary(tmp_path):
    (tmp_path / "encoder.json").write_text(json.dumps({token: 7 * number for number, token in enumerate(GPT2)}))
    symbols = [*SPECIALS, "0", "7", "14", "21", "madeupword0000", "<mask>"]
    assert detect_tokenization(symbols) == "gpt2"
    vocabulary = Vocabulary.from_symbols(symbols, gpt2_encoder_json=tmp_path / "encoder.json")
    assert (facts(vocabulary)["0"], facts(vocabulary)["14"]) == (("the", False), (None, True))
    assert [vocabulary.name_of(symbols.index(number)) for number in ("0", "14")] == ["the", "s"], "no numbers"
    with pytest.raises(TrueNegError, match=r"not in a file .*; put the encoder\.json that .* beside dict\.txt"):
        Vocabulary.from_symbols(symbols)
    with pytest.raises(TrueNegError, match=r"1 of its symbols .* not in .*encoder\.json \(e\.g\. 99999\)"):
        Vocabulary.from_symbols([*symbols, "99999"], gpt2_encoder_json=tmp_path / "encoder.json")


@pytest.mark.parametrize(
    ("kind", "tokenization"), [("wordpiece", "wordpiece"), ("unigram", "sentencepiece"), ("byte-level", "gpt2")]
)
def test_a_tokenizer_knows_its_marks_though_few_symbols_have_them(kind, tokenization, tmp_path):
    """Japanese: 0.2 % of the pieces begin with a space."""
    content = json.loads((fast_tokenizer(kind, tmp_path) / "tokenizer.json").read_text(encoding="utf-8"))
    assert tokenization_of(json.dumps(content)) == tokenization
    content["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [{"type": "Digits"}, content["pre_tokenizer"]]}
    content["decoder"] = None
    assert tokenization_of(json.dumps(content)) == tokenization
    content |= {"pre_tokenizer": None, "model": {"type": "BPE"}}
    assert tokenization_of(json.dumps(content)) == "auto"


def test_marks_of_xlm_are_refused():
    with pytest.raises(TrueNegError, match="have the mark of BPE with </w>"):
        detect_tokenization([*SPECIALS, "prim</w>", "ary", "main"])


def test_subword_nmt_marks_the_piece_that_is_unfinished():
    """As fastBPE does: "prim@@ ary main" is two words, and only the second one is whole in one token."""
    vocabulary = Vocabulary.from_symbols([*SPECIALS, "prim@@", "ary", "main", "@@"])
    boundaries = WordBoundaries(torch.from_numpy(vocabulary.continues), torch.from_numpy(vocabulary.unfinished))
    tokens = torch.tensor([[0, 4, 5, 6, 2], [4, 4, 5, 6, 6], [0, 6, 6, 6, 2], [0, 6, 6, 6, 6], [5, 6, 6, 6, 6]])
    assert boundaries.whole(tokens).tolist() == [
        [True, False, False, True, True],
        [False, False, False, True, True],
        [True, True, True, True, True],
        [False, False, True, True, True],  # cut from a text: what is before the first token is not known
        [False, True, True, True, True],
    ]
    assert list(map(vocabulary.name_of, (4, 5, 6))) == ["prim@@", "ary", "main"]
    assert vocabulary.text_of((4, 5, 6)) == "primary main"


def test_fingerprint_ignores_only_what_fairseqs_tasks_add_at_the_end():
    symbols = [*SPECIALS, "a", "b"]
    assert fingerprint(symbols) == fingerprint([*symbols, "<mask>"]) == fingerprint([*symbols, "[de_DE]", "<mask>"])
    assert len({fingerprint(each) for each in (symbols, [*SPECIALS, "<mask>", "a", "b"], [*SPECIALS, "b", "a"])}) == 3


@pytest.mark.parametrize(
    "text",
    [
        "a 1\nb 2\n",
        "a 1\n<unk> 3 #fairseq:overwrite\nb 2\n",
        "a 1\nb b 2\n",  # a symbol with a space in it
        "a 1\n<mask> 1\nb 1\n",  # the mask is already there
        "## 4\n##s 1\n\u2581x 9",
    ],
)
def test_dictionaries_are_read_as_fairseq_reads_them(text, tmp_path):
    from fairseq.data import Dictionary

    path = tmp_path / "dict.txt"
    path.write_text(text, encoding="utf-8")
    dictionary = Dictionary.load(str(path))
    dictionary.add_symbol("<mask>")
    assert read_symbols(path) == read_symbols(tmp_path) == dictionary.symbols


def test_broken_dictionaries_are_named(tmp_path):
    path = tmp_path / "dict.txt"
    for content, message in (
        (b"a 1\nb\n", "line 2 is 'b', expected 'symbol count'"),
        (b"a 1\na 2\n", "line 2 is 'a 2', expected 'symbol count', each symbol once"),
    ):
        path.write_bytes(content)
        with pytest.raises(TrueNegError, match=rf"dict\.txt: {message}"):
            read_symbols(path)
