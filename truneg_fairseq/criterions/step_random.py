"""Random numbers of a criterion's own, reproducible for each update and worker."""

from __future__ import annotations

import torch
from fairseq.distributed import utils as distributed_utils

_MIX = 0x9E3779B97F4A7C15
_MASK = (1 << 63) - 1


class StepGenerator:
    """A random generator that starts anew with every update, so that a resumed run draws what an uncut one draws.

    fairseq's trainer seeds torch before each update with seed + update, the same on all workers. That seed, which the
    host knows, seeds this generator together with the worker's rank; micro-batches of an update go on with it. In
    validation, which fairseq does not seed, every pass draws the same.
    """

    def __init__(self) -> None:
        self._generator: torch.Generator | None = None
        self._step_seed: int | None = None

    def at(self, device: torch.device, training: bool) -> torch.Generator:
        """The generator, on the logits' device, for the next batch.

        Args:
            device: where it will draw.
            training: False for a batch of validation.
        """
        if self._generator is None or self._generator.device != device:
            self._generator, self._step_seed = torch.Generator(device), None
        step_seed = torch.initial_seed() if training else -1
        if step_seed != self._step_seed:
            rank = distributed_utils.get_data_parallel_rank()
            self._generator.manual_seed(((step_seed + 2) * _MIX + rank) & _MASK)
            self._step_seed = step_seed
        return self._generator
