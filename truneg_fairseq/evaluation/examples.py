"""Tokens as text, and false negatives in their sentences."""

from __future__ import annotations

from collections.abc import Sequence

from ..vocabulary import (
    GPT2_SPACE,
    SENTENCEPIECE_SPACE,
    SPECIAL_SYMBOLS,
    SUBWORD_NMT,
    SUBWORD_NMT_CONTINUATION,
    WORDPIECE_CONTINUATION,
    Vocabulary,
    gpt2_text,
)
from .tokens import Tokens

_BROKEN = "\ufffd"  # of a piece that ends inside a character
_WINDOW = 16  # tokens on each side


def in_sentence(tokens: Sequence[int], place: int, of: Tokens) -> tuple[str, str]:
    """The text before and after a place, some tokens of it."""
    vocabulary = of.vocabulary
    symbols = ["<pad>" if token in of.special else vocabulary.tokens[token] for token in tokens]
    start, stop = max(0, place - _WINDOW), place + _WINDOW + 1
    before = join_tokens(symbols[start:place], vocabulary.tokenization)
    after = join_tokens(symbols[place + 1 : stop], vocabulary.tokenization)
    return f"... {before}".rstrip() if start else before, f"{after} ...".lstrip() if stop < len(symbols) else after


def word_of(token: int, vocabulary: Vocabulary) -> str:
    """What to call a token: its word, or its symbol where it is a piece."""
    symbol = vocabulary.tokens[token]
    if vocabulary.tokenization == "gpt2" and not vocabulary.words[token]:
        marker = GPT2_SPACE if symbol.startswith(GPT2_SPACE) else ""
        piece = gpt2_text([symbol.removeprefix(marker)])
        return symbol if _BROKEN in piece else marker + piece
    return vocabulary.words[token] or symbol


def join_tokens(symbols: Sequence[str], tokenization: str) -> str:
    """Readable text of a run of tokens; special symbols are left out."""
    ordinary = [symbol for symbol in symbols if symbol not in SPECIAL_SYMBOLS]
    if tokenization == "wordpiece":
        return " ".join(ordinary).replace(" " + WORDPIECE_CONTINUATION, "")
    if tokenization == SUBWORD_NMT:
        return " ".join(ordinary).replace(SUBWORD_NMT_CONTINUATION + " ", "")
    if tokenization == "sentencepiece":
        return "".join(ordinary).replace(SENTENCEPIECE_SPACE, " ").strip()
    if tokenization == "gpt2":
        return gpt2_text(ordinary).strip()
    return " ".join(ordinary)
