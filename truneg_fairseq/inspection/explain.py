"""Masks every word of a sentence in turn and explains what a checkpoint makes of it (Figure 3 for any text)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from fairseq import utils
from torch import Tensor

from ..criterions.masked_lm_true_neg import MaskedLmTrueNeg, MaskedLmTrueNegConfig
from ..data.tokenizer import load_tokenizer
from ..device import choose_device
from ..models.loading import load_checkpoint
from ..objective_factory import Pairs
from ..objectives.acceptance import context_cosine, embedding_cosine
from ..objectives.predictions import MaskedPredictions
from ..objectives.settings import TABLE, check_detector
from ..progress import Progress
from ..synonyms.provision import provide_table
from ..vocabulary import SPECIAL_SYMBOLS
from .explanations import FALSE_NEGATIVE, RIGHT, TRUE_NEGATIVE, ExplainedSentence, MaskedWord
from .options import ExplanationOptions
from .sentences import word_of

_TOP = 5  # likeliest words to show


class Explainer:
    """Explains sentences with one checkpoint, in batches."""

    def __init__(self, options: ExplanationOptions) -> None:
        check_detector(options.detector, "--detector")
        loaded = load_checkpoint(options.checkpoint, options.data)
        self._options, self._task = options, loaded.task
        self._device, self._tokenizer = choose_device(cpu=options.cpu), load_tokenizer(options.data)
        self._model = loaded.model.to(self._device).eval()
        table = options.synonym_table
        config = MaskedLmTrueNegConfig(
            tpu=False,
            hc_weight=1.0,
            hc_detector=options.detector,
            synonym_table=str(table) if table and TABLE in options.detector.split("+") else None,
            tokenization=options.tokenization,
        )
        self._criterion = MaskedLmTrueNeg(config, loaded.task).to(self._device).eval()
        self._vocabulary = self._criterion.vocabulary
        pairs = self._criterion.pairs  # shown with any detector
        loaded_table = pairs.table if isinstance(pairs, Pairs) else None
        self._table = loaded_table or provide_table(self._vocabulary, options.data, table)

    def explain(self, text: str) -> ExplainedSentence | None:
        """Explains a sentence; what is longer than the model's positions is read in parts.

        None if nothing in the text can be masked.
        """
        ids, texts, last = [], [], 0
        for symbol, _, end in self._tokenizer.encode_with_offsets(text):
            ids.append(self._task.source_dictionary.index(symbol))
            texts.append(text[last:end])
            last = max(last, end)
        sentence = self._explain(ids, texts)
        if sentence is None or not text[last:]:
            return sentence
        return ExplainedSentence([*sentence.parts, (text[last:], None)])

    def _explain(self, ids: Sequence[int], texts: Sequence[str]) -> ExplainedSentence | None:
        symbols = self._vocabulary.symbols
        places = [place for place, token in enumerate(ids) if symbols[token] not in SPECIAL_SYMBOLS]
        if not places:
            return None
        explained: dict[int, MaskedWord] = {}
        for start, stop in self._parts(ids):
            part = [self._task.source_dictionary.bos(), *ids[start:stop]]
            if part[-1] != self._task.source_dictionary.eos():
                part.append(self._task.source_dictionary.eos())
            inside = [place - start + 1 for place in places if start <= place < stop]
            masked = self._mask_in_turn(torch.tensor(part, device=self._device), inside)
            explained |= dict(zip((place + start - 1 for place in inside), masked, strict=True))
        return ExplainedSentence([(text, explained.get(place)) for place, text in enumerate(texts)])

    def _parts(self, ids: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Starts and ends of runs that the model's positions hold; only a word that is longer is cut."""
        positions = utils.resolve_max_positions(self._task.max_positions(), self._model.max_positions())
        length = int(min(positions) if isinstance(positions, tuple) else positions) - 2  # <s> and </s>
        start = 0
        while start < len(ids):
            stop = min(start + length, len(ids))
            if stop < len(ids):
                words = (place for place in range(stop, start, -1) if not self._vocabulary.continues[ids[place]])
                stop = next(words, stop)
            yield start, stop
            start = stop

    @torch.no_grad()
    def _mask_in_turn(self, tokens: Tensor, places: Sequence[int]) -> Iterator[MaskedWord]:
        """What becomes of each of the places of a sentence, int64, shape (T,)."""
        starts = range(0, len(places), self._options.batch_size)
        for start in Progress(starts, desc="masked words", unit=" batches", leave=False):
            chosen = torch.tensor(places[start : start + self._options.batch_size], device=self._device)
            rows = torch.arange(len(chosen), device=self._device)
            source = tokens.repeat(len(chosen), 1)
            target = torch.full_like(source, self._criterion.padding_idx)
            target[rows, chosen] = source[rows, chosen]
            source[rows, chosen] = self._task.mask_idx
            lengths = torch.full_like(chosen, len(tokens))
            sample = {"net_input": {"src_tokens": source, "src_lengths": lengths}, "target": target}
            predicted = self._criterion.predict(self._model, sample)
            passes = self._criterion.passes(self._model, sample, predicted, with_layers=True)
            judged = self._criterion.objective.judge(predicted, passes)
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
                return FALSE_NEGATIVE, self._among(gold, prediction, listed), None
            acceptance = float(judged.acceptance[row])
            return FALSE_NEGATIVE, f"judged acceptable with P = {acceptance:.2f} ({detector})", acceptance
        if not judged.whole_word[row]:
            return TRUE_NEGATIVE, "the original token is a piece, not a whole word; pieces are never corrected", None
        if prediction in listed or TABLE not in detector.split("+"):
            return TRUE_NEGATIVE, f"judged unacceptable ({detector})", None
        return TRUE_NEGATIVE, self._among(gold, prediction, listed), None

    def _among(self, gold: int, prediction: int, listed: Sequence[int]) -> str:
        """Whether the prediction is among the synonyms of the word."""
        if not listed:
            return f"{self._word(gold)!r} has no synonym in the table ({self._table.source})"
        among = f"among the {len(listed)} synonyms of {self._word(gold)!r} ({self._table.source})"
        return f"{self._word(prediction)!r} is {'' if prediction in listed else 'not '}{among}"
