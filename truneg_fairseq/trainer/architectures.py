"""Old names of architectures and options that went, in checkpoints.

fairseq gives the names ``bert_base`` and ``bert_large`` to the model of its ``legacy_masked_lm`` task. This package
once took them away and called its own models ``bert_tiny`` to ``bert_large``; today these are ``truneg_bert_tiny`` to
``truneg_bert_large``. A checkpoint that has an old name still loads. fairseq-validate builds the
criterion from the checkpoint's options, and refuses those that the criterion does not have (any more).
"""

from __future__ import annotations

import argparse
from typing import Any

_OLD_NAMES = ("bert_tiny", "bert_mini", "bert_small", "bert_base", "bert_large")


def apply() -> None:
    from fairseq import checkpoint_utils

    stock_upgrade = checkpoint_utils._upgrade_state_dict

    def upgrade(state: Any) -> Any:
        state = stock_upgrade(state)
        if state.get("cfg") is not None:
            rename_old_architecture(state["cfg"]["model"])
            _drop_old_options(state["cfg"].get("criterion"))
        return state

    checkpoint_utils._upgrade_state_dict = upgrade


def rename_old_architecture(model: Any) -> None:
    """Gives a model of this package its present name, in its arguments: a Namespace, a dict or a DictConfig."""
    arguments = vars(model) if isinstance(model, argparse.Namespace) else model
    if arguments and arguments.get("layer_norm_eps") is not None:  # fairseq's models of these names have none
        for key in ("_name", "arch"):
            if arguments.get(key) in _OLD_NAMES:
                arguments[key] = f"truneg_{arguments[key]}"


def _drop_old_options(criterion: Any) -> None:
    """Takes what a criterion of this package has no option for out of a checkpoint's DictConfig."""
    from fairseq.criterions import CRITERION_DATACLASS_REGISTRY
    from omegaconf import DictConfig, open_dict

    known = CRITERION_DATACLASS_REGISTRY.get(criterion.get("_name")) if isinstance(criterion, DictConfig) else None
    if known is not None and known.__module__.startswith(__name__.partition(".")[0]):
        with open_dict(criterion):
            for name in criterion.keys() - known.__dataclass_fields__.keys() - {"_name"}:
                del criterion[name]
