"""A split of binarized data as the task of a fairseq checkpoint reads and masks it; needs fairseq."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch
from fairseq import utils

from ..criterions.masked_lm_true_neg import MaskedLmTrueNeg, MaskedLmTrueNegConfig
from ..data.indexed import require_whole_split
from ..errors import TrueNegError
from ..models.loading import LoadedCheckpoint, load_checkpoint
from ..objectives import MaskedPredictions
from ..vocabulary import Vocabulary
from ..workers import Progress, choose_device
from .inspection_options import InspectionOptions


class FairseqSplit:
    """One split, with the same samples and masked positions for each checkpoint.

    The task of the last checkpoint decides on both (its sample length, masking and seed): converted weights do not know
    how long the samples of the training will be.
    """

    special: frozenset[int] = frozenset()  # their symbols tell

    def __init__(self, options: InspectionOptions) -> None:
        if options.data is None:
            raise TrueNegError("--data: found none; expected the binarized data of the fairseq checkpoints")
        self._options, self._data = options, options.data
        config = MaskedLmTrueNegConfig(
            tpu=False,
            hc_weight=1.0,
            synonym_table=str(options.synonym_table) if options.synonym_table else None,
            tokenization=options.tokenization,
        )
        self._task = self._load(options.checkpoint[-1]).task
        self._criterion = MaskedLmTrueNeg(config, self._task)

    @property
    def vocabulary(self) -> Vocabulary:
        return self._criterion.vocabulary

    @property
    def padding(self) -> int:
        return int(self._criterion.padding_idx)

    def judged(self, checkpoint: Path) -> tuple[int, Iterator[MaskedPredictions]]:
        """The updates of a model's training, and its batches, without dropout or gradients."""
        loaded = self._load(checkpoint)
        return loaded.updates, self._batches(loaded, checkpoint.name)

    def _load(self, checkpoint: Path) -> LoadedCheckpoint:
        return load_checkpoint(checkpoint, self._data, self._options.seed)

    def _batches(self, loaded: LoadedCheckpoint, name: str) -> Iterator[MaskedPredictions]:
        task, split, device = self._task, self._options.split, choose_device(cpu=self._options.cpu)
        model, criterion = loaded.model.to(device).eval(), self._criterion.to(device).eval()
        require_whole_split(self._data / split, ids=True)
        try:
            task.load_dataset(split)
        except FileNotFoundError:
            raise TrueNegError(
                f"--split {split}: {self._data} has no such split; expected {split}.bin and {split}.idx, "
                "written by fairseq-preprocess"
            ) from None
        batches = task.get_batch_iterator(
            dataset=task.dataset(split),
            max_sentences=self._options.batch_size,
            max_positions=utils.resolve_max_positions(task.max_positions(), model.max_positions()),
            ignore_invalid_inputs=True,
        ).next_epoch_itr(shuffle=False)
        for sample in Progress(batches, desc=name, unit="batch", leave=False):
            batch = utils.move_to_cuda(sample) if device.type == "cuda" else sample
            with torch.no_grad():
                yield criterion.judge(model, batch)
