"""The numbers of a model: from fairseq's arguments and a config.json, and back to flags and a config.json."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import TrueNegError, reading
from ..files import ADAPTER, refuse_adapter
from ..flags import flag_of
from ..models.checkpoints import Checkpoint
from .names import FAMILIES

CONFIG = "config.json"
ROBERTA_EPS = 1e-5
"""Of every LayerNorm in fairseq's RoBERTa, which has no argument for it."""
ROBERTA_FIRST_POSITION = 2
"""The row of the first token in the positions of fairseq's RoBERTa, which count from the padding id + 1."""
_POSITION_TABLES = (".position_embeddings.weight", ".wpe.weight")
_MOST_POSITIONS = 1 << 24
"""Of a model without a table of them."""
MODEL_TYPES = {"bert": "bert", "electra": "electra", "roberta": "roberta", "xlm-roberta": "roberta"}
MODEL_TYPES |= {"camembert": "roberta"}
"""transformers' model types, and the family that each is of: the last three are one net with other vocabularies."""
_SIZES = ("layers", "hidden_size", "ffn_size", "heads")
# By the fields of ModelConfig: fairseq's argument, and the name in config.json.
_NAMES = {
    "layers": ("encoder_layers", "num_hidden_layers"),
    "hidden_size": ("encoder_embed_dim", "hidden_size"),
    "ffn_size": ("encoder_ffn_embed_dim", "intermediate_size"),
    "heads": ("encoder_attention_heads", "num_attention_heads"),
    "positions": ("max_positions", "max_position_embeddings"),
    "dropout": ("dropout", "hidden_dropout_prob"),
    "attention_dropout": ("attention_dropout", "attention_probs_dropout_prob"),
    "classifier_dropout": ("pooler_dropout", "classifier_dropout"),
    "embedding_size": ("embedding_dim", "embedding_size"),  # of electra alone
    "eps": ("layer_norm_eps", "layer_norm_eps"),  # which fairseq's roberta lacks
}
# What transformers' models compute, by fairseq's arguments.
_REQUIRED_ARGUMENTS = {
    "activation_fn": "gelu",
    "pooler_activation_fn": "tanh",
    "encoder_normalize_before": False,
    "no_scale_embedding": True,
}
# What fairseq's models compute; position_embedding_type is of older releases of transformers.
_REQUIRED_SETTINGS = {
    "hidden_act": "gelu",
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
}


@dataclass(frozen=True)
class ModelConfig:
    """One encoder's numbers."""

    family: str  # one of FAMILIES
    vocab_size: int  # V
    embedding_size: int  # E
    hidden_size: int  # H
    layers: int
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
        rows = self.positions + (ROBERTA_FIRST_POSITION if self.family == "roberta" else 0)
        return {"V": self.vocab_size, "P": rows, "E": self.embedding_size, "H": self.hidden_size, "F": self.ffn_size}

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts that the sizes ask for."""
        return ("projection",) if self.embedding_size != self.hidden_size else ()


@dataclass(frozen=True)
class Conversion:
    """What a conversion wrote."""

    output: Path
    config: ModelConfig  # of the encoder; of a whole ELECTRA, of its discriminator's
    parameters: int  # shared ones counted once
    notes: tuple[str, ...] = ()  # for the user, one line each
    flags: tuple[str, ...] = ()  # of a checkpoint: the architecture flags for fairseq-train
    architecture: str = "fairseq checkpoint"  # transformers' class


def config_of(checkpoint: Checkpoint, stack: str = "encoder") -> ModelConfig:
    """The numbers of a checkpoint's encoder, or with ``stack`` "generator" of ELECTRA's generator."""
    from fairseq.models import ARCH_MODEL_NAME_REGISTRY

    path, words = checkpoint.path, checkpoint.state.get("encoder.sentence_encoder.embed_tokens.weight")
    name = str(checkpoint.model.get("arch") or checkpoint.model.get("_name"))
    family = ARCH_MODEL_NAME_REGISTRY.get(name)
    if family not in FAMILIES or words is None:  # which fairseq's first RoBERTas have by another name
        raise TrueNegError(
            f"{path}: its architecture is {name!r}, or of an old version of fairseq; expected one of "
            f"{', '.join(FAMILIES)}; the models of fairseq's authors are on the hub, as hub:FacebookAI/roberta-base"
        )
    full = complete({**checkpoint.model, "_name": name})
    if stack == "generator":
        full |= {argument: full[_of_generator(argument)] for argument, _ in map(_NAMES.__getitem__, _SIZES)}
    one_width = {"embedding_dim": full["encoder_embed_dim"]} if family == "bert" else {}
    _require(path, full, _REQUIRED_ARGUMENTS | one_width, f"transformers' {family.title()} models compute")
    numbers = {name: full.get(argument) for name, (argument, _) in _NAMES.items()}
    vocab_size, tied = len(words) if words.dim() else 0, not full.get("untie_weights_roberta", False)
    return _completed(numbers, family=family, vocab_size=vocab_size, tied=tied)


def _require(path: Path, found: Mapping[str, Any], expected: Mapping[str, Any], others_compute: str) -> None:
    """Refuses what models on the other side do not have."""
    for key, value in expected.items():
        if found.get(key, value) != value:
            raise TrueNegError(f"{path}: {key} is {found[key]!r}, expected {value!r}; {others_compute} nothing else")


def _completed(numbers: dict[str, Any], **others: Any) -> ModelConfig:
    """With what a model has by another name, or by none."""
    usual = {"embedding_size": numbers["hidden_size"], "classifier_dropout": numbers["dropout"], "eps": ROBERTA_EPS}
    return ModelConfig(**others, **usual | {name: number for name, number in numbers.items() if number is not None})


def pretraining_flags(checkpoint: Checkpoint) -> tuple[str, ...]:
    """Flags to continue pre-training, with its dropout rates and ELECTRA's generator."""
    flags = architecture_flags(
        config_of(checkpoint), config_of(checkpoint, "generator") if checkpoint.has_generator else None
    )
    for name in ("activation_dropout", "encoder_layerdrop"):  # Hugging Face's models have none
        if checkpoint.model.get(name):
            flags += (flag_of(name), str(checkpoint.model[name]))
    return flags


def architecture_arguments(config: ModelConfig, generator: ModelConfig | None = None) -> dict[str, Any]:
    """fairseq's arguments that build a model: its architecture, ``_name``, and what differs from its defaults."""
    values = {argument: getattr(config, name) for name, (argument, _) in _NAMES.items()}
    for name in {"roberta": ("embedding_dim", "layer_norm_eps"), "bert": ("embedding_dim",)}.get(config.family, ()):
        del values[name]
    if generator is not None:
        values |= {_of_generator(_NAMES[name][0]): getattr(generator, name) for name in _SIZES}
    defaults = complete({"_name": config.family})  # fairseq's roberta has none of its positions
    differing = {name: value for name, value in values.items() if defaults.get(name) != value}
    return {"_name": config.family, **differing, **({} if config.tied else {"untie_weights_roberta": True})}


def architecture_flags(config: ModelConfig, generator: ModelConfig | None = None) -> tuple[str, ...]:
    """:func:`architecture_arguments` as flags of fairseq-train."""
    flags = []
    for name, value in architecture_arguments(config, generator).items():
        flags += ["--arch" if name == "_name" else flag_of(name), *([] if value is True else [str(value)])]
    return tuple(flags)


def complete(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """All arguments that fairseq-train makes of those of an architecture, ``_name``."""
    from fairseq.models import ARCH_CONFIG_REGISTRY

    filled = argparse.Namespace(**{name: value for name, value in arguments.items() if name != "_name"})
    ARCH_CONFIG_REGISTRY[arguments["_name"]](filled)
    return {"_name": arguments["_name"], **vars(filled)}


def _of_generator(name: str) -> str:
    return name.replace("encoder_", "generator_", 1)


def open_config(folder: Path | str) -> Any:
    """transformers' configuration of a folder, or of a name that its cache has.

    Refuses an adapter, which transformers would add to the model without a word, and impossible sizes.
    """
    from transformers import AutoConfig

    path = Path(folder) / CONFIG
    with reading(path, "a local Hugging Face folder, or hub:NAME"):
        if isinstance(folder, Path) and not path.with_name(ADAPTER).exists():
            path.open("rb").close()  # transformers would look for a name on the hub
        refuse_adapter(folder)
        theirs = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    _check_sizes(Path(folder), theirs)
    return theirs


def _check_sizes(folder: Path, theirs: Any) -> None:
    """Refuses a configuration with a size that the tensors in the folder's safetensors cannot have.

    Only their headers are read: a model of such a size would fill the memory before the weights are found not to fit.
    What cannot be read is left to the reader of the weights.
    """
    from safetensors import SafetensorError, safe_open

    shapes: list[Sequence[int]] = []
    places: set[int] = set()
    for file in folder.glob("model*.safetensors"):
        with contextlib.suppress(OSError, SafetensorError), safe_open(file, "pt") as tensors:
            here = {name: tensors.get_slice(name).get_shape() for name in tensors.keys()}  # noqa: SIM118
            shapes += here.values()
            places |= {shape[0] for name, shape in here.items() if name.endswith(_POSITION_TABLES)}
    dims = {dim for shape in shapes for dim in shape}
    possible: dict[str, Collection[int]] = {"hidden_size": dims, "intermediate_size": dims}
    possible |= {"vocab_size": {shape[0] for shape in shapes if shape}, "num_hidden_layers": range(len(shapes))}
    possible["max_position_embeddings"] = places or range(_MOST_POSITIONS + 1)
    for name, sizes in possible.items():
        if shapes and (size := getattr(theirs, name, None)) is not None and size not in sizes:
            raise TrueNegError(
                f"{folder / CONFIG}: {name} is {size}, which no weights beside it have; expected the config.json that "
                "was written with the weights"
            )


def model_config(theirs: Any, path: Path) -> ModelConfig:
    """The numbers of a configuration of transformers; the path is for messages."""
    family = MODEL_TYPES.get(theirs.model_type)
    if family is None:
        raise TrueNegError(f"{path}: model_type is {theirs.model_type!r}, expected one of {', '.join(MODEL_TYPES)}")
    own = {"layer_norm_eps": ROBERTA_EPS} if family == "roberta" else {"type_vocab_size": 2}
    _require(path, vars(theirs), _REQUIRED_SETTINGS | own, f"the {family} model of fairseq computes")
    numbers = {name: getattr(theirs, their_name, None) for name, (_, their_name) in _NAMES.items()}
    if family == "roberta":
        numbers["positions"] -= theirs.pad_token_id + 1
    return _completed(numbers, family=family, vocab_size=theirs.vocab_size, tied=theirs.tie_word_embeddings)


def hf_config(config: ModelConfig, parts: tuple[str, ...], ids: Mapping[str, int], **labels: Any) -> Any:
    """The configuration for transformers; the parts decide on its class, the ids are the special symbols' rows."""
    import transformers

    family, roberta = FAMILIES[config.family], config.family == "roberta"
    settings = {their_name: getattr(config, name) for name, (_, their_name) in _NAMES.items()}
    settings |= {"vocab_size": config.vocab_size, "pad_token_id": ids["<pad>"], "type_vocab_size": 1 if roberta else 2}
    if config.family != "electra":
        del settings["embedding_size"]
    if roberta:
        settings |= {"bos_token_id": ids["<s>"], "eos_token_id": ids["</s>"]}
        settings["max_position_embeddings"] += ids["<pad>"] + 1
    return getattr(transformers, f"{family.title}Config")(
        architectures=[family.class_of(parts)],
        tie_word_embeddings=config.tied,
        dtype="float32",
        **settings,
        **labels,
    )
