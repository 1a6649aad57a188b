"""One model within a checkpoint, which may hold several."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import TrueNegError
from ..models.checkpoints import Checkpoint
from .architecture import ModelConfig, config_of
from .names import ELECTRA_HEAD, EXPORTS, FAMILIES, NEXT_SENTENCE_HEAD, POOLER_HEAD, QUESTION_ANSWERING_HEAD, Pair

_HEADS = "classification_heads."


@dataclass(frozen=True)
class Selection:
    """One model within a checkpoint."""

    config: ModelConfig
    state: Mapping[str, Tensor]  # the checkpoint's tensors and, for a head of another form, more
    parts: tuple[str, ...]  # beside embeddings and layers
    stack: str  # encoder or generator
    head: str  # the classification head that belongs to it; empty for none

    @property
    def classes(self) -> int:
        """The number of a classifier's classes; 0 without a classifier."""
        if "classification" not in self.parts:
            return 0
        return len(self.state.get(f"{_HEADS}{self.head}.out_proj.weight", ()))

    def pairs(self) -> list[Pair]:
        """The names of its tensors on both sides."""
        family = FAMILIES[self.config.family]
        base = "" if family.class_of(self.parts) == f"{family.title}Model" else family.base
        return family.pairs(self.parts, self.config.layers, stack=self.stack, head=self.head, base=base)


def _heads(source: Checkpoint) -> list[str]:
    names = {name.removeprefix(_HEADS).split(".")[0] for name in source.state if name.startswith(_HEADS)}
    return sorted(names - {NEXT_SENTENCE_HEAD, POOLER_HEAD})


def available_parts(source: Checkpoint) -> list[str]:
    """Which of :data:`truneg_fairseq.convert.names.EXPORTS` a checkpoint has."""
    beginnings = {
        "question-answering": f"{QUESTION_ANSWERING_HEAD}.out_proj.",
        "discriminator": f"{ELECTRA_HEAD}.",
        "masked-lm": "encoder.lm_head.",
        "generator": "generator.",
    }
    found = {part for part, start in beginnings.items() if any(name.startswith(start) for name in source.state)}
    found |= {"encoder", *(["classification"] if _heads(source) else [])}
    return [part for part in EXPORTS if part in found]


def select(source: Checkpoint, part: str | None) -> Selection:
    """Finds one model in a checkpoint: the first part that is there where none is named."""
    available = available_parts(source)
    part = part or available[0]
    if part not in available:
        raise TrueNegError(f"--part {part}: {source.path} has none; expected one of {', '.join(available)}")
    stack = "generator" if part == "generator" else "encoder"
    config, state = config_of(source, stack), dict(source.state)
    heads = [name for name in (NEXT_SENTENCE_HEAD, POOLER_HEAD) if f"{_HEADS}{name}.dense.weight" in state]
    if part == "classification" and len(heads := _heads(source)) > 1:
        raise TrueNegError(f"{source.path}: has the heads {', '.join(heads)}; expected one classifier")
    name = heads[0] if heads else ""
    if part == "classification" and config.family == "electra":
        prefix = f"{_HEADS}{name}."
        linear = state[f"{prefix}out_proj.weight"].float(), state[f"{prefix}out_proj.bias"].float()
        if 2 * len(linear[0]) > config.hidden_size:
            raise TrueNegError(
                f"{source.path}: its classifier has {len(linear[0])} classes; transformers' ElectraClassificationHead "
                f"can hold {config.hidden_size // 2} at this width; give --part encoder"
            )
        state |= {f"{prefix}{name}": tensor for name, tensor in split_linear_classifier(*linear).items()}
    return Selection(config, state, (*config.parts, *_parts(part, config, name)), stack, name)


def _parts(part: str, config: ModelConfig, head: str) -> tuple[str, ...]:
    """The model's parts besides embeddings and layers."""
    is_bert = config.family == "bert"
    if part == "classification":
        return ("pooler", "classification") if is_bert else ("classification",)
    if part == "encoder":
        return ("pooler",) if is_bert and head else ()
    if part in ("masked-lm", "generator"):
        next_sentence = ("pooler", "next_sentence") if is_bert and head == NEXT_SENTENCE_HEAD else ()
        return ("masked_lm", *(() if config.tied else ("untied",)), *next_sentence)
    return (part.replace("-", "_"),)


def split_linear_classifier(weight: Tensor, bias: Tensor) -> dict[str, Tensor]:
    """ELECTRA's linear classifier in the form of transformers' ElectraClassificationHead.

    That head computes ``out_proj(gelu(dense(x)))``, this package's (as the original) ``W x + b``. As
    ``gelu(z) - gelu(-z) = z``, a dense layer of rows W and -W and a projection of their differences is the same.
    W has the shape (C, H), b (C,), with C at most H / 2; of the result ``dense.weight`` (H, H), ``dense.bias`` (H,),
    ``out_proj.weight`` (C, H), ``out_proj.bias`` (C,), zero.
    """
    classes, hidden = weight.shape
    dense, dense_bias = weight.new_zeros(hidden, hidden), bias.new_zeros(hidden)
    dense[: 2 * classes] = torch.cat([weight, -weight])
    dense_bias[: 2 * classes] = torch.cat([bias, -bias])
    projection = weight.new_zeros(classes, hidden)
    eye = torch.eye(classes, dtype=weight.dtype)
    projection[:, : 2 * classes] = torch.cat([eye, -eye], dim=1)
    return {
        "dense.weight": dense,
        "dense.bias": dense_bias,
        "out_proj.weight": projection,
        "out_proj.bias": torch.zeros_like(bias),
    }
