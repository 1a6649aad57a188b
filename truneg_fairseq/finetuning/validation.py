"""Validation of a whole data set."""

from __future__ import annotations

from typing import Any

from fairseq.tasks import FairseqTask


class WholeValidation(FairseqTask):
    """A task whose validation covers every example.

    fairseq leaves out the last batch where its size is not a multiple of ``--required-batch-size-multiple``, which is 8
    if nothing is said: of 81 validation examples 80 would be scored. The flag is meant for the speed of training.
    """

    def get_batch_iterator(self, dataset: Any, *args: Any, **kwargs: Any) -> Any:
        """As in fairseq, with batches of any size for all but the training data."""
        if dataset is not self.datasets.get("train"):
            kwargs["required_batch_size_multiple"] = 1
        return super().get_batch_iterator(dataset, *args, **kwargs)
