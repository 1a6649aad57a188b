"""Tokens as text, by kind of dictionary."""

from __future__ import annotations

import pytest

from truneg_fairseq.inspection.sentences import join_tokens, spelled_token, word_of
from truneg_fairseq.vocabulary import Vocabulary

# What GPT-2's tokenizer makes of: He said \u201ccaf\u00e9 is so\u201d
GPT2 = "<s> He \u0120said \u0120\u00e2\u0122\u013e caf \u00c3\u00a9 \u0120is \u0120so \u00e2\u0122 \u013f </s>".split()


@pytest.mark.parametrize(
    ("symbols", "tokenization", "text"),
    [
        (["<s>", "the", "prim", "##ary", "</s>"], "wordpiece", "the primary"),
        (["\u2581the", "\u2581prim", "ary"], "sentencepiece", "the primary"),
        (GPT2, "gpt2", "He said \u201ccaf\u00e9 is so\u201d"),
        (["the", "car"], "words", "the car"),
    ],
)
def test_tokens_become_text(symbols, tokenization, text):
    assert join_tokens(symbols, tokenization) == text


def test_a_gpt2_piece_is_shown_as_text_and_half_a_character_as_its_symbol():
    vocabulary = Vocabulary.from_symbols(GPT2, "gpt2")
    named = {symbol: word_of(token, vocabulary) for token, symbol in enumerate(GPT2)}
    assert named["\u00c3\u00a9"] == "\u00e9"
    assert named["\u0120\u00e2\u0122\u013e"] in ("\u201c", "\u0120\u201c")
    assert named["\u0120said"] == "said"
    assert named["\u013f"] == "\u013f"


@pytest.mark.parametrize(
    ("symbols", "tokenization", "text"),
    [
        ("<s> \u0120the \u0120 \u0120car </s>".split(), "gpt2", " the  car"),
        ("<s> \u2581the \u2581 \u201c car </s>".split(), "sentencepiece", " the \u201ccar"),
    ],
)
def test_a_space_that_is_a_token_is_a_space(symbols, tokenization, text):
    vocabulary = Vocabulary.from_symbols(symbols, tokenization)
    assert "".join(spelled_token(token, vocabulary) for token in range(len(symbols))) == text
