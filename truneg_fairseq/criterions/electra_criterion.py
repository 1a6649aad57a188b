"""ELECTRA pre-training with the true-negative objectives."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from fairseq.criterions import register_criterion
from torch import Tensor, distributed

from ..errors import one_line_errors
from ..objectives import ElectraOptions, MaskedPredictions, fill, sample_tokens
from ..objectives.replaced_tokens import ELECTRA_RATES, add_discriminator
from .masked_lm_true_neg import MaskedLmTrueNeg, MaskedLmTrueNegConfig, log_loss, log_rates

_STEP, _BATCH = 0x9E3779B97F4A7C15, 0xD1B54A32D192ED03
_MASK = (1 << 63) - 1
_VALIDATION = -1


@dataclass
class ElectraConfig(MaskedLmTrueNegConfig, ElectraOptions):
    """``electra``: the true-negative objectives on the generator (Section 5: sentences on the discriminator)."""


@register_criterion("electra", dataclass=ElectraConfig)
class Electra(MaskedLmTrueNeg):
    """Generator and discriminator, with any combination of the true-negative objectives.

    ``L = L_mlm + 50 L_disc + lambda_word L_sr + lambda_sent L_kl``: hard correction and word-level regularization work
    on the generator, the sentence-level one on the discriminator, whose pass over the filled sentence is H_p already.
    L_mlm is a mean over the masked tokens, L_disc over all that are not padding. Replaced is what is sampled and
    differs from the original; docs/reference/files.md explains what is logged.

    The detector ``context`` compares hidden states of the discriminator: it judges a prediction only where it was
    sampled.
    """

    config = ElectraConfig
    options_type = ElectraOptions

    def __init__(self, cfg: ElectraConfig, task: Any) -> None:
        super().__init__(cfg, task)
        self.random = StepGenerator()
        self.step_generators = (self.random,)

    def train(self, mode: bool = True) -> Any:
        """As in torch; fairseq's trainer calls it before each attempt at an update, and at no other time.

        An update whose fp16 gradients overflow is attempted again with the next batches, under the same number.
        """
        if mode:
            self.random.begin()
        return super().train(mode)

    def forward(self, model: Any, sample: dict[str, Any], reduce: bool = True) -> tuple[Tensor, Tensor, dict[str, Any]]:
        """The loss of a batch of electra_pretraining, in one forward pass of an ElectraModel with its generator."""
        self.objective.follow(sample["target"].device)
        projected = self.projected_positions(sample)
        found: list[MaskedPredictions] = []

        def replace(logits: Tensor) -> Tensor:
            found.append(self.predict_from(logits, sample, projected))
            return fill(found[0], self.sample_replacements(found[0]))

        options = {
            "masked_tokens": projected,
            "replace": replace,
            "return_all_hiddens": "states" in self.objective.reads,
        }
        output = model(**sample["net_input"], **options)
        passes = self.passes(model, sample, found[0], filled=(output.tokens, output.hidden_states))
        with one_line_errors():
            judged, generator = self.objective.step(found[0], passes)
            read = {"tokens": output.tokens, "logits": output.logits}
            outcome = add_discriminator(self.objective, generator, judged, passes, **read)
        log = {**outcome.counts, "ntokens": sample["ntokens"], "nsentences": sample["nsentences"]}
        return outcome.loss, outcome.sample_size, log

    def sample_replacements(self, predicted: MaskedPredictions) -> Tensor:
        """The tokens that the generator puts in place of the masked ones, int64, shape (N,), sampled."""
        return sample_tokens(predicted.logits.detach(), self.random.at(predicted.logits.device, self.training))

    @staticmethod
    def reduce_metrics(logging_outputs: Sequence[dict[str, Any]]) -> None:
        """Sums the counts of all workers and micro-batches; the rates are derived from the sums when shown."""
        log_loss(logging_outputs)
        log_rates(logging_outputs, ELECTRA_RATES)


class StepGenerator:
    """A random generator that starts anew with every batch, so that a resumed run draws what an uncut one draws.

    It is seeded by torch's seed, which fairseq sets to seed + update, and by the batch's number in the update, through
    the workers: n of them draw what one draws with n micro-batches. In validation every pass draws the same.
    """

    def __init__(self) -> None:
        self._generator: torch.Generator | None = None
        self._step: int | None = None
        self._micro_batch = 0

    def begin(self) -> None:
        """Begins an update: its batches are numbered from 0."""
        self._step = None

    def at(self, device: torch.device, training: bool) -> torch.Generator:
        """The generator for the next batch; it is not seeded while a CUDA graph is recorded, but before each replay."""
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
        self._generator.manual_seed((step * _STEP + batch * _BATCH) & _MASK)
        return self._generator
