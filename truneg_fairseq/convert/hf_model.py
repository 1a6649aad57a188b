"""Reading a Hugging Face model and checking that it is what its configuration says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import TrueNegError
from ..schema import read_json
from .config import ROBERTA_FIRST_POSITION, ModelConfig, pad_token_id, read_config
from .hf_files import CONFIG, read_weights
from .names import NEXT_SENTENCE_HEAD, POOLER_HEAD, POSITIONS, ROBERTA, TOKEN_TYPES, WORDS, Pair, shape_of

_WEIGHT_TYPES = (torch.float16, torch.bfloat16, torch.float32)
# The first releases of BERT called LayerNorm's parameters gamma and beta; bert-base-uncased still does.
_OLD_SUFFIXES = {".gamma": ".weight", ".beta": ".bias"}
_READ_PARTS = ("pooler", "next_sentence", "masked_lm", "discriminator")
_READ_CLASSES = {
    "bert": "BertModel, BertForMaskedLM or BertForPreTraining",
    "electra": "ElectraForPreTraining, ElectraForMaskedLM or ElectraModel",
    "roberta": "RobertaForMaskedLM or RobertaModel",
}


@dataclass(frozen=True)
class HfModel:
    """A model read from a Hugging Face folder."""

    folder: Path  # where it was read from
    config: ModelConfig  # its numbers; ``tied`` is what the weights show
    parts: tuple[str, ...]  # its parts beside embeddings and layers
    # float32, under transformers' names without the bare model's prefix; complete, and of the shapes that the config
    # says. Positions are laid out as fairseq's.
    tensors: dict[str, Tensor]
    dropped: tuple[str, ...]  # the names in the file that no weight of ours answers to
    pad: int | None  # the row of the padding token, from which RoBERTa's positions count; None for the others

    @property
    def pooler_head(self) -> str:
        """The classification head that a pooler becomes."""
        return NEXT_SENTENCE_HEAD if "next_sentence" in self.parts else POOLER_HEAD

    def pairs(self, stack: str = "encoder") -> list[Pair]:
        """The names of its tensors on both sides."""
        return self.config.family.pairs(self.parts, self.config.layers, stack=stack, head=self.pooler_head)


def read_model(folder: Path, *, allow_pickle: bool = False) -> HfModel:
    """Reads a model of one of the families."""
    config_path = folder / CONFIG
    raw = read_json(config_path, dict[str, Any], expected="a local Hugging Face folder with the model's configuration")
    config = read_config(raw, config_path)
    stored, path = read_weights(folder, allow_pickle=allow_pickle)
    if config.layers > len(stored):
        raise TrueNegError(
            f"{config_path}: num_hidden_layers is {config.layers}, but {path} has {len(stored)} tensors; expected the "
            "configuration of these weights"
        )
    tensors, dropped = _canonical_tensors(stored, config, path)
    tied = _merge_copies(tensors, config, path)
    config = replace(config, tied=tied)
    pad = pad_token_id(raw, config_path) if config.family is ROBERTA else None
    if pad is not None:
        _lay_out_positions(tensors, config, pad, path)
    parts = _parts(tensors, config)
    model = HfModel(folder, config, parts, {name: tensor.float() for name, tensor in tensors.items()}, dropped, pad)
    _check_shapes(model, path)
    return model


def _canonical_tensors(
    stored: Mapping[str, Tensor], config: ModelConfig, path: Path
) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """The tensors under their present names without prefix, and the names of those without a counterpart."""
    tensors: dict[str, Tensor] = {}
    dropped = []
    for stored_name, tensor in stored.items():
        name = stored_name.removeprefix(config.family.base)
        if name.startswith(config.family.ignored):
            dropped.append(name)
            continue
        for old, new in _OLD_SUFFIXES.items():
            if name.endswith(old):
                name = name.removesuffix(old) + new
        if name in tensors:
            raise TrueNegError(f"{path}: holds {name} twice, with and without a prefix; expected one model's weights")
        if tensor.dtype not in _WEIGHT_TYPES:
            raise TrueNegError(
                f"{path}: {stored_name} is of type {tensor.dtype}, expected float32, float16 or bfloat16; quantized "
                "weights are not read"
            )
        tensors[name] = tensor
    return tensors, tuple(sorted(dropped))


def _merge_copies(tensors: dict[str, Tensor], config: ModelConfig, path: Path) -> bool:
    """Removes, in place, second names of one tensor; returns whether the head projects with the word embeddings."""
    for first, second in config.family.copies.items():
        copy = tensors.pop(second, None)
        if copy is None:
            continue
        if config.tied and not torch.equal(tensors.get(first, copy), copy):
            raise TrueNegError(f"{path}: {first} and {second} differ; expected one bias under two names")
        # An untied head stores both and computes with the second.
        tensors[first] = copy
    (projection,) = (pair.theirs for pair in config.family.parts["untied"])
    own, words = tensors.get(projection), tensors.get(WORDS)
    if own is not None and words is not None and torch.equal(own, words):
        del tensors[projection]
        return True
    has_head = any(pair.theirs in tensors for pair in config.family.parts["masked_lm"])
    if own is None and has_head and not config.tied:
        raise TrueNegError(
            f"{path}: {projection} is missing, but config.json says tie_word_embeddings false; expected the untied "
            "projection"
        )
    return own is None


def _lay_out_positions(tensors: dict[str, Tensor], config: ModelConfig, pad: int, path: Path) -> None:
    """RoBERTa's positions from fairseq's first row on, the token type added, in place."""
    positions, types = tensors.get(POSITIONS), tensors.pop(TOKEN_TYPES, None)
    if types is not None and (types.dim() != 2 or types.size(1) != config.hidden_size):
        raise TrueNegError(
            f"{path}: {TOKEN_TYPES} has shape {tuple(types.shape)}, expected (1, {config.hidden_size}) from the sizes "
            "in config.json"
        )
    if positions is None or positions.shape != (config.positions + pad + 1, config.hidden_size):
        return  # reported with all other tensors
    if pad + 1 != ROBERTA_FIRST_POSITION:
        positions = torch.cat([positions.new_zeros(ROBERTA_FIRST_POSITION, config.hidden_size), positions[pad + 1 :]])
    if types is not None and types[0].any():  # -0.0 + 0.0 is another number, to the bit
        positions = positions + types[0]
    tensors[POSITIONS] = positions


def _parts(tensors: Mapping[str, Tensor], config: ModelConfig) -> tuple[str, ...]:
    pairs = config.family.pairs
    found = [
        part
        for part in _READ_PARTS
        if part in config.family.parts
        and any(pair.theirs in tensors for pair in pairs([part], 0)[len(config.family.embeddings) :])
    ]
    if "next_sentence" in found and "pooler" not in found:
        found.append("pooler")  # reported as missing
    untied = ("untied",) if "masked_lm" in found and not config.tied else ()
    return (*config.parts, *found, *untied)


def _check_shapes(model: HfModel, path: Path) -> None:
    tensors, dims = model.tensors, model.config.dims
    shapes = {pair.theirs: shape_of(pair, dims) for pair in model.pairs()}
    missing = [name for name in shapes if name not in tensors]
    if missing:
        raise TrueNegError(
            f"{path}: {len(missing)} tensors are missing (e.g. {missing[0]}); expected the encoder that config.json "
            "describes, and a head whole or not at all"
        )
    unexpected = [name for name in tensors if name not in shapes]
    if unexpected:
        raise TrueNegError(
            f"{path}: {len(unexpected)} tensors are not known (e.g. {unexpected[0]}); expected "
            f"{_READ_CLASSES[model.config.family.name]} of the sizes in config.json"
        )
    for name, shape in shapes.items():
        if tuple(tensors[name].shape) != shape:
            raise TrueNegError(
                f"{path}: {name} has shape {tuple(tensors[name].shape)}, expected {shape} from the sizes in config.json"
            )
