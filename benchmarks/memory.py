"""The memory of an update at its peak: the formula of :mod:`truneg_fairseq.models.memory` against what is measured.

    python benchmarks/memory.py

Measured are the bytes of tensors on a CPU: those that the trainer holds when an update begins, and what torch's
profiler sees allocated at a time in the third update on top. The data are random (:mod:`steps`).
"""

from __future__ import annotations

import argparse
import resource
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from fairseq.trainer import Trainer
from steps import build_trainer, first_batches, peak_bytes, step_of, where, write_data
from torch import Tensor

import truneg_fairseq
from truneg_fairseq.models.memory import BatchSize, ModelSize, Peak, predict_peak

MIB = 2**20
TASKS = {
    "masked_lm": ("--task", "masked_lm", "--sample-break-mode", "none"),
    "electra": ("--task", "electra_pretraining"),
}
CRITERIONS: dict[str, tuple[str, ...]] = {
    "masked_lm": (),
    "masked_lm_hc": (),
    "masked_lm_sr_word": (),
    "masked_lm_sr_sent": (),
    "masked_lm_true_neg": ("--hc-weight", "1", "--sr-word-weight", "1"),
    "electra": (),
    "electra, HC + SR-word": ("--hc-weight", "1", "--sr-word-weight", "1"),
    "electra, SR-sent": ("--sr-sent-weight", "1"),
}


class Run(NamedTuple):
    """What is trained: an architecture, one of CRITERIONS, and the batches."""

    arch: str
    criterion: str
    precision: str
    batch_size: int
    length: int


RUNS = (
    Run("bert_mini", "masked_lm", "fp32", 16, 128),
    Run("bert_mini", "masked_lm", "bf16", 16, 128),
    Run("bert_mini", "masked_lm", "fp32", 2, 64),
    Run("bert_mini", "masked_lm_hc", "fp32", 4, 256),
    Run("bert_mini", "masked_lm_sr_word", "fp32", 16, 64),
    Run("bert_mini", "masked_lm_sr_sent", "fp32", 8, 128),
    Run("bert_mini", "masked_lm_sr_sent", "bf16", 8, 128),
    Run("bert_small", "masked_lm_true_neg", "bf16", 8, 128),
    Run("electra_small", "electra", "fp32", 16, 128),
    Run("electra_small", "electra", "bf16", 16, 128),
    Run("electra_small", "electra", "fp32", 2, 64),
    Run("electra_small", "electra, HC + SR-word", "fp32", 4, 256),
    Run("electra_small", "electra, SR-sent", "bf16", 16, 64),
)


class Comparison(NamedTuple):
    """Bytes of an update: predicted, and measured as it begins and on top."""

    predicted: Peak
    held: int
    added: int

    @property
    def measured(self) -> int:
        """At the peak."""
        return self.held + self.added

    @property
    def error(self) -> float:
        """Relative, of the whole."""
        return self.predicted.total / self.measured - 1


def trainer_of(run: Run, data: Path, *flags: str) -> Trainer:
    """A trainer for a run with ``electra_adam``, the data being those of :func:`steps.write_data`."""
    args = argparse.Namespace(
        device="cpu", precision=run.precision, batch_size=run.batch_size, tokens_per_sample=run.length
    )
    name = run.criterion.split(",")[0]
    task = TASKS["electra" if name == "electra" else "masked_lm"]
    criterion = ("--criterion", name, *CRITERIONS[run.criterion])
    return build_trainer(data, args, *task, "--arch", run.arch, *criterion, "--optimizer", "electra_adam", *flags)


def compare(trainer: Trainer, precision: str, update_freq: int = 1) -> Comparison:
    """The peak of a trainer's third update, when the optimizer's state is there; its batches are alike."""
    *before, sample = first_batches(trainer, 3)
    step = step_of(trainer)
    for earlier in before:
        step(earlier)
    trainer.zero_grad()  # as the step begins: the profiler does not see what was there before it go
    held = measured_bytes(trainer)
    added = peak_bytes(lambda batch: trainer.train_step([batch] * update_freq), sample, "cpu")
    return Comparison(predict(trainer, sample, precision, update_freq), held, added)


def predict(trainer: Trainer, sample: dict[str, Any], precision: str, update_freq: int) -> Peak:
    """The formula's, for a trainer's model and criterion and a batch."""
    dictionary, target = trainer.task.source_dictionary, sample["target"]
    detection = getattr(trainer.model, "generator", None) is not None
    model = ModelSize.from_arguments(trainer.model.args, len(dictionary), detection=detection)
    sequences, length = target.shape
    batch = BatchSize(sequences, length, masked=int(target.ne(dictionary.pad()).sum()))
    weights = [getattr(trainer.cfg.criterion, f"sr_{level}_weight", 0) for level in ("word", "sent")]
    word, sentence = map(bool, weights)
    return predict_peak(model, batch, precision, sr_word=word, sr_sent=sentence, update_freq=update_freq)


def measured_bytes(trainer: Trainer) -> int:
    """Of the tensors that a trainer holds: each memory once, whoever shares it."""
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage() for tensor in _tensors(trainer)}
    return sum(storage.nbytes() for storage in storages.values())


def _tensors(trainer: Trainer) -> Iterator[Tensor]:
    optimizer = trainer.optimizer.optimizer
    yield from (*trainer.model.buffers(), *trainer.criterion.buffers())
    for group in optimizer.param_groups:  # in bf16 fp32 copies of the model's
        yield from _with_gradients(group["params"])
    yield from _with_gradients(trainer.model.parameters())
    for state in optimizer.state.values():
        yield from (value for value in state.values() if torch.is_tensor(value))


def _with_gradients(parameters: Any) -> Iterator[Tensor]:
    for parameter in parameters:
        yield parameter
        if parameter.grad is not None:
            yield parameter.grad


def main() -> None:
    """Measures and prints the table."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    truneg_fairseq.register()
    libraries = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    with tempfile.TemporaryDirectory() as name:
        write_data(Path(name))
        found = {run: compare(trainer_of(run, Path(name)), run.precision) for run in RUNS}
    print(where("cpu"))
    print(f"Bytes of tensors in MiB; Python and its libraries take {libraries:,.0f} more")
    heads = ("batch", "precision", "held", "predicted", "measured", "error", "moment")
    print(f"{'':38}" + "".join(f"{head:>11}" for head in heads))
    for run, comparison in found.items():
        print_row(run, comparison)


def print_row(run: Run, found: Comparison) -> None:
    """A line of the table."""
    mebibytes = (f"{value / MIB:,.1f}" for value in (found.held, found.predicted.total, found.measured))
    batch, error = f"{run.batch_size} x {run.length}", f"{100 * found.error:+.1f} %"
    cells = (batch, run.precision, *mebibytes, error, found.predicted.moment)
    name = f"{run.arch}, {run.criterion.removeprefix('electra, ')}"
    print(f"{name:38}" + "".join(f"{cell:>11}" for cell in cells))


if __name__ == "__main__":
    main()
