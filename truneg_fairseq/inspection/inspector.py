"""Measures a checkpoint's masked-LM loss and false negatives on a binarized split (Table 2), and collects examples."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
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
from ..device import choose_device
from ..errors import TrueNegError
from ..objective_factory import pairs_of
from ..objectives.acceptance import embedding_cosine
from ..objectives.hard_correction import corrected_predictions, pair_keys
from ..objectives.predictions import MaskedPredictions
from ..progress import Progress
from ..synonyms import SynonymTable
from ..vocabulary import Vocabulary
from .calibration import BINS, calibration_bins, expected_calibration_error
from .checkpoint import LoadedCheckpoint, load_checkpoint
from .measurements import Measurement
from .sentences import FalseNegative, spell, word_of
from .sheet import Case


class SequenceCounts(NamedTuple):
    """Of each sequence, float64, shape (sequences,)."""

    masked: NDArray[np.float64]  # its masked tokens
    correct: NDArray[np.float64]  # those that are predicted
    corrected: NDArray[np.float64]  # those whose prediction is a synonym
    loss: NDArray[np.float64]  # the sum over its masked tokens, in nats


@dataclass(frozen=True)
class Inspection:
    """One checkpoint on one split."""

    checkpoint: Path  # its file
    updates: int  # number of training updates
    # ``loss`` (bits), ``ppl``, ``accuracy``, ``ece`` (%, the expected calibration error), ``hc_pred`` and ``hc_iter``
    # (%, Table 2)
    values: dict[str, float]
    counts: SequenceCounts  # of each sequence
    examples: list[FalseNegative] = field(default_factory=list)  # the false negatives found, in the order of the data

    def sample(self, count: int, seed: int = 1) -> list[FalseNegative]:
        """A random sample of false negatives of different (gold, prediction) pairs, in the order of the data."""
        distinct = list({example.pair: example for example in reversed(self.examples)}.values())[::-1]
        chosen = set(random.Random(seed).sample(range(len(distinct)), min(count, len(distinct))))
        return [example for index, example in enumerate(distinct) if index in chosen]

    def frequent_pairs(self, count: int) -> list[tuple[tuple[int, int], int]]:
        """The (gold, prediction) pairs that are corrected most often, each with how often."""
        return Counter(example.pair for example in self.examples).most_common(count)

    def intervals(self) -> dict[str, tuple[float, float]]:
        """Of 95 %, bootstrapped over sequences, in the units of ``values``; none where a rate has no denominator."""
        counts = self.counts
        sequences = np.ones(len(counts.masked))
        ratios: dict[str, tuple[NDArray[Any], NDArray[Any]]] = {
            "loss": (counts.loss * BITS, counts.masked),
            "accuracy": (100 * counts.correct, counts.masked),
            "hc_pred": (100 * counts.corrected, counts.masked - counts.correct),
            "hc_iter": (100.0 * (counts.corrected > 0), sequences),
        }
        found = {name: ratio_interval(*parts) for name, parts in ratios.items()}
        return {name: (each.low, each.high) for name, each in found.items() if each is not None}


class Inspector:
    """Inspects checkpoints on one split, with the same samples and masked positions for each.

    The task of the first checkpoint that is loaded decides on both (its sample length, masking and seed); call
    :meth:`prepare` to let another one decide.

    Args:
        data: folder of binarized data.
        split: "valid", "test", "train", ...
        batch_size: sequences a batch.
        synonym_table: a table, None for the one beside the data (built when missing).
        tokenization: see :class:`truneg_fairseq.vocabulary.Vocabulary`.
        seed: of the masked positions; None for that of the first checkpoint's training.
        cpu: keep off the GPU.
    """

    def __init__(
        self,
        data: Path,
        split: str = "valid",
        *,
        batch_size: int = 32,
        synonym_table: Path | None = None,
        tokenization: str = "auto",
        seed: int | None = None,
        cpu: bool = False,
    ) -> None:
        self._data = data
        self._seed = seed
        self._split = split
        self._batch_size = batch_size
        self._cpu = cpu
        self._config = MaskedLmTrueNegConfig(
            tpu=False,
            hc_weight=1.0,
            synonym_table=str(synonym_table) if synonym_table else None,
            tokenization=tokenization,
        )
        self._criterion: MaskedLmTrueNeg | None = None
        self._task: Any = None

    def prepare(self, checkpoint: Path) -> None:
        """Takes the samples, the masked positions and the vocabulary from this checkpoint's task."""
        self._task = load_checkpoint(checkpoint, self._data, self._seed).task
        self._criterion_of(self._task)

    def inspect(self, checkpoint: Path) -> Inspection:
        """Runs the checkpoint's model over the split, without dropout or gradients; on a GPU where there is one.

        Args:
            checkpoint: fairseq's, of a masked-LM model.
        """
        loaded = load_checkpoint(checkpoint, self._data, self._seed)
        bins = torch.zeros(3, BINS, dtype=torch.float64)
        logs: list[dict[str, Any]] = []
        examples: list[FalseNegative] = []
        counts: list[Tensor] = []
        criterion = self._criterion_of(self._task or loaded.task)
        for batch, judged in self._judged(loaded, checkpoint.name):
            assert judged.corrected is not None
            logs.append(criterion.score(loaded.model, batch, judged)[2])
            counts.append(_count(judged))
            bins += _calibration(judged)
            examples.extend(_in_sentences(judged, judged.corrected, criterion.padding_idx))
        with metrics.aggregate(new_root=True) as aggregate:
            MaskedLmTrueNeg.reduce_metrics(logs)
            values = aggregate.get_smoothed_values()
        names = ("loss", "ppl", "accuracy", "hc_pred", "hc_iter")
        by_sequence = SequenceCounts(*torch.cat(counts, dim=1).numpy())
        chosen = {name: float(values[name]) for name in names} | {"ece": 100 * expected_calibration_error(bins)}
        # fairseq rounds the loss to 3 digits, and models that are compared differ in the third.
        chosen["loss"] = float(by_sequence.loss.sum() / max(1.0, by_sequence.masked.sum())) * BITS
        return Inspection(checkpoint, loaded.updates, chosen, by_sequence, examples)

    def measure(self, checkpoint: Path, *, pairs: int, examples: int) -> Measurement:
        """:meth:`inspect` as text and numbers.

        Args:
            checkpoint: see there.
            pairs: how many of the most frequent pairs to keep.
            examples: how many false negatives to keep.
        """
        inspection = self.inspect(checkpoint)
        vocabulary = self.vocabulary
        return Measurement(
            str(checkpoint),
            inspection.updates,
            inspection.values,
            sequences=len(inspection.counts.masked),
            masked=int(inspection.counts.masked.sum()),
            false_negatives=len(inspection.examples),
            intervals=inspection.intervals(),
            pairs=[
                (word_of(gold, vocabulary), word_of(prediction, vocabulary), count)
                for (gold, prediction), count in inspection.frequent_pairs(pairs)
            ],
            examples=[spell(example, vocabulary) for example in inspection.sample(examples)],
        )

    def cases(self, checkpoint: Path, tables: Mapping[str, SynonymTable], cosines: Mapping[str, float]) -> list[Case]:
        """The checkpoint's mistakes at whole words, each with the sources that take it for a false negative.

        Args:
            checkpoint: see :meth:`inspect`.
            tables: sources by name.
            cosines: by name, the smallest cosine of the input embeddings that a source accepts.
        """
        keys = {name: pair_keys(*pairs_of(table)) for name, table in tables.items()}
        cases: list[Case] = []
        loaded = load_checkpoint(checkpoint, self._data, self._seed)
        criterion = self._criterion_of(self._task or loaded.task)
        words = _readable_words(self.vocabulary)
        for batch, judged in self._judged(loaded, checkpoint.name):
            assert judged.whole_word is not None
            passes = criterion.passes(loaded.model, batch, judged)
            gold, prediction = judged.gold.cpu(), judged.prediction.cpu()
            wrong = judged.whole_word.cpu() & gold.ne(prediction) & words[gold]
            accepted = {name: corrected_predictions(gold, prediction, wrong, each) for name, each in keys.items()}
            cosine = embedding_cosine(passes.embeddings(), judged.gold, judged.prediction).cpu()
            accepted |= {name: wrong & cosine.ge(least) for name, least in cosines.items()}
            cases += [
                Case(
                    spell(example, self.vocabulary),
                    frozenset(name for name, hits in accepted.items() if hits[row]),
                )
                for row, example in zip(
                    wrong.nonzero().squeeze(1).tolist(),
                    _in_sentences(judged, wrong, criterion.padding_idx),
                    strict=True,
                )
            ]
        return cases

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary of the checkpoints' task; set by :meth:`prepare` or the first inspection."""
        assert self._criterion is not None
        return self._criterion.vocabulary

    def _judged(self, loaded: LoadedCheckpoint, name: str) -> Iterator[tuple[dict[str, Any], MaskedPredictions]]:
        """The batches of the split, judged, on a GPU where there is one."""
        self._task = self._task or loaded.task
        device = choose_device(cpu=self._cpu)
        model, criterion = loaded.model.to(device).eval(), self._criterion_of(self._task).to(device).eval()
        for sample in Progress(self._batches(self._task, model), desc=name, unit=" batches", leave=False):
            batch = utils.move_to_cuda(sample) if device.type == "cuda" else sample
            with torch.no_grad():
                judged = criterion.judge(model, batch)
            yield batch, judged

    def _criterion_of(self, task: Any) -> MaskedLmTrueNeg:
        if self._criterion is None:
            self._criterion = MaskedLmTrueNeg(self._config, task)
        return self._criterion

    def _batches(self, task: Any, model: Any) -> Any:
        try:
            task.load_dataset(self._split)
        except FileNotFoundError:
            raise TrueNegError(
                f"--split {self._split}: {self._data} has no such split; expected {self._split}.bin and "
                f"{self._split}.idx, written by fairseq-preprocess"
            ) from None
        return task.get_batch_iterator(
            dataset=task.dataset(self._split),
            max_sentences=self._batch_size,
            max_positions=utils.resolve_max_positions(task.max_positions(), model.max_positions()),
            ignore_invalid_inputs=True,
        ).next_epoch_itr(shuffle=False)


def _readable_words(vocabulary: Vocabulary) -> Tensor:
    """bool, shape (V,): the tokens that are whole words with a letter or digit."""
    return torch.tensor([word is not None and any(map(str.isalnum, word)) for word in vocabulary.words])


def _count(judged: MaskedPredictions) -> Tensor:
    """:class:`SequenceCounts` of a batch, float64, shape (4, B)."""
    assert judged.corrected is not None
    rows, width = judged.original.size()
    right = judged.prediction.eq(judged.gold) & judged.counted
    loss = functional.cross_entropy(judged.logits.float(), judged.gold, reduction="none") * judged.counted
    columns = torch.stack([part.double() for part in (judged.counted, right, judged.corrected, loss)])
    place = torch.div(judged.positions, width, rounding_mode="floor")
    return columns.new_zeros(len(columns), rows).index_add_(1, place, columns).cpu()


def _calibration(judged: MaskedPredictions) -> Tensor:
    """:func:`calibration_bins` of a batch."""
    confidence = judged.logits.float().softmax(-1).amax(-1)[judged.counted]
    return calibration_bins(confidence, judged.prediction.eq(judged.gold)[judged.counted]).cpu()


def _in_sentences(judged: MaskedPredictions, chosen: Tensor, padding: int) -> list[FalseNegative]:
    """The chosen predictions, bool, shape (N,), in their sentences."""
    rows = chosen.to(judged.positions.device).nonzero().squeeze(1)
    if not len(rows):
        return []
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
