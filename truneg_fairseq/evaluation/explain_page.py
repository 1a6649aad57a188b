"""The page of explained sentences."""

from __future__ import annotations

from collections.abc import Sequence

from ..report.html import Cell, Page, Section, Word
from ..results.tables import Table
from .explain import FALSE_NEGATIVE, RIGHT, SCORES, TRUE_NEGATIVE, ExplainedSentence, MaskedWord

_MEANINGS = {
    RIGHT: "right: the original word",
    FALSE_NEGATIVE: "false negative: counted as a mistake, though people may accept it",
    TRUE_NEGATIVE: "true negative: a real mistake",
}


def explanation_page(sentences: Sequence[ExplainedSentence], title: str) -> Page:
    """A page with a section for each sentence."""
    every = [word for sentence in sentences for word in sentence.masked]
    found = ", ".join(f"{sum(word.verdict == verdict for word in every)} {verdict}" for verdict in _MEANINGS)
    note = f"Every word was masked in turn, and the model predicted it: {found}. A wrong prediction is behind its word."
    legend = [Word(meaning, _kind(verdict)) for verdict, meaning in _MEANINGS.items()]
    sections = [_section(number, sentence) for number, sentence in enumerate(sentences, start=1)]
    return Page(title, [note], sections, legend)


def _kind(verdict: str) -> str:
    return verdict.replace(" ", "-")


def _section(number: int, sentence: ExplainedSentence) -> Section:
    words: list[Word] = []
    rows: list[list[Cell | str]] = []
    names = [name for name in SCORES if any(name in word.scores for word in sentence.masked)]
    for text, word in sentence.parts:
        if word is None:
            words.append(Word(text))
            continue
        anchor = f"word-{number}-{len(rows)}"
        hint = (
            f"{word.gold!r} -> {word.prediction!r} ({word.prediction_probability:.2f}): {word.verdict}, {word.reason}"
        )
        stripped = text.lstrip()
        wrong = "" if word.verdict == RIGHT else word.prediction
        words += [Word(text[: len(text) - len(stripped)]), Word(stripped, _kind(word.verdict), hint, anchor, wrong)]
        rows.append(_row(word, names, anchor))
    head = ["original", "prediction", "verdict", "reason", "p(original)", "likeliest words", "synonyms"]
    table = Table(f"Sentence {number}: its words", [*head, *(SCORES[name] for name in names)], rows, filtered=True)
    return Section(f"Sentence {number}", f"sentence-{number}", words=words, tables=[table])


def _row(word: MaskedWord, names: Sequence[str], anchor: str) -> list[Cell | str]:
    synonyms = " ".join(f"[{one}]" if one == word.prediction else one for one in word.synonyms)
    return [
        Cell(repr(word.gold), anchor=anchor),
        repr(word.prediction),
        Cell(word.verdict, kind=_kind(word.verdict)),
        Cell("" if word.verdict == RIGHT else word.reason, kind="long"),
        Cell(f"{word.gold_probability:.3f}", word.gold_probability),
        Cell(word.likeliest, kind="long"),
        synonyms or "-",
        *(Cell(f"{word.scores[name]:.3g}", word.scores[name]) if name in word.scores else "-" for name in names),
    ]
