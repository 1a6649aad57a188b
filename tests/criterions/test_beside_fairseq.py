"""Every choice that fairseq has, beside the criterions of this package."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from fairseq.criterions import CRITERION_DATACLASS_REGISTRY
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.models.roberta import RobertaModel
from fairseq.registry import REGISTRIES
from omegaconf import OmegaConf
from support.trainings import parse

import truneg_fairseq

truneg_fairseq.register()
PACKAGE = truneg_fairseq.__name__
OURS = {name: kind for name, kind in CRITERION_DATACLASS_REGISTRY.items() if kind.__module__.startswith(PACKAGE)}
# Of pre-training, of fine-tuning, of generation.
WITH_ALL_OPTIONS = ("electra", "label_smoothed_true_neg")
ARCHITECTURES = {kind: name for name, kind in ARCH_MODEL_REGISTRY.items() if issubclass(kind, RobertaModel)}
NEEDED = {"polynomial_decay": ("--total-num-update", 9), "triangular": ("--max-lr", 1)}
TASKS = "masked_lm electra_pretraining span_masked_lm denoising multilingual_denoising".split()
GROUPS = {
    **{group: sorted(found["dataclass_registry"]) for group, found in REGISTRIES.items() if group != "criterion"},
    "task": TASKS,
    "arch": sorted(ARCHITECTURES.values()),
}
GROUPS = {group: names for group, names in GROUPS.items() if names}
ROUNDS = range(max(map(len, GROUPS.values())))


def chosen(turn: int) -> dict[str, str]:
    """A choice of each group; after all rounds each choice was one of them."""
    return {group: names[turn % len(names)] for group, names in GROUPS.items()}


def parsed(turn: int, criterion: str) -> Any:
    choices = {**chosen(turn), "criterion": criterion}
    flags = [part for group, choice in choices.items() for part in (f"--{group.replace('_', '-')}", choice)]
    return parse(["data", *flags, *NEEDED.get(choices["lr_scheduler"], ())])


def wrong_defaults(cfg: Any, criterion: str) -> list[str]:
    declared = {field.name: field.default for field in fields(OURS[criterion]) if field.name != "_name"}
    known = {name: value for name, value in declared.items() if not str(value).startswith("${")}
    return [name for name, value in known.items() if cfg[name] != value]


def test_three_criterions_have_the_options_of_all():
    names = {field.name for criterion in WITH_ALL_OPTIONS for field in fields(OURS[criterion])}
    assert all(field.name in names for kind in OURS.values() for field in fields(kind))


@pytest.mark.parametrize("turn", ROUNDS)
def test_fairseq_train_gives_all_their_values(turn):
    """The other groups are as with fairseq's own criterion, ours has its defaults."""
    stock = parsed(turn, "masked_lm")
    for criterion in WITH_ALL_OPTIONS:
        found = parsed(turn, criterion)
        for group in set(stock) - {"criterion"}:
            if OmegaConf.is_config(stock[group]):  # not a Namespace, which has the flags of all groups
                assert found[group] == stock[group], (group, chosen(turn))
        assert wrong_defaults(found.criterion, criterion) == [], chosen(turn)
