"""``--final-mask-prob``: a masking rate that falls over training."""

from __future__ import annotations

from typing import Any

import torch

from ..errors import TrueNegError
from ..objectives.mask_rate import rate_at, same_in_words, unmask
from ..objectives.predictions import original_tokens
from ..objectives.words import WordMarks
from .config import MaskRateOptions
from .step_random import StepGenerator
from .task_hooks import before_each_attempt, before_each_step


class FallingMaskRate:
    """Unmasks a part of what the data mask, more and more of it in the course of the training.

    The data are masked at the task's ``--mask-prob`` as they are read, ahead of the training and without knowing the
    update. A validation has the final rate. What is drawn depends on the seed, the update and the batch's number in it:
    a run that resumes has the masks of one that was never interrupted.

    Args:
        options: ``final_mask_prob``, and ``max_update``, where the rate reaches it.
        task: a masked-LM task.
        criterion: whose training it is.
        words: which tokens are of one word, where whole words are masked.
    """

    def __init__(self, options: MaskRateOptions, task: Any, criterion: Any, words: WordMarks | None) -> None:
        assert options.final_mask_prob is not None
        self._start, self._end, self._updates = task.cfg.mask_prob, options.final_mask_prob, options.max_update
        if self._end > self._start:
            raise TrueNegError(
                f"--final-mask-prob {self._end}: expected at most --mask-prob, {self._start}, from which the rate falls"
            )
        if self._updates <= 0:
            raise TrueNegError(
                f"--final-mask-prob {self._end}: found no --max-update, expected the update that has this rate"
            )
        self._words, self._padding = words, task.source_dictionary.pad()
        self._update = 0
        self._random = StepGenerator("mask rate")
        before_each_attempt(criterion, self._random.begin)
        before_each_step(task, self._begin_step)

    def _begin_step(self, sample: Any, model: Any, criterion: Any, update: int) -> None:
        self._update = update

    def applied_to(self, sample: dict[str, Any], training: bool) -> dict[str, Any]:
        """The batch with fewer positions masked; the given one stays as it is."""
        tokens, target = sample["net_input"]["src_tokens"], sample["target"]
        rate = rate_at(self._start, self._end, self._update / self._updates if training else 1.0)
        drawn = torch.rand(target.shape, generator=self._random.at(target.device, training), device=target.device)
        if self._words is not None:
            self._words = self._words.on(target.device)
            drawn = same_in_words(drawn, self._words.inside(original_tokens(tokens, target, self._padding)))
        tokens, target = unmask(tokens, target, drawn.lt(rate / self._start), self._padding)
        return {**sample, "target": target, "net_input": {**sample["net_input"], "src_tokens": tokens}}
