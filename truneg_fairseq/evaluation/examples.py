"""Tokens as text, and false negatives in their sentences for a terminal."""

from __future__ import annotations

from collections.abc import Collection, Sequence
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
from .measurements import Example

_BROKEN = "\ufffd"  # of a piece that ends inside a character
GREEN, YELLOW, PLAIN = "\x1b[1;32m", "\x1b[1;33m", "\x1b[0m"


@dataclass(frozen=True)
class FalseNegative:
    """A prediction that masked-LM training penalises although it is a synonym of the original word."""

    tokens: tuple[int, ...]  # ids of the original sequence, without padding
    place: int  # index of the gold token in ``tokens``
    prediction: int  # id of the predicted token
    gold_probability: float  # by the model, in [0, 1]
    prediction_probability: float  # by the model, in [0, 1]; the largest of the vocabulary

    @property
    def pair(self) -> tuple[int, int]:
        """The ids of gold and prediction."""
        return self.tokens[self.place], self.prediction


def spell(
    example: FalseNegative, vocabulary: Vocabulary, special: Collection[int] = (), *, window: int = 16
) -> Example:
    """A false negative as text, with ``window`` tokens on each side, but for ``special`` ones."""
    symbols = ["<pad>" if token in special else vocabulary.tokens[token] for token in example.tokens]
    start, stop = max(0, example.place - window), example.place + window + 1
    before = join_tokens(symbols[start : example.place], vocabulary.tokenization)
    after = join_tokens(symbols[example.place + 1 : stop], vocabulary.tokenization)
    return Example(
        before=f"... {before}".rstrip() if start > 0 else before,
        gold=word_of(example.tokens[example.place], vocabulary),
        prediction=word_of(example.prediction, vocabulary),
        after=f"{after} ...".lstrip() if stop < len(symbols) else after,
        gold_probability=example.gold_probability,
        prediction_probability=example.prediction_probability,
    )


def describe(example: Example, *, color: bool = False) -> str:
    """A false negative in its sentence, as one line.

    ``... whose [primary -> main] function ...  (p = 0.12 -> 0.31)``
    """
    green, yellow, plain = (GREEN, YELLOW, PLAIN) if color else ("", "", "")
    marked = f"[{green}{example.gold}{plain} -> {yellow}{example.prediction}{plain}]"
    text = " ".join(part for part in (example.before, marked, example.after) if part)
    return (
        f"{text}  (p = {green}{example.gold_probability:.2f}{plain} -> "
        f"{yellow}{example.prediction_probability:.2f}{plain})"
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
