"""fairseq's checkpoints, read and written without a training run, and the architecture that their arguments say."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ..errors import TrueNegError, unreadable
from ..files import file_digest, replacing_file, require_checkpoint
from ..trainer.architectures import rename_old_architecture
from ..trainer.checkpoints import VOCABULARY
from ..vocabulary import fingerprint, read_symbols

if TYPE_CHECKING:
    from torch import Tensor

FAMILIES = ("bert", "electra", "roberta", "bart")
"""The models that are known, by fairseq's names, which are transformers' ``model_type`` too."""
ROBERTA_EPS = 1e-5
"""Of every LayerNorm in fairseq's RoBERTa and BART, which have no argument for it."""
ROBERTA_FIRST_POSITION = 2
"""The row of the first token in fairseq's positions, which count from the padding id + 1, and in transformers' BART."""
_SAME_VOCABULARY = "expected the same: prepare the data with the dictionary and tokenizer of the model"
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

_EMBEDDINGS = "embed_tokens.weight"
# In the RoBERTa models that fairseq's authors released.
_EARLY = "decoder.sentence_encoder."
# The generator's embeddings are the discriminator's under a second name.
_REPEATED = "generator."
# What a model is as large as. No layer is without tensors.
_SIZES = re.compile(
    r"(encoder|decoder|generator)_(layers|embed_dim|ffn_embed_dim|attention_heads)|embedding_dim"
    r"|max_(source_|target_)?positions"
)
_LARGEST_SIZE = 1 << 24
# Others have cross_entropy.
_CRITERIONS = {"masked_lm": "masked_lm", "electra_pretraining": "electra"}


@dataclass(frozen=True)
class Checkpoint:
    """The parts of a checkpoint that are used here."""

    path: Path  # its file
    state: dict[str, Tensor]  # the model's tensors
    model: dict[str, Any]  # the model's arguments
    task: dict[str, Any]  # the task's arguments
    criterion: dict[str, Any] = field(default_factory=dict)  # the criterion's arguments, perhaps among others
    updates: int | None = None  # that it was trained for; None where it does not say
    # the name of the checkpoint whose weights the training began with (--finetune-from-model)
    started_from: str | None = None
    vocabulary: str | None = None  # the fingerprint of its dictionary; None where another program wrote it

    @cached_property
    def config(self) -> ModelConfig:
        """The numbers of its encoder."""
        weight = self.state.get("encoder.sentence_encoder.embed_tokens.weight")
        if weight is None:
            raise TrueNegError(f"{self.path}: has no encoder; expected a bert, electra or roberta model")
        return config_of_arguments(self.model, len(weight), self.path)

    @property
    def has_generator(self) -> bool:
        """Whether it is both halves of an ELECTRA."""
        return any(key.startswith("generator.") for key in self.state)

    @property
    def pretraining_flags(self) -> tuple[str, ...]:
        """Flags to continue pre-training, with its dropout rates and ELECTRA's generator."""
        generator = None
        if self.has_generator:
            generator = config_of_arguments(generator_arguments(self.model), self.config.vocab_size, self.path)
        flags = architecture_flags(self.config, generator)
        for name in ("activation_dropout", "encoder_layerdrop"):  # Hugging Face's models have none
            if self.model.get(name):
                flags += (f"--{name.replace('_', '-')}", str(self.model[name]))
        return flags

    @cached_property
    def sha256(self) -> str:
        return file_digest(self.path)


def read_checkpoint(path: Path) -> Checkpoint:
    """Loads a checkpoint of fairseq-train or fairseq-hydra-train, with weights_only."""
    content = _load(path)
    state, config = content["model"], _arguments(content.get("cfg"))
    model = _arguments(config.get("model")) or _arguments(content.get("args"))
    if not model:
        raise TrueNegError(f"{path}: has no weights with a configuration; expected a fairseq checkpoint")
    rename_old_architecture(model)
    _check_arguments(path, model, len(state))
    if any(name.startswith(_EARLY) for name in state):
        state = _renamed(state)
    old = _arguments(content.get("args"))
    task, criterion = (_arguments(config.get(part)) or old for part in ("task", "criterion"))
    given = _arguments(config.get("checkpoint")).get("finetune_from_model") or old.get("finetune_from_model")
    started_from = Path(str(given)).name if given else None
    found = _arguments(content.get("extra_state")).get(VOCABULARY)
    vocabulary = found if isinstance(found, str) else None
    return Checkpoint(path, state, model, task, criterion, _updates(content), started_from, vocabulary)


def read_embeddings(checkpoint: Path) -> Tensor:
    """The input embedding matrix of a fairseq encoder's checkpoint, shape (V, E); loaded with weights_only."""
    model = _load(checkpoint)["model"]
    matrices = [
        tensor for name, tensor in model.items() if name.endswith(_EMBEDDINGS) and not name.startswith(_REPEATED)
    ]
    if len(matrices) != 1:
        raise TrueNegError(
            f"{checkpoint}: has {len(matrices)} input embedding matrices, expected 1 named ...{_EMBEDDINGS}"
        )
    embeddings: Tensor = matrices[0]
    return embeddings


def write_checkpoint(
    output: Path,
    state: Mapping[str, Tensor],
    model: Mapping[str, Any],
    data: Path,
    *,
    task: str,
    settings: Mapping[str, Any],
) -> None:
    """Writes weights as a checkpoint at zero updates and without an optimizer's state.

    It holds only tensors, plain Python values and, for BART, a Namespace. An existing output is replaced by a whole
    file.
    The model's argument ``_name`` is the architecture; ``settings`` are the task's arguments that are not its defaults.
    """
    import torch

    history = {"criterion_name": "MaskedLmLoss", "optimizer_name": "FairseqAdam"}
    told = {VOCABULARY: fingerprint(read_symbols(data))} if (data / "dict.txt").is_file() else {}  # BART has two
    content = {
        "args": None,
        "cfg": _configuration(model, data, task, settings),
        "model": dict(state),
        "criterion": None,
        "optimizer_history": [dict(history, lr_scheduler_state={}, num_updates=0)],
        "task_state": {},
        "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0}, **told},
        "last_optimizer_state": None,
    }
    with replacing_file(output) as stream:
        torch.save(content, stream)


def _load(path: Path) -> dict[str, Any]:
    require_checkpoint(path)
    import torch

    try:
        content: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        state = content["model"]
    except Exception as error:  # other files fail to unpickle in many ways
        raise TrueNegError(f"{path}: {unreadable(error)}; expected a fairseq checkpoint") from None
    _check_tensors(path, state)
    return content


def _updates(content: Mapping[str, Any]) -> int | None:
    """How many updates a checkpoint is of; None where it does not say."""
    history = content.get("optimizer_history")
    last = history[-1] if isinstance(history, list) and history else None
    updates = last.get("num_updates") if isinstance(last, dict) else None
    return updates if isinstance(updates, int) else None


def _check_tensors(path: Path, state: Any) -> None:
    """Raises where the weights are something else than named tensors that hold what their shapes say."""
    from torch import Tensor, strided

    for name, tensor in state.items() if isinstance(state, dict) else [("model", state)]:
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            found = f"{str(name)[:80]!r} is {type(tensor).__name__}"
        elif tensor.layout is not strided or tensor.is_meta:
            found = f"{name[:80]!r} is {'without values' if tensor.is_meta else 'sparse'}"
        elif tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
            found = f"{name[:80]!r} has the shape {tuple(tensor.shape)}, more than is stored"
        else:
            continue
        raise TrueNegError(f"{path}: {found}; expected a fairseq checkpoint's tensors by name")


def _check_arguments(path: Path, model: Mapping[str, Any], tensors: int) -> None:
    """Raises where the model's arguments are not plain values, or its sizes cannot be those of its tensors."""
    for name, value in model.items():
        if not isinstance(name, str) or not isinstance(value, str | int | float | list | tuple | dict | None):
            found = f"{type(value).__name__}; expected plain values"
        elif value is None or not _SIZES.fullmatch(name):
            continue
        else:
            largest = max(1, tensors) if name.endswith("_layers") else _LARGEST_SIZE
            if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= largest:
                continue
            found = f"{str(value)[:80]}; expected 0 to {largest}, as it has {tensors} tensors"
        raise TrueNegError(f"{path}: its model's argument {str(name)[:80]} is {found}")


def _renamed(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of an early RoBERTa as fairseq names them today; it does so where it loads one."""
    found: dict[str, Tensor] = {}
    for early, tensor in state.items():
        name = early.replace("decoder.", "encoder.", 1).replace(".emb_layer_norm.", ".layernorm_embedding.")
        module, joined, kind = name.partition("in_proj_")
        if joined:
            found |= {
                f"{module}{letter}_proj.{kind}": part for letter, part in zip("qkv", tensor.chunk(3), strict=True)
            }
        else:
            found[name] = tensor
    return found


def _arguments(arguments: Any) -> dict[str, Any]:
    """The arguments that fairseq-train stores as a Namespace, as a dictionary."""
    if isinstance(arguments, argparse.Namespace):
        return vars(arguments)
    return dict(arguments) if isinstance(arguments, Mapping) else {}


def _configuration(model: Mapping[str, Any], data: Path, task: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What fairseq-train itself would store, in built-in types."""
    from fairseq.criterions import CRITERION_DATACLASS_REGISTRY
    from fairseq.dataclass.configs import FairseqConfig
    from fairseq.tasks import TASK_DATACLASS_REGISTRY
    from omegaconf import OmegaConf

    root = OmegaConf.structured(FairseqConfig())
    root.model = dict(model)
    given = {**settings, "data": str(data.resolve())}
    if task in TASK_DATACLASS_REGISTRY:
        root.task = TASK_DATACLASS_REGISTRY[task](_name=task, **given)
    else:  # has no dataclass: its arguments are those of translation, and more
        defaults = OmegaConf.to_container(OmegaConf.structured(TASK_DATACLASS_REGISTRY["translation"]()), resolve=False)
        root.task = {**cast(dict[str, Any], defaults), "task": task, **given}
    criterion = _CRITERIONS.get(task, "cross_entropy")
    root.criterion = CRITERION_DATACLASS_REGISTRY[criterion](_name=criterion)
    container: Any = OmegaConf.to_container(root, resolve=True, enum_to_str=True)
    if "task" in model:  # of a model that asks for its task, which fairseq finds in a Namespace alone
        container["model"] = argparse.Namespace(**model)
    return dict(container)


# The architecture


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


def check_vocabulary(checkpoint: Checkpoint, expected: str, data: Path) -> None:
    """Refuses a checkpoint of another vocabulary: of another size or, where it tells its own, of other symbols."""
    check_fingerprint(checkpoint.vocabulary, expected, str(data))
    own, weight = _dictionary(data), checkpoint.state.get("encoder.sentence_encoder.embed_tokens.weight")
    if own is not None and weight is not None and len(weight) != (size := len(read_symbols(own))):
        raise TrueNegError(
            f"{checkpoint.path}: has {len(weight):,} embeddings, the dictionary of {data} has {size:,} symbols; "
            f"{_SAME_VOCABULARY}"
        )


def check_fingerprint(found: str | None, expected: str, data: str) -> None:
    """Refuses a model whose dictionary has another fingerprint than that of the data; None where it is not known."""
    if found is not None and found != expected:
        raise TrueNegError(
            f"{data}: was made with a vocabulary of fingerprint {expected[:12]}, the checkpoint is of {found[:12]}; "
            f"{_SAME_VOCABULARY}"
        )


def _dictionary(folder: Path) -> Path | None:
    """Of binarized data, of SQuAD's features, or of a GLUE task."""
    return next((path for path in (folder / "dict.txt", folder / "input0" / "dict.txt") if path.is_file()), None)
