"""Masks every word of a sentence in turn and explains what a checkpoint makes of it (Figure 3 for any text)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from ..objectives.acceptance import context_cosine, embedding_cosine
from ..objectives.predictions import MaskedPredictions
from ..objectives.settings import TABLE, check_detector
from ..workers import Progress
from .examples import word_of
from .explanations import FALSE_NEGATIVE, RIGHT, TRUE_NEGATIVE, ExplainedSentence, MaskedWord
from .inspection_options import ExplanationOptions
from .judging import judge_of, table_shown, tokens_of
from .models import is_hugging_face, open_model
from .taught import recorded_table

_TOP = 5  # likeliest words to show


class Explainer:
    """Explains sentences with one model, in batches."""

    plausible, wrong = FALSE_NEGATIVE, TRUE_NEGATIVE

    def __init__(self, options: ExplanationOptions) -> None:
        check_detector(options.detector, "--detector")
        if options.synonym_table is None and not is_hugging_face(options.checkpoint):
            trained_with = recorded_table(options.checkpoint)
            if trained_with is not None and trained_with.is_file():
                options = replace(options, synonym_table=trained_with)
        self._options = options
        self._model = open_model(options.checkpoint, options.data, cpu=options.cpu)
        self._tokens = tokens_of(options.checkpoint, options)
        self._vocabulary = self._tokens.vocabulary
        self._objective, pairs = judge_of(self._tokens, self._model.padding, options, detector=options.detector)
        self._table = table_shown(pairs, self._tokens, options)  # shown with any detector

    def explain(self, text: str) -> ExplainedSentence | None:
        """Explains a sentence; what is longer than the model's positions is read in parts.

        None if nothing in the text can be masked.
        """
        tokens, places = self._tokens.encode_with_offsets(text)
        texts, last = [], 0
        for end in places[:, 1].tolist():
            texts.append(text[last:end])
            last = max(last, end)
        sentence = self._explain(tokens.tolist(), texts)
        if sentence is None or not text[last:]:
            return sentence
        return ExplainedSentence([*sentence.parts, (text[last:], None)])

    def _explain(self, ids: Sequence[int], texts: Sequence[str]) -> ExplainedSentence | None:
        places = [place for place, token in enumerate(ids) if token not in self._tokens.special]
        if not places:
            return None
        explained: dict[int, MaskedWord] = {}
        for start, stop in self._parts(ids):
            inside = [place - start + 1 for place in places if start <= place < stop]
            masked = self._mask_in_turn(torch.from_numpy(self._tokens.framed(ids[start:stop])), inside)
            explained |= dict(zip((place + start - 1 for place in inside), masked, strict=True))
        return ExplainedSentence([(text, explained.get(place)) for place, text in enumerate(texts)])

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
        assert self._tokens.mask is not None
        starts = range(0, len(places), self._options.batch_size)
        for start in Progress(starts, desc="masked words", unit="batch", leave=False):
            chosen = torch.tensor(places[start : start + self._options.batch_size])
            rows = torch.arange(len(chosen))
            source = tokens.repeat(len(chosen), 1)
            target = torch.full_like(source, self._model.padding)
            target[rows, chosen] = source[rows, chosen]
            source[rows, chosen] = self._tokens.mask
            judged, passes = self._model.judge(self._objective, source, target, with_layers=True)
            scores = {
                "embedding": embedding_cosine(passes.embeddings(), judged.gold, judged.prediction).tolist(),
                "context": context_cosine(*passes.layers()).tolist(),
            }
            yield from self._described(judged, scores)

    def _described(self, judged: MaskedPredictions, scores: dict[str, list[float]]) -> Iterator[MaskedWord]:
        probabilities = judged.logits.float().softmax(-1)
        best = probabilities.topk(min(_TOP, len(self._vocabulary)))
        of_gold = probabilities.gather(1, judged.gold.unsqueeze(1)).squeeze(1).tolist()
        of_prediction = probabilities.gather(1, judged.prediction.unsqueeze(1)).squeeze(1).tolist()
        for row, (gold, prediction) in enumerate(zip(judged.gold.tolist(), judged.prediction.tolist(), strict=True)):
            listed = self._table.synonyms(gold).tolist()
            verdict, reason, acceptance = self._verdict(judged, row, gold, prediction, listed)
            yield MaskedWord(
                gold=self._word(gold),
                prediction=self._word(prediction),
                gold_probability=of_gold[row],
                prediction_probability=of_prediction[row],
                top=list(zip(map(self._word, best.indices[row].tolist()), best.values[row].tolist(), strict=True)),
                synonyms=list(map(self._word, listed)),
                scores={} if verdict == RIGHT else {name: values[row] for name, values in scores.items()},
                acceptance=acceptance,
                verdict=verdict,
                reason=reason,
            )

    def _word(self, token: int) -> str:
        return word_of(token, self._vocabulary)

    def _verdict(
        self, judged: MaskedPredictions, row: int, gold: int, prediction: int, listed: Sequence[int]
    ) -> tuple[str, str, float | None]:
        """The verdict with its reason, and the probability of a false negative that people accept it."""
        assert judged.whole_word is not None and judged.corrected is not None
        detector = self._options.detector
        if prediction == gold:
            return RIGHT, "the original word", None
        if judged.corrected[row]:
            if judged.acceptance is None:
                return self.plausible, self._among(gold, prediction, listed), None
            acceptance = float(judged.acceptance[row])
            return self.plausible, f"judged acceptable with P = {acceptance:.2f} ({detector})", acceptance
        if not judged.whole_word[row]:
            return self.wrong, f"{self._word(gold)!r} is a piece of a word; pieces are never corrected", None
        if prediction in listed or TABLE not in detector.split("+"):
            return self.wrong, f"judged unacceptable ({detector})", None
        return self.wrong, self._among(gold, prediction, listed), None

    def _among(self, gold: int, prediction: int, listed: Sequence[int]) -> str:
        """Whether the prediction is among the synonyms of the word."""
        if not listed:
            return f"{self._word(gold)!r} has no synonym in the table ({self._table.source})"
        among = f"among the {len(listed)} synonyms" if len(listed) > 1 else "the one synonym"
        found = f"{self._word(prediction)!r} is {'' if prediction in listed else 'not '}{among}"
        return f"{found} of {self._word(gold)!r} ({self._table.source})"
