"""Masks every word of a sentence in turn and explains what a checkpoint makes of it (Figure 3 for any text)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from fairseq import utils
from torch import Tensor

from ..criterions.masked_lm_true_neg import MaskedLmTrueNeg, MaskedLmTrueNegConfig
from ..data.tokenizer import TextTokenizer, load_tokenizer
from ..device import choose_device
from ..errors import TrueNegError
from ..objectives.acceptance import context_cosine, embedding_cosine
from ..objectives.passes import Passes
from ..objectives.predictions import MaskedPredictions
from ..objectives.settings import TABLE, check_detector
from ..progress import Progress
from ..synonyms.provision import provide_table
from ..vocabulary import SPECIAL_SYMBOLS
from .checkpoint import load_checkpoint
from .explanations import FALSE_NEGATIVE, RIGHT, TRUE_NEGATIVE, ExplainedSentence, MaskedWord
from .sentences import spelled_token, word_of


class NothingToMask(TrueNegError):
    """A sentence has none of the words to mask."""


def _cut_at_marks(text: str) -> str:
    """In lower case, with one space between words and around punctuation."""
    return " ".join(re.findall(r"\w+|[^\w\s]", text.lower()))


class Explainer:
    """Explains sentences with one checkpoint, in batches.

    Args:
        checkpoint: fairseq's, of a masked-LM model.
        data: folder of binarized data: dictionary, tokenizer, synonym table.
        detector: which mistakes are false negatives, as ``--hc-detector``.
        synonym_table: a table, None for the one beside the data (built when missing).
        tokenization: see :class:`truneg_fairseq.vocabulary.Vocabulary`.
        batch_size: masked copies of a sentence in a batch.
        top: how many of the likeliest words to keep.
        cpu: keep off the GPU.
    """

    def __init__(
        self,
        checkpoint: Path,
        data: Path,
        *,
        detector: str = "table",
        synonym_table: Path | None = None,
        tokenization: str = "auto",
        batch_size: int = 32,
        top: int = 5,
        cpu: bool = False,
    ) -> None:
        check_detector(detector, "--detector")
        loaded = load_checkpoint(checkpoint, data)
        self._data, self._task, self._batch_size = data, loaded.task, batch_size
        self._device = choose_device(cpu=cpu)
        self._model = loaded.model.to(self._device).eval()
        config = MaskedLmTrueNegConfig(
            tpu=False,
            hc_weight=1.0,
            hc_detector=detector,
            synonym_table=str(synonym_table) if synonym_table and TABLE in detector.split("+") else None,
            tokenization=tokenization,
        )
        self._criterion = MaskedLmTrueNeg(config, loaded.task).to(self._device).eval()
        self._vocabulary = self._criterion.vocabulary
        self._table = provide_table(self._vocabulary, data, synonym_table)  # shown with any detector
        self._detector = detector
        self._top = min(top, len(self._vocabulary))
        self._tokenizer: TextTokenizer | None = None
        self._found: set[str] = set()  # of the words to mask

    def explain_text(self, text: str, words: Sequence[str] = ()) -> ExplainedSentence:
        """Explains one sentence.

        Args:
            text: a sentence; what is longer than the model's positions is read in parts.
            words: those to mask, whatever their case; none for all.

        Raises:
            NothingToMask: nothing in the text can be masked.
        """
        if self._tokenizer is None:
            self._tokenizer = load_tokenizer(self._data)
        ids, texts, last = [], [], 0
        for symbol, _, end in self._tokenizer.encode_with_offsets(text):
            ids.append(self._task.source_dictionary.index(symbol))
            texts.append(text[last:end])
            last = max(last, end)
        sentence = self._explain(ids, texts, words, shown=text)
        return ExplainedSentence([*sentence.parts, (text[last:], None)] if text[last:] else sentence.parts)

    def explain_texts(self, texts: Sequence[str], words: Sequence[str] = ()) -> Iterator[ExplainedSentence]:
        """Explains sentences; those in which nothing can be masked are passed over.

        Args:
            texts: sentences.
            words: see :meth:`explain_text`.

        Raises:
            NothingToMask: in none of them.
        """
        passed: list[NothingToMask] = []
        for text in texts:
            try:
                yield self.explain_text(text, words)
            except NothingToMask as error:
                passed.append(error)
        if passed and len(passed) == len(texts):
            raise passed[0]

    def explain_split(self, split: str, sequences: int, words: Sequence[str] = ()) -> Iterator[ExplainedSentence]:
        """Explains the first sequences of a split.

        Args:
            split: of the data: "valid", "test" ...
            sequences: how many; those in which nothing can be masked are passed over.
            words: see :meth:`explain_text`.
        """
        from fairseq.data import data_utils

        dataset = data_utils.load_indexed_dataset(str(self._data / split), self._task.source_dictionary, None)
        if dataset is None:
            raise TrueNegError(
                f"--split {split}: {self._data} has no such split; expected {split}.bin and {split}.idx, written by "
                "fairseq-preprocess"
            )
        found = 0
        for index in range(len(dataset)):
            ids = dataset[index].tolist()
            if found == sequences:
                break
            texts = [spelled_token(token, self._vocabulary, first=k == 0) for k, token in enumerate(ids)]
            if not self._places(ids, texts, words):
                continue
            found += 1
            yield self._explain(ids, texts, words)
        if not found:
            raise TrueNegError(f"--split {split}: nothing to mask in its {len(dataset)} sequences")

    def absent(self, words: Sequence[str]) -> list[str]:
        """Those of the words to mask that no sentence had until now."""
        return [word for word in words if _cut_at_marks(word) not in self._found]

    def _places(self, ids: Sequence[int], texts: Sequence[str], words: Sequence[str]) -> list[int]:
        """Where to mask: every token that is not special, or those of the chosen words.

        A word may be spelled as in the text or as its tokens spell it. "well-known" is all its tokens, where the
        tokenizer cuts at the hyphen.
        """
        symbols = self._vocabulary.symbols
        places = [place for place, token in enumerate(ids) if symbols[token] not in SPECIAL_SYMBOLS]
        if not words:
            return places
        groups: list[list[int]] = []
        for place in places:
            if groups and self._vocabulary.continues[ids[place]]:
                groups[-1].append(place)
            else:
                groups.append([place])
        wanted = set(map(_cut_at_marks, words))
        longest = max(len(word.split()) for word in wanted)
        spelled = [spelled_token(token, self._vocabulary) for token in ids]
        chosen: set[int] = set()
        for first in range(len(groups)):
            for last in range(first, min(first + longest, len(groups))):
                run = [place for group in groups[first : last + 1] for place in group]
                for by in (texts, spelled):
                    if (word := _cut_at_marks("".join(by[place] for place in run))) in wanted:
                        chosen.update(run)
                        self._found.add(word)
        return sorted(chosen)

    def _explain(
        self, ids: Sequence[int], texts: Sequence[str], words: Sequence[str], shown: str = ""
    ) -> ExplainedSentence:
        places = self._places(ids, texts, words)
        if not places:
            what = f"none of the words {', '.join(words)}" if words else "no word of the dictionary"
            raise NothingToMask(f"{shown.strip()[:60]!r}: nothing to mask, as it has {what}; expected one")
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
        starts = range(0, len(places), self._batch_size)
        for start in Progress(starts, desc="masked words", unit=" batches", leave=False):
            chosen = torch.tensor(places[start : start + self._batch_size], device=self._device)
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
            yield from self._described(judged, self._scores(judged, passes))

    def _scores(self, judged: MaskedPredictions, passes: Passes) -> dict[str, list[float]]:
        """The detectors' scores of the predictions, of each (N,)."""
        scores = {
            "embedding": embedding_cosine(passes.embeddings(), judged.gold, judged.prediction),
            "context": context_cosine(*passes.layers()),
        }
        return {name: values.tolist() for name, values in scores.items()}

    def _described(self, judged: MaskedPredictions, scores: dict[str, list[float]]) -> Iterator[MaskedWord]:
        assert judged.whole_word is not None
        assert judged.corrected is not None
        probabilities = judged.logits.float().softmax(-1)
        best = probabilities.topk(self._top)
        of_gold = probabilities.gather(1, judged.gold.unsqueeze(1)).squeeze(1).tolist()
        of_prediction = probabilities.gather(1, judged.prediction.unsqueeze(1)).squeeze(1).tolist()
        for row, (gold, prediction) in enumerate(zip(judged.gold.tolist(), judged.prediction.tolist(), strict=True)):
            acceptance = None if judged.acceptance is None else float(judged.acceptance[row])
            listed = self._table.synonyms(gold).tolist()
            verdict, reason = self._verdict(
                gold,
                prediction,
                listed=listed,
                whole=bool(judged.whole_word[row]),
                corrected=bool(judged.corrected[row]),
                acceptance=acceptance,
            )
            yield MaskedWord(
                gold=word_of(gold, self._vocabulary),
                prediction=word_of(prediction, self._vocabulary),
                gold_probability=of_gold[row],
                prediction_probability=of_prediction[row],
                top=[
                    (word_of(token, self._vocabulary), chance)
                    for token, chance in zip(best.indices[row].tolist(), best.values[row].tolist(), strict=True)
                ],
                synonyms=[word_of(token, self._vocabulary) for token in listed],
                scores={} if verdict == RIGHT else {name: values[row] for name, values in scores.items()},
                acceptance=acceptance if verdict == FALSE_NEGATIVE else None,
                verdict=verdict,
                reason=reason,
            )

    def _verdict(
        self, gold: int, prediction: int, *, listed: Sequence[int], whole: bool, corrected: bool, acceptance: Any
    ) -> tuple[str, str]:
        """The verdict with its reason."""
        if prediction == gold:
            return RIGHT, "the original word"
        other, among = word_of(prediction, self._vocabulary), self._among(gold, listed)
        if corrected:
            judged = f"judged acceptable with P = {acceptance or 0.0:.2f} ({self._detector})"
            return FALSE_NEGATIVE, f"{other} is {among}" if acceptance is None else judged
        if not whole:
            return TRUE_NEGATIVE, "the original token is a piece, not a whole word; pieces are never corrected"
        if prediction in listed or "table" not in self._detector.split("+"):
            return TRUE_NEGATIVE, f"judged unacceptable ({self._detector})"
        return TRUE_NEGATIVE, f"not in the table: {other} is not {among}"

    def _among(self, gold: int, listed: Sequence[int]) -> str:
        """How to speak of the synonyms of a word."""
        which = f"the {len(listed)} synonyms" if len(listed) > 1 else "the 1 synonym" if listed else "the synonyms"
        ending = "" if listed else ", which has none"
        return f"among {which} of {word_of(gold, self._vocabulary)} ({self._table.source}){ending}"
