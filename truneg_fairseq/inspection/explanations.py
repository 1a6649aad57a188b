"""Explained sentences as lines of a terminal, as a page, as JSON. No torch here."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..pages.html import Cell, Page, Section, Table, Word

RIGHT, FALSE_NEGATIVE, TRUE_NEGATIVE = "right", "false negative", "true negative"
_COLORS = {RIGHT: "\x1b[32m", FALSE_NEGATIVE: "\x1b[1;33m", TRUE_NEGATIVE: "\x1b[35m"}
_PLAIN = "\x1b[0m"
_SCORES = {"embedding": "embedding cosine", "context": "context cosine"}


@dataclass(frozen=True)
class MaskedWord:
    """A token that was masked, and what the model made of it."""

    gold: str  # the original word or piece
    prediction: str  # the likeliest word
    gold_probability: float  # the model's, in [0, 1]
    prediction_probability: float
    top: list[tuple[str, float]]  # the likeliest words with their probabilities, from likely to unlikely
    synonyms: list[str]  # of the gold word in the table
    # the detectors' of the prediction, by name ("embedding", "context"); none where it is right
    scores: dict[str, float]
    acceptance: float | None  # the probability that people accept the prediction, where a detector judges it; else None
    verdict: str  # :data:`RIGHT`, :data:`FALSE_NEGATIVE` or :data:`TRUE_NEGATIVE`
    reason: str  # of the verdict, a clause


@dataclass(frozen=True)
class ExplainedSentence:
    """A sentence, each part with what happened when it was masked; None where it was not."""

    parts: list[tuple[str, MaskedWord | None]]

    @property
    def masked(self) -> list[MaskedWord]:
        return [word for _, word in self.parts if word is not None]

    def record(self) -> dict[str, Any]:
        """The object of a JSON line."""
        parts = [
            {"text": text.strip(), **({} if word is None else dataclasses.asdict(word))} for text, word in self.parts
        ]
        return {"text": "".join(text for text, _ in self.parts).strip(), "parts": parts}

    def lines(self, *, color: bool = False) -> Iterator[str]:
        """What a terminal shows: the sentence, and some lines for each masked word."""

        def paint(text: str, verdict: str) -> str:
            return f"{_COLORS[verdict]}{text}{_PLAIN}" if color else text

        yield "".join(text if word is None else paint(text, word.verdict) for text, word in self.parts).strip()
        for word in self.masked:
            shown = word.gold if word.verdict == RIGHT else f"{word.gold} -> {word.prediction}"
            chances = f"p = {word.gold_probability:.3f} -> {word.prediction_probability:.3f}"
            yield f"  {paint(shown, word.verdict)}  ({chances})  {word.verdict}: {word.reason}"
            yield "    top: " + ", ".join(f"{one} {chance:.3f}" for one, chance in word.top)
            if word.synonyms:
                yield "    synonyms: " + " ".join(self._marked(word, paint))
            if word.scores:
                yield "    scores: " + ", ".join(f"{_SCORES[name]} {value:.3g}" for name, value in word.scores.items())

    @staticmethod
    def _marked(word: MaskedWord, paint: Any) -> list[str]:
        return [f"[{paint(one, FALSE_NEGATIVE)}]" if one == word.prediction else one for one in word.synonyms]


def explanation_page(sentences: Sequence[ExplainedSentence], title: str) -> Page:
    """A page with a section for each sentence."""
    every = [word for sentence in sentences for word in sentence.masked]
    counts = {verdict: sum(word.verdict == verdict for word in every) for verdict in _COLORS}
    note = "Every word was masked in turn, and the model predicted it: " + ", ".join(
        f"{count} {verdict}" for verdict, count in counts.items()
    )
    legend = [
        Word("right", _kind(RIGHT)),
        Word("false negative: counted as a mistake, yet as good as the original", _kind(FALSE_NEGATIVE)),
        Word("true negative: a real mistake", _kind(TRUE_NEGATIVE)),
    ]
    sections = [_section(number, sentence) for number, sentence in enumerate(sentences, start=1)]
    return Page(title, [f"{note}."], sections, legend)


def _kind(verdict: str) -> str:
    return verdict.replace(" ", "-")


def _section(number: int, sentence: ExplainedSentence) -> Section:
    words: list[Word] = []
    rows: list[list[Cell | str]] = []
    names = [name for name in _SCORES if any(name in word.scores for word in sentence.masked)]
    for text, word in sentence.parts:
        if word is None:
            words.append(Word(text))
            continue
        anchor = f"word-{number}-{len(rows)}"
        hint = f"{word.gold} -> {word.prediction} ({word.prediction_probability:.2f}): {word.verdict}, {word.reason}"
        stripped = text.lstrip()
        words += [Word(text[: len(text) - len(stripped)]), Word(stripped, _kind(word.verdict), hint, anchor)]
        rows.append(_row(word, names, anchor))
    head = ["original", "prediction", "p(original)", "p(prediction)", "verdict", "reason", "top", "synonyms"]
    table = Table(f"Sentence {number}: its words", [*head, *(_SCORES[name] for name in names)], rows, filtered=True)
    return Section(f"Sentence {number}", f"sentence-{number}", words=words, tables=[table])


def _row(word: MaskedWord, names: Sequence[str], anchor: str) -> list[Cell | str]:
    synonyms = " ".join(f"[{one}]" if one == word.prediction else one for one in word.synonyms)
    return [
        Cell(word.gold, anchor=anchor),
        word.prediction,
        *(Cell(f"{chance:.3f}", chance) for chance in (word.gold_probability, word.prediction_probability)),
        Cell(word.verdict, kind=_kind(word.verdict)),
        word.reason,
        ", ".join(f"{one} {chance:.3f}" for one, chance in word.top),
        synonyms or "-",
        *(Cell(f"{word.scores[name]:.3g}", word.scores[name]) if name in word.scores else "-" for name in names),
    ]
