"""The sizes and rates of a model, from and to a Hugging Face config.json and fairseq's arguments."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import TrueNegError, reason
from .names import FAMILIES, Family

CONFIG = "config.json"
MODEL_TYPES = {
    "bert": "bert",
    "electra": "electra",
    "roberta": "roberta",
    "xlm-roberta": "roberta",
    "camembert": "roberta",
}
"""transformers' model types, and the family that each is of: the last three are one net with other vocabularies."""
ROBERTA_EPS = 1e-5
"""Of every LayerNorm in fairseq's RoBERTa, which has no argument for it."""
ROBERTA_FIRST_POSITION = 2
"""The row of the first token in fairseq's positions, which count from the padding id + 1."""


class Setting(NamedTuple):
    """A number's names: in :class:`ModelConfig`, in config.json, among fairseq's arguments."""

    name: str
    theirs: str
    ours: str


_SIZES = (
    Setting("layers", "num_hidden_layers", "encoder_layers"),
    Setting("hidden_size", "hidden_size", "encoder_embed_dim"),
    Setting("ffn_size", "intermediate_size", "encoder_ffn_embed_dim"),
    Setting("heads", "num_attention_heads", "encoder_attention_heads"),
)
_EMBEDDING_SIZE = Setting("embedding_size", "embedding_size", "embedding_dim")
_POSITIONS = Setting("positions", "max_position_embeddings", "max_positions")
_RATES = (
    Setting("dropout", "hidden_dropout_prob", "dropout"),
    Setting("attention_dropout", "attention_probs_dropout_prob", "attention_dropout"),
)
_CLASSIFIER_DROPOUT = Setting("classifier_dropout", "classifier_dropout", "pooler_dropout")
_EPS = Setting("eps", "layer_norm_eps", "layer_norm_eps")

# What the fairseq models compute; position_embedding_type is of older releases of transformers.
_REQUIRED_SETTINGS: dict[str, Any] = {
    "hidden_act": "gelu",
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
}
_MOST_LAYERS = 1000
# What transformers' models compute.
_REQUIRED_ARGUMENTS: dict[str, Any] = {
    "activation_fn": "gelu",
    "pooler_activation_fn": "tanh",
    "encoder_normalize_before": False,
    "no_scale_embedding": True,
}


@dataclass(frozen=True)
class ModelConfig:
    """One encoder's numbers."""

    family: Family  # the model's names
    vocab_size: int  # V
    embedding_size: int  # E
    hidden_size: int  # H
    layers: int  # of the encoder
    heads: int  # of the attention
    ffn_size: int  # F
    positions: int  # tokens of the longest sequence
    eps: float  # of every LayerNorm
    dropout: float  # in [0, 1), as are the following
    attention_dropout: float  # of the attention's weights
    classifier_dropout: float  # before a classifier of sequences
    tied: bool  # whether a masked-LM head projects with the word embeddings

    @property
    def dims(self) -> dict[str, int]:
        """The sizes by the letters of :class:`truneg_fairseq.convert.names.Pair`, in fairseq's layout."""
        rows = self.positions + (ROBERTA_FIRST_POSITION if self.family.name == "roberta" else 0)
        sizes = {"V": self.vocab_size, "E": self.embedding_size, "H": self.hidden_size, "F": self.ffn_size, "P": rows}
        return sizes

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts that the sizes ask for."""
        return ("projection",) if self.embedding_size != self.hidden_size else ()


def read_config(folder: Path) -> tuple[ModelConfig, Any]:
    """The numbers of a config.json, and transformers' own configuration."""
    from transformers import AutoConfig

    path = folder / CONFIG
    if not path.is_file():
        raise TrueNegError(f"{path}: no such file; expected a local Hugging Face folder, or hub:NAME")
    try:
        theirs = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # of many kinds
        raise TrueNegError(f"{path}: cannot be read ({reason(error)}); expected a model's configuration") from None
    return model_config(theirs, path), theirs


def model_config(theirs: Any, path: Path) -> ModelConfig:
    """The numbers of a configuration of transformers; the path is for messages."""
    family = FAMILIES.get(MODEL_TYPES.get(theirs.model_type, ""))
    if family is None:
        raise TrueNegError(f"{path}: model_type is {theirs.model_type!r}, expected one of {', '.join(MODEL_TYPES)}")
    required = dict(_REQUIRED_SETTINGS)
    if family.name == "roberta":
        required["layer_norm_eps"] = ROBERTA_EPS
    else:
        required["type_vocab_size"] = 2
    for key, expected in required.items():
        if (found := getattr(theirs, key, expected)) != expected:
            raise TrueNegError(
                f"{path}: {key} is {found!r}, expected {expected!r}; the {family.name} model of fairseq computes "
                "nothing else"
            )
    numbers = {s.name: getattr(theirs, s.theirs) for s in (*_SIZES, _POSITIONS, *_RATES, _CLASSIFIER_DROPOUT, _EPS)}
    if not 1 <= numbers["layers"] <= _MOST_LAYERS:  # transformers would begin to build them
        raise TrueNegError(f"{path}: num_hidden_layers is {numbers['layers']}, expected 1 to {_MOST_LAYERS}")
    if numbers["classifier_dropout"] is None:
        numbers["classifier_dropout"] = numbers["dropout"]
    if family.name == "roberta":
        numbers["positions"] -= theirs.pad_token_id + 1
    return ModelConfig(
        family=family,
        vocab_size=theirs.vocab_size,
        embedding_size=theirs.embedding_size if family.name == "electra" else theirs.hidden_size,
        tied=theirs.tie_word_embeddings,
        **numbers,
    )


def hf_config(config: ModelConfig, parts: tuple[str, ...], ids: Mapping[str, int], **labels: Any) -> Any:
    """The configuration for transformers; the parts decide on its class, the ids are the special symbols' rows."""
    import transformers

    roberta = config.family.name == "roberta"
    settings = {s.theirs: getattr(config, s.name) for s in (*_SIZES, _POSITIONS, *_RATES, _CLASSIFIER_DROPOUT, _EPS)}
    settings |= {"vocab_size": config.vocab_size, "type_vocab_size": 1 if roberta else 2, "pad_token_id": ids["<pad>"]}
    if config.family.name == "electra":
        settings[_EMBEDDING_SIZE.theirs] = config.embedding_size
    if roberta:
        settings |= {"bos_token_id": ids["<s>"], "eos_token_id": ids["</s>"]}
        settings[_POSITIONS.theirs] += ids["<pad>"] + 1
    return getattr(transformers, f"{config.family.title}Config")(
        architectures=[config.family.class_of(parts)],
        tie_word_embeddings=config.tied,
        dtype="float32",
        **settings,
        **labels,
    )


def architecture_flags(config: ModelConfig, generator: ModelConfig | None = None) -> tuple[str, ...]:
    """The fairseq-train flags that build a model: the architecture of these sizes and what differs from it."""
    values = {s.ours: getattr(config, s.name) for s in (*_SIZES, _POSITIONS, *_RATES, _CLASSIFIER_DROPOUT)}
    if config.family.name != "roberta":
        values[_EPS.ours] = config.eps
    if config.family.name == "electra":
        values[_EMBEDDING_SIZE.ours] = config.embedding_size
    if generator is not None:
        values |= {_of_generator(s.ours): getattr(generator, s.name) for s in _SIZES}
    architecture = _architecture(config.family.name, values)
    defaults = vars(_completed(architecture))
    flags = ["--arch", architecture]
    for name, value in values.items():
        if defaults.get(name) != value:  # fairseq's roberta has no default of its positions
            flags += [f"--{name.replace('_', '-')}", str(value)]
    return (*flags, *(() if config.tied else ("--untie-weights-roberta",)))


def parse_flags(flags: tuple[str, ...]) -> dict[str, Any]:
    """The arguments that fairseq-train makes of :func:`architecture_flags`."""
    from fairseq.models import ARCH_MODEL_REGISTRY

    # fairseq parses a model's flags in the same way: what is not given is left to the architecture's function.
    parser = argparse.ArgumentParser(argument_default=argparse.SUPPRESS)
    parser.add_argument("--arch")
    ARCH_MODEL_REGISTRY[flags[1]].add_args(parser)
    given = vars(parser.parse_args(flags))
    return {"_name": flags[1], **vars(_completed(flags[1], given))}


def config_of_arguments(arguments: Mapping[str, Any], vocab_size: int, path: Path) -> ModelConfig:
    """The numbers of a checkpoint's encoder; the path is for messages."""
    from fairseq.models import ARCH_MODEL_NAME_REGISTRY

    name = str(arguments.get("arch") or arguments.get("_name"))
    family = FAMILIES.get(ARCH_MODEL_NAME_REGISTRY.get(name, ""))
    if family is None:
        raise TrueNegError(f"{path}: its architecture is {name!r}; expected one of {', '.join(FAMILIES)}")
    full = vars(_completed(name, arguments))
    for key, expected in _REQUIRED_ARGUMENTS.items():
        if full.get(key, expected) != expected:
            raise TrueNegError(
                f"{path}: was trained with {key} {full[key]!r}, expected {expected!r}; transformers' {family.title} "
                "models compute nothing else"
            )
    config = ModelConfig(
        family=family,
        vocab_size=vocab_size,
        **{s.name: full[s.ours] for s in (*_SIZES, _POSITIONS, *_RATES, _CLASSIFIER_DROPOUT)},
        embedding_size=full.get(_EMBEDDING_SIZE.ours, full["encoder_embed_dim"]),
        eps=full.get(_EPS.ours, ROBERTA_EPS),
        tied=not full["untie_weights_roberta"],
    )
    if family.name == "bert" and config.parts:
        raise TrueNegError(
            f"{path}: its embeddings are {config.embedding_size} wide and its layers {config.hidden_size}; "
            "transformers' Bert models have one width"
        )
    return config


def generator_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments with the generator's sizes as the encoder's."""
    full = vars(_completed(arguments.get("arch") or arguments["_name"], arguments))
    return {**full, **{s.ours: full[_of_generator(s.ours)] for s in _SIZES}}


def _of_generator(name: str) -> str:
    return name.replace("encoder_", "generator_", 1)


def _completed(architecture: str, given: Mapping[str, Any] | None = None) -> argparse.Namespace:
    from fairseq.models import ARCH_CONFIG_REGISTRY

    arguments = argparse.Namespace(**{key: value for key, value in (given or {}).items() if key != "_name"})
    ARCH_CONFIG_REGISTRY[architecture](arguments)
    return arguments


def _architecture(model: str, values: Mapping[str, Any]) -> str:
    """The architecture of these sizes, or the one that is named as the model."""
    from fairseq.models import ARCH_MODEL_INV_REGISTRY

    sizes = [name for name in values if name.split("_")[0] in ("encoder", "generator", "embedding")]
    for architecture in ARCH_MODEL_INV_REGISTRY[model]:
        defaults = vars(_completed(architecture))
        same = all(defaults[name] == values[name] for name in sizes)
        if architecture != model and same and not defaults["encoder_normalize_before"]:
            return str(architecture)
    return model
