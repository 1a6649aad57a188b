"""The step that met NaN is computed again as it was."""

from __future__ import annotations

from types import SimpleNamespace

import torch

from truneg_fairseq.criterions.nan_guard import _first_broken
from truneg_fairseq.criterions.step_random import StepGenerator


def test_the_repeated_step_draws_the_same_numbers():
    """As ELECTRA's generator samples tokens, in two micro-batches."""
    generator, drawn = StepGenerator(), []
    model = torch.nn.Linear(1, 1)

    def forward(model, batch):
        drawn.append(float(torch.rand(1, generator=generator.at(torch.device("cpu"), training=True))))
        return model(batch).sum(), 1, {}

    criterion = SimpleNamespace(step_generators=(generator,))
    batches = [torch.ones(2, 1)] * 2
    generator.begin()
    for batch in batches:
        forward(model, batch)
    repeat = type("Criterion", (), {"__call__": lambda self, *given: forward(*given), **vars(criterion)})()
    assert "nothing in this worker's batches" in _first_broken(batches, model, repeat)
    assert drawn[:2] == drawn[2:]
    assert drawn[0] != drawn[1]
