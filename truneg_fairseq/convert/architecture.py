"""Which model a checkpoint's arguments describe, and the fairseq-train flags that build it."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import TrueNegError
from ..models.checkpoints import Checkpoint

FAMILIES = ("bert", "electra", "roberta", "bart")
"""The models that are known, by fairseq's names, which are transformers' ``model_type`` too."""
ROBERTA_EPS = 1e-5
"""Of every LayerNorm in fairseq's RoBERTa and BART, which have no argument for it."""
ROBERTA_FIRST_POSITION = 2
"""The row of the first token in fairseq's positions, which count from the padding id + 1, and in transformers' BART."""
# fairseq's arguments by the fields of ModelConfig.
_SIZE_ARGUMENTS = {
    "layers": "encoder_layers",
    "hidden_size": "encoder_embed_dim",
    "ffn_size": "encoder_ffn_embed_dim",
    "heads": "encoder_attention_heads",
}
_ARGUMENTS = {
    **_SIZE_ARGUMENTS,
    "positions": "max_positions",
    "dropout": "dropout",
    "attention_dropout": "attention_dropout",
    "classifier_dropout": "pooler_dropout",
}
_BART_ARGUMENTS = {
    **_ARGUMENTS,
    "positions": "max_source_positions",
    "decoder_layers": "decoder_layers",
    "decoder_ffn_size": "decoder_ffn_embed_dim",
    "decoder_heads": "decoder_attention_heads",
    "activation_dropout": "activation_dropout",
}
# What transformers' models compute.
_REQUIRED_ARGUMENTS: dict[str, Any] = {
    "activation_fn": "gelu",
    "pooler_activation_fn": "tanh",
    "encoder_normalize_before": False,
    "no_scale_embedding": True,
}
_REQUIRED_OF_BART: dict[str, Any] = {
    **_REQUIRED_ARGUMENTS,
    **{"decoder_normalize_before": False, "encoder_learned_pos": True, "decoder_learned_pos": True},
    **{"layernorm_embedding": True, "share_all_embeddings": True, "adaptive_softmax_cutoff": None},
    **{"no_token_positional_embeddings": False, "no_cross_attention": False, "cross_self_attention": False},
}


@dataclass(frozen=True)
class ModelConfig:
    """One encoder's numbers."""

    family: str  # one of FAMILIES
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
    # BART's alone
    decoder_layers: int = 0
    decoder_heads: int = 0
    decoder_ffn_size: int = 0  # G
    activation_dropout: float = 0.0

    @property
    def dims(self) -> dict[str, int]:
        """The sizes by the letters of :class:`truneg_fairseq.convert.names.Pair`, in fairseq's layout."""
        rows = self.positions + (ROBERTA_FIRST_POSITION if self.family in ("roberta", "bart") else 0)
        widths = {"E": self.embedding_size, "H": self.hidden_size, "F": self.ffn_size, "G": self.decoder_ffn_size}
        return {"V": self.vocab_size, "P": rows, **widths}

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts that the sizes ask for."""
        if self.family == "bart":
            return ("generation",)
        return ("projection",) if self.embedding_size != self.hidden_size else ()


def architecture_flags(config: ModelConfig, generator: ModelConfig | None = None) -> tuple[str, ...]:
    """The fairseq-train flags that build a model: the architecture of these sizes and what differs from it."""
    values = {argument: getattr(config, name) for name, argument in _arguments_of(config.family).items()}
    if config.family == "bart":
        values |= {"max_target_positions": config.positions}
    elif config.family != "roberta":
        values["layer_norm_eps"] = config.eps
    if config.family == "electra":
        values["embedding_dim"] = config.embedding_size
    if generator is not None:
        values |= {_of_generator(argument): getattr(generator, name) for name, argument in _SIZE_ARGUMENTS.items()}
    architecture = _architecture(config.family, values)
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
    family = ARCH_MODEL_NAME_REGISTRY.get(name)
    if family not in FAMILIES:
        raise TrueNegError(f"{path}: its architecture is {name!r}; expected one of {', '.join(FAMILIES)}")
    full = vars(_completed(name, arguments))
    if family == "bart":  # fairseq takes the older name where the newer one is 0
        full["activation_dropout"] = full.get("activation_dropout") or full["relu_dropout"] or 0.0
    for key, expected in (_REQUIRED_OF_BART if family == "bart" else _REQUIRED_ARGUMENTS).items():
        if full.get(key, expected) != expected:
            raise TrueNegError(
                f"{path}: was trained with {key} {full[key]!r}, expected {expected!r}; transformers' {family.title()} "
                "models compute nothing else"
            )
    config = ModelConfig(
        family=family,
        vocab_size=vocab_size,
        **{name: full[argument] for name, argument in _arguments_of(family).items()},
        embedding_size=full.get("embedding_dim", full["encoder_embed_dim"]),
        eps=full.get("layer_norm_eps", ROBERTA_EPS),
        tied=not full.get("untie_weights_roberta", False),
    )
    if family == "bart":
        _check_bart(full, path)
    if family == "bert" and config.parts:
        raise TrueNegError(
            f"{path}: its embeddings are {config.embedding_size} wide and its layers {config.hidden_size}; "
            "transformers' Bert models have one width"
        )
    return config


def _check_bart(full: Mapping[str, Any], path: Path) -> None:
    """Both sides of transformers' BART have one width and as many positions."""
    for first, second in (("encoder_embed_dim", "decoder_embed_dim"), ("max_source_positions", "max_target_positions")):
        if full[first] != full[second]:
            raise TrueNegError(
                f"{path}: was trained with {first} {full[first]} and {second} {full[second]}, expected one number; "
                "transformers' Bart models have one for both sides"
            )


def generator_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments, with the sizes of the generator as those of the encoder."""
    full = vars(_completed(arguments.get("arch") or arguments["_name"], arguments))
    return full | {argument: full[_of_generator(argument)] for argument in _SIZE_ARGUMENTS.values()}


def _arguments_of(family: str) -> dict[str, str]:
    return _BART_ARGUMENTS if family == "bart" else _ARGUMENTS


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

    sizes = [name for name in values if name.split("_")[0] in ("encoder", "decoder", "generator", "embedding")]
    for architecture in ARCH_MODEL_INV_REGISTRY[model]:
        defaults = vars(_completed(architecture))
        same = all(defaults[name] == values[name] for name in sizes)
        computes_it = not defaults["encoder_normalize_before"] and defaults.get("no_scale_embedding", True)
        if architecture != model and same and computes_it:
            return str(architecture)
    return "bart_base" if model == "bart" else model


def config_of(checkpoint: Checkpoint) -> ModelConfig:
    """The numbers of a checkpoint's encoder."""
    weight = checkpoint.state.get("encoder.sentence_encoder.embed_tokens.weight")
    if weight is None:
        raise TrueNegError(f"{checkpoint.path}: has no encoder; expected a bert, electra or roberta model")
    return config_of_arguments(checkpoint.model, len(weight), checkpoint.path)


def pretraining_flags(checkpoint: Checkpoint) -> tuple[str, ...]:
    """Flags to continue pre-training, with its dropout rates and ELECTRA's generator."""
    config, generator = config_of(checkpoint), None
    if checkpoint.has_generator:
        generator = config_of_arguments(generator_arguments(checkpoint.model), config.vocab_size, checkpoint.path)
    flags = architecture_flags(config, generator)
    for name in ("activation_dropout", "encoder_layerdrop"):  # Hugging Face's models have none
        if checkpoint.model.get(name):
            flags += (f"--{name.replace('_', '-')}", str(checkpoint.model[name]))
    return flags
