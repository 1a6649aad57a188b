"""One model within a checkpoint, which may hold several."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import TrueNegError
from ..models.checkpoints import Checkpoint
from .architecture import ModelConfig, config_of_arguments, generator_arguments
from .names import (
    BART_EMBEDDINGS,
    ELECTRA_HEAD,
    EXPORTS,
    FAMILIES,
    GENERATION,
    NEXT_SENTENCE_HEAD,
    POOLER_HEAD,
    QUESTION_ANSWERING_HEAD,
    Pair,
)

HEADS = "classification_heads."


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
        return len(self.state.get(f"{HEADS}{self.head}.out_proj.weight", ()))

    def pairs(self) -> list[Pair]:
        """The names of its tensors on both sides."""
        family = FAMILIES[self.config.family]
        bare = family.class_of(self.parts) == f"{family.title}Model"
        base = "" if bare else family.base
        decoder_layers = self.config.decoder_layers
        return family.pairs(
            self.parts,
            self.config.layers,
            decoder_layers=decoder_layers,
            stack=self.stack,
            head=self.head,
            base=base,
        )


def _heads(source: Checkpoint) -> list[str]:
    names = {name.removeprefix(HEADS).split(".")[0] for name in source.state if name.startswith(HEADS)}
    return sorted(names - {NEXT_SENTENCE_HEAD, POOLER_HEAD})


def available_parts(source: Checkpoint) -> list[str]:
    """Which of :data:`truneg_fairseq.convert.names.EXPORTS` a checkpoint has."""
    if "decoder.embed_tokens.weight" in source.state and "encoder.embed_tokens.weight" in source.state:
        return [GENERATION]
    beginnings = {
        "question-answering": f"{QUESTION_ANSWERING_HEAD}.",
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
    if part == "question-answering" and f"{QUESTION_ANSWERING_HEAD}.out_proj.weight" not in source.state:
        raise TrueNegError(
            f"{source.path}: its head for SQuAD predicts start and end jointly, and Hugging Face has none such; give "
            "--part encoder"
        )
    if part == GENERATION:
        return _generation(source)
    words = source.state.get("encoder.sentence_encoder.embed_tokens.weight")
    vocab_size = len(words) if words is not None and words.dim() else 0
    stack = "generator" if part == "generator" else "encoder"
    arguments = generator_arguments(source.model) if stack == "generator" else source.model
    config = config_of_arguments(arguments, vocab_size, source.path)
    kept = (NEXT_SENTENCE_HEAD, POOLER_HEAD)
    heads = [name for name in kept if f"{HEADS}{name}.dense.weight" in source.state]
    if part == "classification" and len(heads := _heads(source)) > 1:
        raise TrueNegError(f"{source.path}: has the heads {', '.join(heads)}; expected one classifier")
    state, name = dict(source.state), heads[0] if heads else ""
    if part == "classification" and config.family == "electra":
        prefix = f"{HEADS}{name}."
        linear = state[f"{prefix}out_proj.weight"].float(), state[f"{prefix}out_proj.bias"].float()
        state |= {f"{prefix}{name}": tensor for name, tensor in split_linear_classifier(*linear).items()}
    return Selection(config, state, (*config.parts, *_parts(part, config, name)), stack, name)


def _generation(source: Checkpoint) -> Selection:
    """A BART; its one matrix of embeddings has three names."""
    first, *others = (source.state.get(name) for name in BART_EMBEDDINGS)
    assert first is not None
    config = config_of_arguments(source.model, len(first), source.path)
    for name, tensor in zip(BART_EMBEDDINGS[1:], others, strict=True):
        if tensor is not None and not torch.equal(tensor, first):
            raise TrueNegError(
                f"{source.path}: {name} differs from {BART_EMBEDDINGS[0]}; expected one matrix, as "
                "--share-all-embeddings keeps it"
            )
    return Selection(config, source.state, config.parts, "encoder", "")


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
    W has the shape (C, H), b (C,); of the result ``dense.weight`` (H, H), ``dense.bias`` (H,), ``out_proj.weight``
    (C, H), ``out_proj.bias`` (C,), zero.
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
