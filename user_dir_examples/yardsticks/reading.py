"""Reading times: how much a model's surprisal adds to what length and frequency say of how long people look at a word.

The file is all_measures.csv of de Varda, Marelli and Amenta (Behavior Research Methods 56, 2024), with the self-paced
and eye-tracked times of Frank et al. (2013). The gain is that of a linear model on sentences that it was not fitted on,
as usual since Goodkind and Bicknell (CMCL 2018).
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from truneg_fairseq import register_yardstick
from truneg_fairseq.errors import TrueNegError
from truneg_fairseq.evaluation.models import OpenedModel
from truneg_fairseq.evaluation.scorer import WINDOW, Query, Scorer, Tokens
from truneg_fairseq.evaluation.yardstick import Scores, Task, Yardstick
from truneg_fairseq.results.intervals import Ratio
from truneg_fairseq.results.result import Metric

TIMES = {"reading, self-paced": "self_paced_reading_time", "reading, first pass": "RTfirstpass"}
"""The columns of the times, in ms, by task."""
CONTROLS = {"trigram": "trigram", "GPT-2": "s_GPT2", "people": "cloze_s"}
"""The columns of others' surprisals: of a trigram model, of GPT-2 small, of people's cloze answers."""
_FREQUENCY, _LENGTH = "Subtlex_log10", "length"
_COLUMNS = ("item", "word", "sent_id", "context_length", _FREQUENCY, _LENGTH, *TIMES.values(), *CONTROLS.values())
_EXPECTED = "all_measures.csv of github.com/Andrea-de-Varda/prediction-resource, plain or packed"
_LARGEST_FILE = 64 << 20  # bytes
_FOLDS = 10


@register_yardstick("reading")
class Reading(Yardstick):
    """Words with their times, whose word before is in the file too."""

    metrics: ClassVar[Mapping[str, Metric]] = {
        "gain": Metric("gain in log-likelihood", True, "bits per 1,000 words"),
        "r2_gain": Metric("gain in R2", True),
    }
    notes = (
        "reading: what the surprisals of a word and of the word before add to the lengths and frequencies of both in a "
        "linear model of mean reading times, on sentences left out (ten folds); log-likelihood in bits per 1,000 "
        "words. Surprisal is read as 'context WORD .' with the word's tokens masked from left to right (causal LMs: "
        "no full stop). GPT-2 and trigram: the file's surprisals; people: of their cloze answers."
    )

    reads_causal = True

    def __init__(self, task: Task, tokens: Tokens, last: OpenedModel) -> None:
        super().__init__(task, tokens, last)
        (content,) = self._read([self._file], _EXPECTED, _LARGEST_FILE)
        rows = list(csv.DictReader(content.decode(errors="replace").splitlines()))
        if not rows or any(row.get(column) is None for row in rows for column in _COLUMNS):
            raise TrueNegError(
                f"{self._file}: has no rows with the columns {', '.join(_COLUMNS)}; expected {_EXPECTED}"
            )
        place = {(row["sent_id"], int(row["context_length"])): index for index, row in enumerate(rows)}
        before = [place.get((row["sent_id"], int(row["context_length"]) - 1), -1) for row in rows]
        self._rows, self._column = rows, {name: _numbers(rows, name) for name in _COLUMNS[4:]}
        known = np.isfinite(self._column[_FREQUENCY])
        self._chosen = np.array([index for index, one in enumerate(before) if one >= 0 and known[[index, one]].all()])
        self._before = np.array(before)[self._chosen]
        sentences = np.array([row["sent_id"] for row in rows])[self._chosen]
        numbers = np.unique(sentences, return_inverse=True)[1]
        self._fold = np.random.default_rng(1).permutation(numbers.max() + 1)[numbers] % _FOLDS
        self.described = f"reading: {len(self._chosen):,} of {len(rows):,} words, whose word before has a surprisal too"
        self._base = self._of_both(self._column[_FREQUENCY], self._column[_LENGTH])

    def score(self, scorer: Scorer) -> dict[str, Scores]:
        asked = (
            (index, *each)
            for index, row in enumerate(self._rows)
            for each in self._queries(row["item"], row["word"].strip(".,;:!?\"'"))
        )
        return self._scores(-scorer.summed(asked, len(self._rows)) / np.log(2))

    def controls(self, scorer: Scorer) -> dict[str, dict[str, Scores]]:
        return {name: self._scores(self._column[column]) for name, column in CONTROLS.items()}

    def _queries(self, context: str, word: str) -> Iterator[tuple[Query, int]]:
        """The places of a word's tokens after its context, and the tokens."""
        ids, places = self._tokens.encode_with_offsets(f"{context} {word}")
        first = int(np.searchsorted(places[:, 1], len(context), side="right"))
        start = max(0, first - WINDOW // 2)
        for place in range(first, len(ids)):
            yield self._tokens.next_word(ids[start:place], len(ids) - place), int(ids[place])

    def _of_both(self, *columns: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values of the words and of the words before them, shape (N, 2 x columns)."""
        return np.stack([column[index] for column in columns for index in (self._chosen, self._before)], axis=1)

    def _scores(self, surprisal: NDArray[np.float64]) -> dict[str, Scores]:
        found, added = {}, np.concatenate([self._base, self._of_both(surprisal)], axis=1)
        for task, column in TIMES.items():
            times = self._column[column][self._chosen]
            there = np.isfinite(times) & (times > 0) & np.isfinite(added).all(axis=1)
            parts = (predicted(part[there], times[there], self._fold[there]) for part in (self._base, added))
            (plain, gain_of_plain), (full, gain_of_full) = parts
            centred = np.square(times[there] - times[there].mean())
            ratios = {
                "gain": Ratio(1000 * (gain_of_full - gain_of_plain), np.ones(len(centred))),
                "r2_gain": Ratio(np.square(times[there] - plain) - np.square(times[there] - full), centred),
            }
            names = [f"{self._rows[index]['item']} {self._rows[index]['word']}" for index in self._chosen[there]]
            found[task] = Scores(ratios, names)
        return found


def predicted(
    predictors: NDArray[np.float64], times: NDArray[np.float64], fold: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Each value as a linear model of predictors, (N, P), fitted on the other folds predicts it, and its log-likelihood
    in bits with the variance of their residuals, shape (N,) each.
    """
    design = np.concatenate([predictors, np.ones((len(times), 1))], axis=1)
    values, logs = np.empty(len(times)), np.empty(len(times))
    for number in np.unique(fold):
        held = fold == number
        weights = np.linalg.lstsq(design[~held], times[~held], rcond=None)[0]
        variance = np.square(times[~held] - design[~held] @ weights).mean()
        values[held] = design[held] @ weights
        squared = np.square(times[held] - values[held]) / variance
        logs[held] = -0.5 * (squared + np.log(2 * np.pi * variance)) / np.log(2)
    return values, logs


def _numbers(rows: list[dict[str, str]], column: str) -> NDArray[np.float64]:
    """A column as numbers; NaN where it is empty."""
    return np.array([float(row[column] or "nan") for row in rows])
