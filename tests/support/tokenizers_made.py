"""Small tokenizers of each kind."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

from truneg_fairseq.data.tokenizer import BERT_SPECIALS, Gpt2Tokenizer, SentencePieceTokenizer, WordPieceTokenizer

TEXT = ["the cat sat on the mat", "Ünïcode ﬁ text, here!", "the dog 狗 barked (twice)"] * 20
WORDS = [*BERT_SPECIALS, "the", "cat", "un", "##happi", "##ness", "cafe", ",", "!", "[", "]", "mask", "##s", "日"]


def wordpiece() -> WordPieceTokenizer:
    return WordPieceTokenizer(WORDS)


def sentencepiece(**options: Any) -> SentencePieceTokenizer:
    from sentencepiece import SentencePieceTrainer

    model = io.BytesIO()
    settings = {"vocab_size": 60, "hard_vocab_limit": False, "minloglevel": 2, "model_type": "bpe", **options}
    SentencePieceTrainer.train(sentence_iterator=iter(TEXT), model_writer=model, **settings)
    return SentencePieceTokenizer(model.getvalue())


def gpt2(merges: Sequence[str] = ("t h", "th e", "Ġ the", "c a", "ca t", "Ġ cat", "Ã ¼", "Ġ Ġ")) -> Gpt2Tokenizer:
    """GPT-2's two files, small: the 256 bytes in GPT-2's order, a few merges, and the end of a text last."""
    from tokenizers.pre_tokenizers import ByteLevel

    tokens = sorted(ByteLevel.alphabet(), key=lambda token: (ord(token) > 255, token))
    tokens += [merge.replace(" ", "") for merge in merges] + ["<|endoftext|>"]
    encoder = json.dumps({token: number for number, token in enumerate(tokens)})
    return Gpt2Tokenizer(encoder.encode(), "\n".join(["#version: 0.2", *merges, ""]).encode())


def gpt2_of_words(words: Sequence[str]) -> Gpt2Tokenizer:
    """Every word with the space before it is a token, made of its letters one by one."""
    return gpt2(list(dict.fromkeys(f"Ġ{word[:end]} {word[end]}" for word in words for end in range(len(word)))))
