"""Random numbers of a criterion's own, reproducible for each update, worker and micro-batch."""

from __future__ import annotations

import zlib

import torch
from torch import distributed

_STEP, _BATCH = 0x9E3779B97F4A7C15, 0xD1B54A32D192ED03
_MASK = (1 << 63) - 1
_VALIDATION = -1


class StepGenerator:
    """A random generator that starts anew with every batch, so that a resumed run draws what an uncut one draws.

    fairseq's trainer seeds torch before each update with seed + update, the same on all workers. That seed, which the
    host knows, and the batch's number in the update seed this generator; batches are numbered through the workers, so
    that n workers draw what one worker with n micro-batches draws. In validation, which fairseq does not seed, every
    pass draws the same. ``purpose`` tells the draws of two generators apart.
    """

    def __init__(self, purpose: str = "") -> None:
        self._purpose = zlib.crc32(purpose.encode())
        self._generator: torch.Generator | None = None
        self._step: int | None = None
        self._micro_batch = 0

    def begin(self) -> None:
        """Begins an update, also one that is attempted again after an overflow: its batches are numbered from 0."""
        self._step = None

    def at(self, device: torch.device, training: bool) -> torch.Generator:
        """The generator for the next batch, of a training or of a validation, for draws on a device.

        During the recording of a CUDA graph it is not seeded: that happens before the recording and before each replay.
        """
        if device.type == "cuda" and self._generator is not None and torch.cuda.is_current_stream_capturing():
            return self._generator
        step = torch.initial_seed() if training else _VALIDATION
        self._micro_batch = self._micro_batch + 1 if step == self._step else 0
        self._step = step
        rank, workers = 0, 1
        if distributed.is_available() and distributed.is_initialized():
            rank, workers = distributed.get_rank(), distributed.get_world_size()
        if self._generator is None or self._generator.device != device:
            self._generator = torch.Generator(device)
        batch = self._micro_batch * workers + rank
        self._generator.manual_seed((step * _STEP + batch * _BATCH + self._purpose) & _MASK)
        return self._generator
