"""Measures a checkpoint's masked-LM loss and false negatives on a binarized split (Table 2), and collects examples."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from fairseq import utils
from fairseq.logging import metrics
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from ..comparison.statistics import ratio_interval
from ..criterions.masked_lm_true_neg import MaskedLmTrueNeg, MaskedLmTrueNegConfig
from ..criterions.rates import BITS
from ..data.indexed import require_whole_split
from ..device import choose_device
from ..errors import TrueNegError
from ..models.loading import LoadedCheckpoint, load_checkpoint
from ..objectives.predictions import MaskedPredictions
from ..progress import Progress
from .calibration import BINS, calibration_bins, expected_calibration_error
from .measurements import Measurement
from .options import InspectionOptions
from .sentences import FalseNegative, spell, word_of

_PAIRS = _EXAMPLES = 10


class _Counts(NamedTuple):
    """Of each sequence, float64, shape (sequences,)."""

    masked: NDArray[np.float64]  # its masked tokens
    correct: NDArray[np.float64]  # those that are predicted
    corrected: NDArray[np.float64]  # those whose prediction is a synonym
    loss: NDArray[np.float64]  # the sum over its masked tokens, in nats

    def intervals(self) -> dict[str, tuple[float, float]]:
        """Of 95 %, bootstrapped over sequences; without the rates that have no denominator."""
        ratios: dict[str, tuple[NDArray[Any], NDArray[Any]]] = {
            "loss": (self.loss * BITS, self.masked),
            "accuracy": (100 * self.correct, self.masked),
            "hc_pred": (100 * self.corrected, self.masked - self.correct),
            "hc_iter": (100.0 * (self.corrected > 0), np.ones(len(self.masked))),
        }
        found = {name: ratio_interval(*parts) for name, parts in ratios.items()}
        return {name: (each.low, each.high) for name, each in found.items() if each is not None}


class Inspector:
    """Measures checkpoints on one split, with the same samples and masked positions for each.

    The task of the last checkpoint decides on both (its sample length, masking and seed): converted weights do not know
    how long the samples of the training will be.
    """

    def __init__(self, options: InspectionOptions) -> None:
        self._options = options
        config = MaskedLmTrueNegConfig(
            tpu=False,
            hc_weight=1.0,
            synonym_table=str(options.synonym_table) if options.synonym_table else None,
            tokenization=options.tokenization,
        )
        self._task = self._load(options.checkpoint[-1]).task
        self._criterion = MaskedLmTrueNeg(config, self._task)

    def measure(self, checkpoint: Path, *, examples: int = 0) -> Measurement:
        """Runs the checkpoint's model over the split, without dropout or gradients; on a GPU where there is one.

        ``examples`` is the number of false negatives to keep.
        """
        loaded, criterion = self._load(checkpoint), self._criterion
        bins = torch.zeros(3, BINS, dtype=torch.float64)
        logs, parts, found = list[dict[str, Any]](), list[Tensor](), list[FalseNegative]()
        for batch, judged in self._judged(loaded, checkpoint.name):
            logs.append(criterion.score(loaded.model, batch, judged)[2])
            parts.append(_count(judged))
            confidence = judged.logits.float().softmax(-1).amax(-1)[judged.counted]
            bins += calibration_bins(confidence, judged.prediction.eq(judged.gold)[judged.counted]).cpu()
            found.extend(_in_sentences(judged, criterion.padding_idx))
        with metrics.aggregate(new_root=True) as aggregate:
            MaskedLmTrueNeg.reduce_metrics(logs)
            smoothed = aggregate.get_smoothed_values()
        counts = _Counts(*torch.cat(parts, dim=1).numpy())
        names = ("loss", "ppl", "accuracy", "hc_pred", "hc_iter")
        values = {name: float(smoothed[name]) for name in names} | {"ece": 100 * expected_calibration_error(bins)}
        # fairseq rounds the loss to 3 digits, and models that are compared differ in the third.
        values["loss"] = float(counts.loss.sum() / max(1.0, counts.masked.sum())) * BITS
        vocabulary = criterion.vocabulary
        pairs = Counter(example.pair for example in found).most_common(_PAIRS)
        return Measurement(
            str(checkpoint),
            loaded.updates,
            values,
            sequences=len(counts.masked),
            masked=int(counts.masked.sum()),
            false_negatives=len(found),
            intervals=counts.intervals(),
            pairs=[(word_of(gold, vocabulary), word_of(other, vocabulary), count) for (gold, other), count in pairs],
            examples=[spell(example, vocabulary) for example in _sample(found, examples)],
        )

    def _load(self, checkpoint: Path) -> LoadedCheckpoint:
        return load_checkpoint(checkpoint, self._options.data, self._options.seed)

    def _judged(self, loaded: LoadedCheckpoint, name: str) -> Iterator[tuple[dict[str, Any], MaskedPredictions]]:
        """The batches of the split, judged."""
        task, split, device = self._task, self._options.split, choose_device(cpu=self._options.cpu)
        model, criterion = loaded.model.to(device).eval(), self._criterion.to(device).eval()
        require_whole_split(self._options.data / split)
        try:
            task.load_dataset(split)
        except FileNotFoundError:
            raise TrueNegError(
                f"--split {split}: {self._options.data} has no such split; expected {split}.bin and {split}.idx, "
                "written by fairseq-preprocess"
            ) from None
        batches = task.get_batch_iterator(
            dataset=task.dataset(split),
            max_sentences=self._options.batch_size,
            max_positions=utils.resolve_max_positions(task.max_positions(), model.max_positions()),
            ignore_invalid_inputs=True,
        ).next_epoch_itr(shuffle=False)
        for sample in Progress(batches, desc=name, unit=" batches", leave=False):
            batch = utils.move_to_cuda(sample) if device.type == "cuda" else sample
            with torch.no_grad():
                judged = criterion.judge(model, batch)
            yield batch, judged


def measure(options: InspectionOptions) -> Iterator[Measurement]:
    """Measures each checkpoint; the last one with examples."""
    inspector = Inspector(options)
    for checkpoint in options.checkpoint:
        yield inspector.measure(checkpoint, examples=_EXAMPLES if checkpoint is options.checkpoint[-1] else 0)


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
