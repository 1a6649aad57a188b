"""The step that met NaN is computed again as it was."""

from __future__ import annotations

import torch

from truneg_fairseq.criterions.electra import StepGenerator
from truneg_fairseq.trainer.trainer import first_broken


def test_the_repeated_step_draws_the_same_numbers():
    """As ELECTRA's generator samples tokens, in two micro-batches."""
    generator, drawn = StepGenerator(), []
    model = torch.nn.Linear(1, 1)

    def step(model, batch):
        drawn.append(float(torch.rand(1, generator=generator.at(torch.device("cpu"), training=True))))
        return model(batch).sum(), 1, {}

    class Criterion(torch.nn.Module):
        forward = staticmethod(step)

        def train(self, mode=True):  # as Electra's
            generator.begin()
            return super().train(mode)

    batches = [torch.ones(2, 1)] * 2
    generator.begin()
    for batch in batches:
        step(model, batch)
    assert "nothing in this worker's batches" in first_broken(batches, model, Criterion())
    assert drawn[:2] == drawn[2:]
    assert drawn[0] != drawn[1]
