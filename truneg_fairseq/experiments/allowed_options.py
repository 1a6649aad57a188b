"""What an experiment's file may hand to fairseq-train: a stranger's file runs no code, writes and calls nowhere.

fairseq evaluates some values as Python, writes to what others name, and starts a program that one names. So an option
is taken by what it is: a flag, a number, a choice; a text only where this package or a user's folder declares it, or
where :data:`_TEXTS` says that fairseq reads numbers or names of data from it. The values are checked where the command
line is made, :func:`..launch.training.check_words`.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from ..errors import TrueNegError, refuse
from ..objectives.options import named_sources, parsed
from ..registry import ALTERNATIVES, TERMS
from .arm_training import Pretraining
from .settings import FILE_OPTIONS, Experiment, with_dashes

_PROCESS = frozenset(
    "log-interval no-progress-bar fp16-init-scale fp16-scale-window fp16-scale-tolerance min-loss-scale "
    "threshold-loss-scale empty-cache-freq all-gather-list-size suppress-crashes save-interval save-interval-updates "
    "keep-last-epochs keep-best-checkpoints best-checkpoint-metric maximize-best-checkpoint-metric ddp-backend "
    "bucket-cap-mb find-unused-parameters fast-stat-sync broadcast-buffers".split()
)
"""Of fairseq's options for process, log, checkpoints and machines, those that a file may set. The others are the
experiment's: seeds, precision, what a training that is stopped and continued needs; or they write or call elsewhere."""
_OWN = frozenset(
    "max-update max-epoch stop-time-hours stop-min-lr disable-validation valid-subset synonym-table arch bpe tokenizer "
    "scoring".split()
)
_TEXTS = frozenset(
    "lr update-freq adam-betas adamax-betas lamb-betas adafactor-eps total-num-update max-tokens-valid "
    "batch-size-valid update-epoch-batch-itr encoder-layers-to-keep decoder-layers-to-keep adaptive-softmax-cutoff "
    "adaptive-input-cutoff train-subset source-lang target-lang shorten-data-split-list "
    "best-checkpoint-metric".split()
)
"""fairseq's options of text from which it reads numbers, or names of languages, splits and metrics."""


def check_flags(file: Path, experiment: Experiment, arms: Mapping[str, Pretraining]) -> None:
    """Parses the command line of each arm as fairseq-train will; refuses what an experiment's file may not set.

    Raises:
        TrueNegError: with file, arm and option; nothing has been started yet.
    """
    from fairseq import options

    common = {f"{file}: training": experiment.training, f"{file}: model.options": experiment.model.options}
    for arm, run in arms.items():
        parts = {**common, f"{file}: arms.{arm}.options": experiment.arms[arm].options}
        named = [(where, name) for where, part in parts.items() for name in with_dashes(part)]
        parser, words = options.get_training_parser(), run.flags
        own = _own(parser)
        for where, name in named:  # first: parsing imports what --user-dir names
            found = f"{where}: has {name!r}, which the experiment sets; expected other options"
            refuse((name in own, found))
        given = _parse(parser, f"{file}: arm {arm}", words)
        named_by = (getattr(given, name, None) for name in ("soft_targets", "hc_detector"))
        for source, flag in named_sources(*named_by).items():
            ALTERNATIVES.look_up(source, f"{file}: arm {arm}: {flag}")
        for term in parsed(getattr(given, "terms", None), "--terms"):
            TERMS.look_up(term, f"{file}: arm {arm}: --terms")
        taken = {flag.lstrip("-") for each in parser._actions if _is_plain(each) for flag in each.option_strings}
        taken |= {*_TEXTS, *FILE_OPTIONS, *_declared_here(given)}
        for where, name in named:
            found = f"{where}: {name}: takes any text, also a file or address; expected options with numbers or choices"
            refuse((name not in taken, found))


def _is_plain(action: argparse.Action) -> bool:
    return bool(action.nargs == 0 or action.choices or action.type in (int, float))


def _own(parser: argparse.ArgumentParser) -> frozenset[str]:
    """The options that the experiment sets, under all of their names."""
    from fairseq.dataclass.configs import CheckpointConfig, CommonConfig, DistributedTrainingConfig

    kinds = (CheckpointConfig, CommonConfig, DistributedTrainingConfig)
    fields = {field.name for kind in kinds for field in dataclasses.fields(kind)}
    flags = {flag.lstrip("-") for each in parser._actions if each.dest in fields for flag in each.option_strings}
    return _OWN | (flags - _PROCESS)


def _parse(parser: argparse.ArgumentParser, where: str, words: list[str]) -> argparse.Namespace:
    from fairseq import options

    def fail(message: str) -> NoReturn:
        raise TrueNegError(f"{where}: {message}; 'truneg train --help' has the options")

    parser.error = fail  # type: ignore[method-assign]
    try:
        given: argparse.Namespace = options.parse_args_and_arch(parser, words)
    except (SyntaxError, ValueError) as error:  # of a list of numbers
        fail(str(error))
    return given


def _declared_here(given: argparse.Namespace) -> Iterator[str]:
    """The options of a task, criterion, model ... that a package other than fairseq declares."""
    from fairseq.models import ARCH_MODEL_REGISTRY
    from fairseq.registry import REGISTRIES
    from fairseq.tasks import TASK_DATACLASS_REGISTRY

    kinds: list[Any] = [
        registry["dataclass_registry"].get(getattr(given, name)) for name, registry in REGISTRIES.items()
    ]
    kinds += [TASK_DATACLASS_REGISTRY.get(given.task), getattr(ARCH_MODEL_REGISTRY[given.arch], "__dataclass", None)]
    for kind in kinds:
        for parent in kind.__mro__ if kind is not None else ():
            if not parent.__module__.startswith("fairseq."):
                yield from (name.replace("_", "-") for name in vars(parent).get("__annotations__", ()))
