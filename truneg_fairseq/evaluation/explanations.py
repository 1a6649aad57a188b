"""Explained sentences as lines of a terminal and as JSON. No torch here."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

RIGHT, FALSE_NEGATIVE, TRUE_NEGATIVE = "right", "false negative", "true negative"
PLAUSIBLE, WRONG = "plausible", "wrong"
"""What the last two are called if the model generates."""
_COLORS = {RIGHT: "\x1b[32m", **dict.fromkeys((FALSE_NEGATIVE, PLAUSIBLE), "\x1b[1;33m")}
_COLORS |= dict.fromkeys((TRUE_NEGATIVE, WRONG), "\x1b[35m")
_PLAIN = "\x1b[0m"
SCORES = {"embedding": "embedding cosine", "context": "context cosine"}


@dataclass(frozen=True)
class MaskedWord:
    """A token that was masked, or that had to be generated, and what the model made of it."""

    gold: str  # the original word or piece
    prediction: str  # the likeliest word
    gold_probability: float  # by the model, in [0, 1]
    prediction_probability: float
    top: list[tuple[str, float]]  # the likeliest words with their probabilities, from likely to unlikely
    synonyms: list[str]  # of the gold word in the table
    # the detectors' of the prediction, by name ("embedding", "context"); none where it is right
    scores: dict[str, float]
    acceptance: float | None  # the probability that people accept the prediction, where a detector judges it; else None
    verdict: str  # :data:`RIGHT`, :data:`FALSE_NEGATIVE` or :data:`TRUE_NEGATIVE`, :data:`PLAUSIBLE` or :data:`WRONG`
    reason: str  # of the verdict, a clause

    @property
    def likeliest(self) -> str:
        """The likeliest words with their probabilities, as text."""
        return ", ".join(f"{one!r} {chance:.3f}" for one, chance in self.top)


@dataclass(frozen=True)
class ExplainedSentence:
    """A sentence, each part with what happened when it was masked; None where it was not."""

    parts: list[tuple[str, MaskedWord | None]]
    source: str = ""  # of a translation

    @property
    def masked(self) -> list[MaskedWord]:
        return [word for _, word in self.parts if word is not None]

    def record(self) -> dict[str, Any]:
        """The object of a JSON line."""
        parts = [
            {"text": text.strip(), **({} if word is None else dataclasses.asdict(word))} for text, word in self.parts
        ]
        return ({"source": self.source} if self.source else {}) | {
            "text": "".join(text for text, _ in self.parts).strip(),
            "parts": parts,
        }

    def lines(self, *, color: bool = False) -> Iterator[str]:
        """What a terminal shows: the sentence, and some lines for each masked word."""

        def paint(text: str, verdict: str) -> str:
            return f"{_COLORS[verdict]}{text}{_PLAIN}" if color else text

        if self.source:
            yield f"source: {self.source}"
        yield "".join(text if word is None else paint(text, word.verdict) for text, word in self.parts).strip()
        for word in self.masked:
            shown = word.gold if word.verdict == RIGHT else f"{word.gold!r} -> {word.prediction!r}"
            chances = f"p = {word.gold_probability:.3f} -> {word.prediction_probability:.3f}"
            yield f"  {paint(shown, word.verdict)}  ({chances})  {word.verdict}: {word.reason}"
            yield f"    top: {word.likeliest}"
            if word.synonyms:
                marked = (f"[{paint(one, FALSE_NEGATIVE)}]" if one == word.prediction else one for one in word.synonyms)
                yield f"    synonyms: {' '.join(marked)}"
            if word.scores:
                yield "    scores: " + ", ".join(f"{SCORES[name]} {value:.3g}" for name, value in word.scores.items())
