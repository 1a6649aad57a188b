"""Real fairseq objects of a small masked-LM training: task, model, criterion, trainer."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import torch

import truneg_fairseq
from truneg_fairseq.objectives.false_negatives import AcceptanceModel
from truneg_fairseq.vocabulary import Vocabulary, read_symbols

from .commands import PLUGIN, TINY_MODEL, TINY_TRAINING
from .losses import table_of_pairs


def parse(command: Iterable[object]) -> Any:
    """What fairseq-train makes of its arguments."""
    return copy.deepcopy(_parse(*map(str, command)))


@functools.cache  # hydra takes half a second
def _parse(*command: str) -> Any:
    from fairseq import options

    truneg_fairseq.register()  # fairseq does this, unless the package was imported before it, as here
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf

    parser = options.get_training_parser()
    return convert_namespace_to_omegaconf(options.parse_args_and_arch(parser, input_args=list(command)))


def configuration(data: Path, *arguments: object) -> Any:
    """That of a small masked-LM training."""
    return parse([data, "--user-dir", PLUGIN, *TINY_TRAINING, *TINY_MODEL, *arguments])


def build(data: Path, *arguments: object) -> Any:
    """Configuration, task, model and criterion of a small masked-LM training."""
    cfg = configuration(data, *arguments)
    return cfg, *make(cfg)


def make(cfg: Any) -> Any:
    """Task, model and criterion."""
    from fairseq import tasks

    task = tasks.setup_task(cfg.task)
    torch.manual_seed(cfg.common.seed)
    return task, task.build_model(cfg.model), task.build_criterion(cfg.criterion)


def trainer_of(data: Path, *arguments: object) -> Any:
    """The trainer with what :func:`build` makes; it saves nothing."""
    from truneg_fairseq.fairseq_runs.fairseq_trainer import PluginTrainer

    cfg, task, model, criterion = build(data, "--no-save", *arguments)
    return PluginTrainer(cfg, task, model, criterion), task, model, criterion


def batches(task: Any, count: int, split: str = "train", size: int = 4) -> list[dict]:
    task.load_dataset(split)
    iterator = task.get_batch_iterator(task.dataset(split), max_sentences=size, seed=1).next_epoch_itr(shuffle=True)
    return [sample for sample, _ in zip(iterator, range(count), strict=False)]


def table_of(data: Path, pairs: list[tuple[str, str]], path: Path, tokenization: str = "wordpiece") -> Path:
    vocabulary = Vocabulary.from_symbols(read_symbols(data), tokenization)
    ids = {symbol: index for index, symbol in enumerate(vocabulary.symbols)}
    table_of_pairs([(ids[gold], ids[synonym]) for gold, synonym in pairs], vocabulary).save(path)
    return path


def acceptance(folder: Path, *features: str) -> Path:
    """Says of most pairs of random embeddings that people accept them, with different probabilities."""
    values = {"table": 0.2, "embedding": 2.0, "context": 1.5}
    path = folder / f"{'_'.join(features)}.json"
    AcceptanceModel({name: values[name] for name in features}, 0.5).save(path)
    return path


def detector(folder: Path, names: str) -> tuple[object, ...]:
    return ("--hc-detector", names, "--hc-acceptance-model", acceptance(folder, *names.split("+")))


def steps(data: Path, count: int, *arguments: object) -> Any:
    """The loss and every gradient of each of a few training steps, by the real trainer, and the parameters after."""
    trainer, task, model, _ = trainer_of(data, *arguments)
    recorded = []
    for sample in batches(task, count):
        log = trainer.train_step([sample])
        gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
        recorded.append((log["loss"], gradients))
    return recorded, {name: p.detach().clone() for name, p in model.named_parameters()}


BOUNDS = {torch.float16: (5e-5, 0.002), torch.bfloat16: (2e-4, 0.015)}
"""Of the loss, relative; of all gradients together, norm of the difference over the norm (docs/explain/method.md)."""


def loss_and_gradient(
    made: tuple[Any, Any, dict[str, Any]], rounded: torch.dtype, dtype: torch.dtype
) -> tuple[float, torch.Tensor]:
    """Of one batch; the parameters are those that ``rounded`` can hold, the arithmetic is that of ``dtype``."""
    model, criterion, sample = made
    model.to(rounded).to(dtype).train()
    criterion.to(rounded).to(dtype).train()
    loss, size, _ = criterion(model, sample)
    (loss.float() / size).backward()
    gradients = [parameter.grad.float().flatten() for parameter in model.parameters() if parameter.grad is not None]
    return float(loss.detach()) / int(size), torch.cat(gradients)


def assert_close_to_fp32(build: Callable[[], tuple[Any, Any, dict[str, Any]]], dtype: torch.dtype) -> None:
    """``build`` makes model, criterion and batch, the same ones each time."""
    exact, exact_gradient = loss_and_gradient(build(), dtype, torch.float32)
    loss, gradient = loss_and_gradient(build(), dtype, dtype)
    loss_bound, gradient_bound = BOUNDS[dtype]
    difference = float((gradient - exact_gradient).norm() / exact_gradient.norm())
    print(f"{dtype}: loss {abs(loss / exact - 1):.1e}, gradients {difference:.1e}")
    assert loss == pytest.approx(exact, rel=loss_bound)
    assert 0 < difference <= gradient_bound, "0: the arithmetic was that of fp32"
