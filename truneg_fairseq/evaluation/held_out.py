"""Measures a checkpoint's masked-LM loss and false negatives on a binarized split (Table 2), and collects examples."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from ..objectives.predictions import MaskedPredictions
from ..objectives.rates import BITS
from ..results.intervals import Ratio
from .calibration import BINS, calibration_bins, expected_calibration_error
from .examples import FalseNegative, spell, word_of
from .inspection_options import InspectionOptions
from .judging import require_one_world
from .measurements import Measurement

if TYPE_CHECKING:
    from .fairseq_split import FairseqSplit
    from .text_split import TextSplit

_PAIRS = _EXAMPLES = 10


class _Counts(NamedTuple):
    """Of each sequence, float64, shape (sequences,)."""

    masked: NDArray[np.float64]  # its masked tokens
    correct: NDArray[np.float64]  # those that are predicted
    corrected: NDArray[np.float64]  # those whose prediction is a synonym
    loss: NDArray[np.float64]  # the sum over its masked tokens, in nats

    def ratios(self) -> dict[str, tuple[NDArray[Any], NDArray[Any]]]:
        """Numerators and denominators of the loss in bits, and of rates in percent."""
        return {
            "loss": (self.loss * BITS, self.masked),
            "accuracy": (100 * self.correct, self.masked),
            "hc_pred": (100 * self.corrected, self.masked - self.correct),
            "hc_iter": (100.0 * (self.corrected > 0), np.ones(len(self.masked))),
        }

    def intervals(self) -> dict[str, tuple[float, float]]:
        """Of 95 %, bootstrapped over sequences; without the rates that have no denominator."""
        found = {name: Ratio(*parts).interval() for name, parts in self.ratios().items()}
        return {name: (each.low, each.high) for name, each in found.items() if each is not None}


def measure_on(split: FairseqSplit | TextSplit, checkpoint: Path, *, examples: int = 0) -> Measurement:
    """Runs a model over a split; ``examples`` is the number of false negatives to keep."""
    updates, batches = split.judged(checkpoint)
    bins = torch.zeros(3, BINS, dtype=torch.float64)
    parts, found = list[Tensor](), list[FalseNegative]()
    for judged in batches:
        parts.append(_count(judged))
        confidence = judged.logits.float().softmax(-1).amax(-1)[judged.counted]
        bins += calibration_bins(confidence, judged.prediction.eq(judged.gold)[judged.counted]).cpu()
        found.extend(_in_sentences(judged, split.padding))
    counts = _Counts(*torch.cat(parts, dim=1).numpy())
    sums = {name: (float(part.sum()), float(whole.sum())) for name, (part, whole) in counts.ratios().items()}
    loss, *rates = (part / whole if whole else 0.0 for part, whole in sums.values())
    values = {"loss": loss, "ppl": math.inf if loss > 1000 else round(2.0**loss, 2)}
    values |= {name: round(rate, 4) for name, rate in zip(list(sums)[1:], rates, strict=True)}
    values["ece"] = 100 * expected_calibration_error(bins)
    vocabulary = split.vocabulary
    pairs = Counter(example.pair for example in found).most_common(_PAIRS)
    return Measurement(
        str(checkpoint),
        updates,
        values,
        sequences=len(counts.masked),
        masked=int(counts.masked.sum()),
        false_negatives=len(found),
        intervals=counts.intervals(),
        pairs=[(word_of(gold, vocabulary), word_of(other, vocabulary), count) for (gold, other), count in pairs],
        examples=[spell(example, vocabulary, split.special) for example in _sample(found, examples)],
    )


def measure(options: InspectionOptions) -> Iterator[Measurement]:
    """Measures each model; the last one with examples."""
    if require_one_world(options.checkpoint):
        from .text_split import TextSplit

        split: FairseqSplit | TextSplit = TextSplit(options)
    else:
        from .fairseq_split import FairseqSplit

        split = FairseqSplit(options)
    for checkpoint in options.checkpoint:
        yield measure_on(split, checkpoint, examples=_EXAMPLES if checkpoint is options.checkpoint[-1] else 0)


def _sample(found: Sequence[FalseNegative], count: int) -> list[FalseNegative]:
    """A random sample of false negatives of different (gold, prediction) pairs, in the order of the data."""
    distinct = list({example.pair: example for example in reversed(found)}.values())[::-1]
    chosen = set(random.Random(1).sample(range(len(distinct)), min(count, len(distinct))))
    return [example for index, example in enumerate(distinct) if index in chosen]


def _count(judged: MaskedPredictions) -> Tensor:
    """:class:`_Counts` of a batch, float64, shape (4, B)."""
    assert judged.corrected is not None
    rows, width = judged.original.size()
    right = judged.prediction.eq(judged.gold) & judged.counted
    loss = functional.cross_entropy(judged.logits.float(), judged.gold, reduction="none") * judged.counted
    columns = torch.stack([part.double() for part in (judged.counted, right, judged.corrected, loss)])
    place = torch.div(judged.positions, width, rounding_mode="floor")
    return columns.new_zeros(len(columns), rows).index_add_(1, place, columns).cpu()


def _in_sentences(judged: MaskedPredictions, padding: int) -> list[FalseNegative]:
    """The false negatives of a batch in their sentences."""
    assert judged.corrected is not None
    rows = judged.corrected.nonzero().squeeze(1)
    gold, prediction = judged.gold[rows], judged.prediction[rows]
    probabilities = judged.logits[rows].float().softmax(-1)
    of_gold = probabilities.gather(1, gold.unsqueeze(1)).squeeze(1).tolist()
    of_prediction = probabilities.gather(1, prediction.unsqueeze(1)).squeeze(1).tolist()
    sentences, width = judged.original.tolist(), judged.original.size(1)
    real = judged.original.ne(padding).sum(1).tolist()  # padding is at the end
    return [
        FalseNegative(tuple(sentences[position // width][: real[position // width]]), position % width, *rest)
        for position, *rest in zip(
            judged.positions[rows].tolist(), prediction.tolist(), of_gold, of_prediction, strict=True
        )
    ]
