"""Tokens as text, and false negatives in their sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
GREEN, YELLOW, PLAIN = "\x1b[1;32m", "\x1b[1;33m", "\x1b[0m"


@dataclass(frozen=True)
class Example:
    """A false negative in its sentence."""

    before: str  # the text on this side
    gold: str  # the original word
    prediction: str  # the word that the model puts there
    after: str
    gold_probability: float  # by the model, in [0, 1]
    prediction_probability: float
    acceptance: float = 0.0  # the probability that people accept the prediction


def in_sentence(tokens: Sequence[int], place: int, of: Tokens) -> tuple[str, str]:
    """The text before and after a place, some tokens of it."""
    vocabulary = of.vocabulary
    symbols = ["<pad>" if token in of.special else vocabulary.tokens[token] for token in tokens]
    start, stop = max(0, place - _WINDOW), place + _WINDOW + 1
    before = join_tokens(symbols[start:place], vocabulary.tokenization)
    after = join_tokens(symbols[place + 1 : stop], vocabulary.tokenization)
    return f"... {before}".rstrip() if start else before, f"{after} ...".lstrip() if stop < len(symbols) else after


def describe(example: Example, *, color: bool = False) -> str:
    """A false negative in its sentence, as one line.

    ``... whose [primary -> main] function ...  (p = 0.12 -> 0.31; people accept it with a probability of 0.6)``
    """
    green, yellow, plain = (GREEN, YELLOW, PLAIN) if color else ("", "", "")
    marked = f"[{green}{example.gold}{plain} -> {yellow}{example.prediction}{plain}]"
    text = " ".join(part for part in (example.before, marked, example.after) if part)
    return (
        f"{text}  (p = {example.gold_probability:.2f} -> {example.prediction_probability:.2f}; people accept it with a "
        f"probability of {example.acceptance:.2f})"
    )


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
