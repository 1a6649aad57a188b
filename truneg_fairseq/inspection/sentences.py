"""Sentences for a terminal: tokens joined to text, with the gold word and the prediction in colour."""

from __future__ import annotations

from collections.abc import Sequence

from ..vocabulary import GPT2_SPACE, SENTENCEPIECE_SPACE, SPECIAL_SYMBOLS, WORDPIECE_CONTINUATION, Vocabulary
from .inspector import FalseNegative

_GOLD, _PREDICTION, _PLAIN = "\x1b[1;32m", "\x1b[1;33m", "\x1b[0m"


def describe(example: FalseNegative, vocabulary: Vocabulary, *, window: int = 16, color: bool = False) -> str:
    """A false negative in its sentence, as one line.

    Args:
        example: what to show.
        vocabulary: that its token ids belong to.
        window: tokens to show on each side.
        color: mark the words with ANSI colours (gold green, prediction yellow).

    Returns:
        ``... whose [primary -> main] function ...  (p = 0.12 -> 0.31)``
    """
    symbols = [vocabulary.symbols[token] for token in example.tokens]
    start, stop = max(0, example.place - window), example.place + window + 1
    before = join_tokens(symbols[start : example.place], vocabulary.tokenization)
    after = join_tokens(symbols[example.place + 1 : stop], vocabulary.tokenization)
    gold = vocabulary.words[example.tokens[example.place]]
    prediction = vocabulary.words[example.prediction]
    green, yellow, plain = (_GOLD, _PREDICTION, _PLAIN) if color else ("", "", "")
    left = "... " if start > 0 else ""
    right = " ..." if stop < len(symbols) else ""
    marked = f"[{green}{gold}{plain} -> {yellow}{prediction}{plain}]"
    text = " ".join(part for part in (before, marked, after) if part)
    return (
        f"{left}{text}{right}  (p = {green}{example.gold_probability:.2f}{plain} -> "
        f"{yellow}{example.prediction_probability:.2f}{plain})"
    )


def join_tokens(symbols: Sequence[str], tokenization: str) -> str:
    """Readable text of a run of tokens; special symbols are left out.

    Args:
        symbols: the tokens.
        tokenization: one of :data:`truneg_fairseq.vocabulary.TOKENIZATIONS`.
    """
    ordinary = [symbol for symbol in symbols if symbol not in SPECIAL_SYMBOLS]
    if tokenization == "wordpiece":
        return " ".join(ordinary).replace(" " + WORDPIECE_CONTINUATION, "")
    if tokenization == "sentencepiece":
        return "".join(ordinary).replace(SENTENCEPIECE_SPACE, " ").strip()
    if tokenization == "gpt2":
        return "".join(ordinary).replace(GPT2_SPACE, " ").strip()
    return " ".join(ordinary)
