"""Masks every word of a sentence in turn and explains what a masked LM makes of it (Figure 3 for any text), as text
and as a page.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..corpus_counts import DEFAULT_SHARE, CountsShare
from ..objectives.false_negatives import context_cosine
from ..objectives.options import TABLE, named_sources
from ..objectives.passes import MaskedPredictions
from ..objectives.soft_targets import embedding_cosine
from ..registry import ALTERNATIVES
from ..results.html import Cell, Page, Section, Word
from ..results.tables import Table
from ..synonyms.building import provide_table
from ..workers import Progress
from .held_out import acceptance, exclusions, flaw_of, judge_of
from .models import OpenedModel, OpeningOptions, require_mask

RIGHT, FALSE_NEGATIVE, TRUE_NEGATIVE = "right", "false negative", "true negative"
_COLORS = {RIGHT: "\x1b[32m", FALSE_NEGATIVE: "\x1b[1;33m", TRUE_NEGATIVE: "\x1b[35m"}
_PLAIN = "\x1b[0m"
_TOP = 5  # likeliest words to show
_BATCH = 32  # masked copies of a sentence at a time


@dataclass(frozen=True)
class MaskedWord:
    """A token that was masked, and what the model made of it."""

    gold: str  # the original word or piece
    prediction: str  # the likeliest word
    gold_probability: float  # by the model, in [0, 1]
    prediction_probability: float
    top: list[tuple[str, float]]  # the likeliest words with their probabilities, from likely to unlikely
    synonyms: list[str]  # of the gold word in the table
    # the detectors' of the prediction, by name ("embedding", "context"); none where it is right
    scores: dict[str, float]
    acceptance: float | None  # of a false negative, the probability that people accept the prediction
    verdict: str  # :data:`RIGHT`, :data:`FALSE_NEGATIVE` or :data:`TRUE_NEGATIVE`
    reason: str  # of the verdict, a clause

    @property
    def likeliest(self) -> str:
        return ", ".join(f"{one!r} {chance:.3f}" for one, chance in self.top)


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
            shown = word.gold if word.verdict == RIGHT else f"{word.gold!r} -> {word.prediction!r}"
            chances = f"p = {word.gold_probability:.3f} -> {word.prediction_probability:.3f}"
            yield f"  {paint(shown, word.verdict)}  ({chances})  {word.verdict}: {word.reason}"
            yield f"    top: {word.likeliest}"
            if word.synonyms:
                marked = (f"[{paint(one, FALSE_NEGATIVE)}]" if one == word.prediction else one for one in word.synonyms)
                yield f"    synonyms: {' '.join(marked)}"
            if word.scores:
                yield "    scores: " + ", ".join(f"{name} cosine {value:.3g}" for name, value in word.scores.items())


class Explainer:
    """Explains sentences with one masked LM, in batches.

    Without ``synonym_table`` the table is that of the checkpoint's training, else the one beside the data or in the
    cache folder. ``counts`` are those of a text, mixed into the predictions with this share.
    """

    def __init__(
        self,
        model: Path,
        options: OpeningOptions,
        *,
        counts: Path | None = None,
        share: CountsShare = DEFAULT_SHARE,
        synonym_table: Path | None = None,
        detector: str = TABLE,
    ) -> None:
        for name in named_sources(None, detector):
            ALTERNATIVES.look_up(name, "--detector")
        opened = OpenedModel(model, options)
        trained_with = opened.recorded_table() if synonym_table is None else None
        if trained_with is not None and trained_with.is_file():
            synonym_table = trained_with
        self._detector, self._tokens = detector, opened.tokens()
        require_mask(self._tokens, model, "truneg explain")
        self._vocabulary = self._tokens.vocabulary
        self._word = self._vocabulary.name_of
        self._model = opened.scorer(self._tokens, counts=counts)
        self._model.share = share
        self._objective = judge_of(self._tokens, synonym_table, detector)
        # The table is shown with any detector.
        self._table = self._objective.table or provide_table(self._vocabulary, self._tokens.tables, synonym_table)
        self._excluded = exclusions(self._tokens)

    def explain(self, text: str) -> ExplainedSentence | None:
        """Explains a sentence; what is longer than the model's positions is read in parts.

        None if nothing in the text can be masked.
        """
        tokens, places = self._tokens.encode_with_offsets(text)
        ids, explained = tokens.tolist(), dict[int, MaskedWord]()
        for start, stop in self._parts(ids):
            inside = [place for place in range(start, stop) if ids[place] not in self._tokens.special]
            framed = torch.from_numpy(self._tokens.framed(ids[start:stop]))
            masked = self._mask_in_turn(framed, [place - start + 1 for place in inside])
            explained |= dict(zip(inside, masked, strict=True))
        if not explained:
            return None
        parts, last = list[tuple[str, MaskedWord | None]](), 0
        for place, end in enumerate(places[:, 1].tolist()):
            parts.append((text[last:end], explained.get(place)))
            last = max(last, end)
        return ExplainedSentence([*parts, (text[last:], None)] if text[last:] else parts)

    def _parts(self, ids: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Starts and ends of runs that the model's positions hold; only a word that is longer is cut."""
        length = self._model.longest - 2  # the first token and the last
        start = 0
        while start < len(ids):
            stop = min(start + length, len(ids))
            if stop < len(ids):
                words = (place for place in range(stop, start, -1) if not self._vocabulary.continues[ids[place]])
                stop = next(words, stop)
            yield start, stop
            start = stop

    def _mask_in_turn(self, tokens: Tensor, places: Sequence[int]) -> Iterator[MaskedWord]:
        """What becomes of each of the places of a sentence, int64, shape (T,)."""
        for start in Progress(range(0, len(places), _BATCH), desc="masked words", unit="batch", leave=False):
            chosen = torch.tensor(places[start : start + _BATCH])
            rows, source = torch.arange(len(chosen)), tokens.repeat(len(chosen), 1)
            target = torch.full_like(source, self._model.padding)
            target[rows, chosen] = source[rows, chosen]
            source[rows, chosen] = int(self._tokens.mask or 0)
            lengths = torch.full((len(chosen),), len(tokens))
            judged, passes = self._model.judge(self._objective, source, target, lengths, with_layers=True)
            scores = {
                "embedding": embedding_cosine(passes.embeddings(), judged.gold, judged.prediction).tolist(),
                "context": context_cosine(*passes.hidden_states()).tolist(),
            }
            detector, accepted = self._objective.detector, judged.acceptance
            if accepted is None or detector is None or detector.regression is None:  # not how many people would
                accepted = acceptance(self._model.embeddings, judged.gold, judged.prediction)
            for row in range(len(chosen)):
                of_row = {name: values[row] for name, values in scores.items()}
                yield self._described(judged, row, of_row, float(accepted[row]))

    def _described(self, judged: MaskedPredictions, row: int, scores: dict[str, float], chance: float) -> MaskedWord:
        gold, prediction = int(judged.gold[row]), int(judged.prediction[row])
        probabilities = judged.logits[row].float().softmax(-1)
        best = probabilities.topk(min(_TOP, len(self._vocabulary)))
        listed = self._table.synonyms(gold).tolist()
        verdict, reason = self._verdict(judged, row, listed)
        if verdict == FALSE_NEGATIVE:
            reason += f"; people accept it with a probability of {chance:.2f}"
        return MaskedWord(
            gold=self._word(gold),
            prediction=self._word(prediction),
            gold_probability=float(probabilities[gold]),
            prediction_probability=float(probabilities[prediction]),
            top=list(zip(map(self._word, best.indices.tolist()), best.values.tolist(), strict=True)),
            synonyms=list(map(self._word, listed)),
            scores={} if verdict == RIGHT else scores,
            acceptance=chance if verdict == FALSE_NEGATIVE else None,
            verdict=verdict,
            reason=reason,
        )

    def _verdict(self, judged: MaskedPredictions, row: int, listed: Sequence[int]) -> tuple[str, str]:
        """What the prediction is, and why; ``listed`` are the synonyms of the original word."""
        assert judged.whole_word is not None and judged.is_false_negative is not None
        gold, prediction, source = int(judged.gold[row]), int(judged.prediction[row]), self._table.source
        among = f"{self._word(gold)!r} has no synonym in the table ({source})"
        if listed:
            synonyms = f"among the {len(listed)} synonyms" if len(listed) > 1 else "the one synonym"
            is_there = "is" if prediction in listed else "is not"
            among = f"{self._word(prediction)!r} {is_there} {synonyms} of {self._word(gold)!r} ({source})"
        if prediction == gold:
            return RIGHT, "the original word"
        if judged.is_false_negative[row]:
            if flaw := flaw_of(gold, prediction, self._tokens, self._excluded):
                return TRUE_NEGATIVE, flaw
            return FALSE_NEGATIVE, among if judged.acceptance is None else f"judged acceptable ({self._detector})"
        if not judged.whole_word[row]:
            return TRUE_NEGATIVE, f"{self._word(gold)!r} is a piece of a word; pieces are never corrected"
        if prediction in listed or TABLE not in self._detector.split("+"):
            return TRUE_NEGATIVE, f"judged unacceptable ({self._detector})"
        return TRUE_NEGATIVE, among


_MEANINGS = {
    RIGHT: "right: the original word",
    FALSE_NEGATIVE: "false negative: counted as a mistake, though people may accept it",
    TRUE_NEGATIVE: "true negative: rightly counted as a mistake",
}


def explanation_page(sentences: Sequence[ExplainedSentence], title: str) -> Page:
    """A page with a section for each sentence."""
    every = [word for sentence in sentences for word in sentence.masked]
    found = ", ".join(f"{sum(word.verdict == verdict for word in every)} {verdict}" for verdict in _MEANINGS)
    note = f"Every word was masked in turn, and the model predicted it: {found}. A wrong prediction is behind its word."
    scores = "In the tables, embedding and context are the cosines of original and prediction that detectors judge by."
    legend = [Word(meaning, verdict.replace(" ", "-")) for verdict, meaning in _MEANINGS.items()]
    sections = [_section(number, sentence) for number, sentence in enumerate(sentences, start=1)]
    return Page(title, [note, scores], sections, legend)


def _section(number: int, sentence: ExplainedSentence) -> Section:
    words: list[Word] = []
    rows: list[list[Cell | str]] = []
    names = list(dict.fromkeys(name for word in sentence.masked for name in word.scores))
    for text, word in sentence.parts:
        if word is None:
            words.append(Word(text))
            continue
        anchor, stripped, wrong = f"word-{number}-{len(rows)}", text.lstrip(), word.verdict != RIGHT
        kind = word.verdict.replace(" ", "-")
        chance = f"({word.prediction_probability:.2f})"
        hint = f"{word.gold!r} -> {word.prediction!r} {chance}: {word.verdict}, {word.reason}"
        shown = Word(stripped, kind, hint, anchor, word.prediction if wrong else "")
        words += [Word(text[: len(text) - len(stripped)]), shown]
        synonyms = " ".join(f"[{one}]" if one == word.prediction else one for one in word.synonyms)
        row: list[Cell | str] = [
            Cell(repr(word.gold), anchor=anchor),
            repr(word.prediction),
            Cell(word.verdict, kind=kind),
            Cell(word.reason if wrong else "", kind="long"),
            f"{word.gold_probability:.3f}",
            Cell(word.likeliest, kind="long"),
            Cell(synonyms or "-", kind="long"),
        ]
        rows.append([*row, *(f"{word.scores[name]:.3g}" if name in word.scores else "-" for name in names)])
    head = ["original", "prediction", "verdict", "reason", "p(original)", "likeliest words", "synonyms"]
    table = Table(f"Sentence {number}: its words", [*head, *names], rows, filtered=True)
    return Section(f"Sentence {number}", f"sentence-{number}", words=words, tables=[table])
