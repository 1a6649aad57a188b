"""The sizes and rates of a model, from and to a Hugging Face config.json."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import TrueNegError, unreadable
from .architecture import ROBERTA_EPS, ModelConfig
from .names import FAMILIES

CONFIG = "config.json"
MODEL_TYPES = {
    "bert": "bert",
    "electra": "electra",
    "roberta": "roberta",
    "xlm-roberta": "roberta",
    "camembert": "roberta",
    "bart": "bart",
}
"""transformers' model types, and the family that each is of: the last three are one net with other vocabularies."""
# Names in config.json by the fields of ModelConfig.
_NAMES = {
    "layers": "num_hidden_layers",
    "hidden_size": "hidden_size",
    "ffn_size": "intermediate_size",
    "heads": "num_attention_heads",
    "positions": "max_position_embeddings",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
    "classifier_dropout": "classifier_dropout",
    "eps": "layer_norm_eps",
}
_BART_NAMES = {
    "layers": "encoder_layers",
    "hidden_size": "d_model",
    "ffn_size": "encoder_ffn_dim",
    "heads": "encoder_attention_heads",
    "positions": "max_position_embeddings",
    "dropout": "dropout",
    "attention_dropout": "attention_dropout",
    "classifier_dropout": "classifier_dropout",
    "decoder_layers": "decoder_layers",
    "decoder_ffn_size": "decoder_ffn_dim",
    "decoder_heads": "decoder_attention_heads",
    "activation_dropout": "activation_dropout",
}
# What the fairseq models compute; position_embedding_type is of older releases of transformers.
_REQUIRED_SETTINGS: dict[str, Any] = {
    "hidden_act": "gelu",
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
}
_REQUIRED_OF_BART: dict[str, Any] = {
    **{"activation_function": "gelu", "scale_embedding": False, "tie_word_embeddings": True},
    **{"normalize_before": False, "add_final_layer_norm": False, "normalize_embedding": True},  # of older releases
}
_MOST_LAYERS = 1000


def read_config(folder: Path) -> tuple[ModelConfig, Any]:
    """The numbers of a config.json, and transformers' own configuration."""
    from transformers import AutoConfig

    path = folder / CONFIG
    try:
        path.open("rb").close()  # transformers would look for a name on the hub
        theirs = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # of many kinds
        raise TrueNegError(f"{path}: {unreadable(error)}; expected a local Hugging Face folder, or hub:NAME") from None
    return model_config(theirs, path), theirs


def model_config(theirs: Any, path: Path) -> ModelConfig:
    """The numbers of a configuration of transformers; the path is for messages."""
    family = MODEL_TYPES.get(theirs.model_type)
    if family is None:
        raise TrueNegError(f"{path}: model_type is {theirs.model_type!r}, expected one of {', '.join(MODEL_TYPES)}")
    required = dict(_REQUIRED_OF_BART if family == "bart" else _REQUIRED_SETTINGS)
    if family == "roberta":
        required["layer_norm_eps"] = ROBERTA_EPS
    elif family != "bart":
        required["type_vocab_size"] = 2
    for key, expected in required.items():
        if (found := getattr(theirs, key, expected)) != expected:
            raise TrueNegError(
                f"{path}: {key} is {found!r}, expected {expected!r}; the {family} model of fairseq computes "
                "nothing else"
            )
    names = _names_of(family)
    numbers = {name: getattr(theirs, their_name) for name, their_name in names.items()}
    for name in [name for name in ("layers", "decoder_layers") if name in names]:
        if not 1 <= numbers[name] <= _MOST_LAYERS:  # transformers would begin to build them
            raise TrueNegError(f"{path}: {names[name]} is {numbers[name]}, expected 1 to {_MOST_LAYERS}")
    if numbers["classifier_dropout"] is None:
        numbers["classifier_dropout"] = numbers["dropout"]
    if family == "roberta":
        numbers["positions"] -= theirs.pad_token_id + 1
    if family == "bart":
        numbers["eps"] = ROBERTA_EPS
    return ModelConfig(
        family=family,
        vocab_size=theirs.vocab_size,
        embedding_size=theirs.embedding_size if family == "electra" else theirs.hidden_size,
        tied=theirs.tie_word_embeddings,
        **numbers,
    )


def _names_of(family: str) -> dict[str, str]:
    return _BART_NAMES if family == "bart" else _NAMES


def hf_config(config: ModelConfig, parts: tuple[str, ...], ids: Mapping[str, int], **labels: Any) -> Any:
    """The configuration for transformers; the parts decide on its class, the ids are the special symbols' rows."""
    import transformers

    family, roberta, bart = FAMILIES[config.family], config.family == "roberta", config.family == "bart"
    settings = {their_name: getattr(config, name) for name, their_name in _names_of(config.family).items()}
    settings |= {"vocab_size": config.vocab_size, "pad_token_id": ids["<pad>"]}
    if not bart:
        settings["type_vocab_size"] = 1 if roberta else 2
    if config.family == "electra":
        settings["embedding_size"] = config.embedding_size
    if roberta or bart:
        settings |= {"bos_token_id": ids["<s>"], "eos_token_id": ids["</s>"]}
    if roberta:
        settings["max_position_embeddings"] += ids["<pad>"] + 1
    return getattr(transformers, f"{family.title}Config")(
        architectures=[family.class_of(parts)],
        tie_word_embeddings=config.tied,
        dtype="float32",
        **settings,
        **labels,
    )
