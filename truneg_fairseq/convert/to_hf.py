"""fairseq checkpoints as Hugging Face models, with config, tokenizer and safetensors.

One checkpoint may hold several models: ELECTRA's discriminator and generator, or an encoder with a masked-LM head and
with a classifier. A *part* names one of them.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from .. import register
from ..errors import TrueNegError
from ..files import is_new, new_folder
from ..models.checkpoints import Checkpoint, check_vocabulary, data_of, modules_of, read_checkpoint
from ..vocabulary import fingerprint, read_symbols
from .architecture import CONFIG, ROBERTA_FIRST_POSITION, Conversion, ModelConfig, config_of, hf_config
from .card import model_card
from .from_hf import move_positions
from .names import (
    ELECTRA_HEAD,
    EXPORTS,
    FAMILIES,
    NEXT_SENTENCE_HEAD,
    POOLER_HEAD,
    POSITIONS,
    QUESTION_ANSWERING_HEAD,
    TOKEN_TYPES,
    WORDS,
    Pair,
)
from .token_ids import (
    TokenList,
    build_tokenizer,
    find_vocabulary,
    read_dictionary,
    rows_by_id,
    token_folder,
    vocabulary_of_dictionary,
)

WEIGHTS = "model.safetensors"
_HEADS = "classification_heads."
_SPECIAL_SYMBOLS = 4


def to_hf(checkpoint: Path, folder: Path, *, data: Path | None = None, part: str | None = None) -> Conversion:
    """Writes a folder that ``AutoModel*`` and ``AutoTokenizer`` load, with a model card.

    Weights become float32. The rows are in the order of the vocabulary that lies beside the data (tokenizer.json,
    vocab.txt or vocab.json), so that a model that was converted from Hugging Face comes back as it was; without one
    they stay in the dictionary's order. The folder is new or empty, and is there only when it is whole. The other
    arguments are the command's.
    """
    register()
    if not is_new(folder):
        raise TrueNegError(f"{folder}: is there already; expected a new or an empty folder")
    source = read_checkpoint(checkpoint)
    data = data or data_of(source)
    folders = list(dict.fromkeys((token_folder(data), data)))
    check_vocabulary(source, fingerprint(read_symbols(folders[0])), data)
    dictionary = read_dictionary(data)
    selection = select(source, part)
    config = selection.config
    segments = config.family != "roberta"
    vocabulary = find_vocabulary(folders) or vocabulary_of_dictionary(dictionary)
    rows = rows_by_id(vocabulary, dictionary)
    tensors = to_tensors(selection, rows, pad=vocabulary.special_ids["<pad>"], path=checkpoint)
    settings = hf_config(
        config, selection.parts, vocabulary.special_ids, **_classes(selection, data / "label" / "dict.txt")
    )
    (architecture,) = settings.architectures
    double = False if segments else None  # where the checkpoint was trained on no pairs
    if source.task.get("_name", source.task.get("task")) == "sentence_prediction":  # squad has one
        double = source.task.get("separator_token") is not None
    tokenizer = build_tokenizer(
        vocabulary, dictionary, folders, double_separator=double, max_length=config.positions, segments=segments
    )
    notes = _notes(source, selection, vocabulary, dictionary.path, has_tokenizer=tokenizer is not None)
    with new_folder(folder.absolute()) as place:
        settings.save_pretrained(place)
        save_file(tensors, place / WEIGHTS, {"format": "pt"})
        shutil.copymode(place / CONFIG, place / WEIGHTS)  # safetensors gives it to the user alone
        if tokenizer is not None:
            tokenizer.save_pretrained(place)
            tokenizer.backend_tokenizer.model.save(str(place))  # vocab.txt, or vocab.json and merges.txt
        card = model_card(source, data, architecture, name=folder.absolute().name)
        (place / "README.md").write_text(card, encoding="utf-8")
    parameters = sum(tensor.numel() for tensor in tensors.values())
    return Conversion(folder, config, parameters, notes, architecture=architecture)


def to_tensors(selection: Selection, rows: Tensor, *, pad: int, path: Path) -> dict[str, Tensor]:
    """The model's tensors under transformers' names, float32, complete but for those tied to others.

    ``rows``, int64, shape (V,), are from :func:`.rows_by_id`; RoBERTa's positions count from ``pad``, the row of the
    padding token.
    """
    dims = {**selection.config.dims, "C": selection.classes}
    ids = rows.argsort()
    tensors = {}
    for pair in selection.pairs():
        tensor = selection.state.get(pair.ours)
        shape = tuple(int(dim) if dim.isdigit() else dims[dim] for dim in pair.dims)
        if tensor is None or tuple(tensor.shape) != shape:
            found = "is missing" if tensor is None else f"has shape {tuple(tensor.shape)}"
            raise TrueNegError(f"{path}: {pair.ours} {found}, expected shape {shape} from the model's arguments")
        # Tied tensors are one in memory; safetensors wants each for itself.
        tensors[pair.theirs] = (tensor[ids] if pair.by_token else tensor).float().clone().contiguous()
    if "untied" in selection.parts:  # computes with the second name alone
        copies = FAMILIES[selection.config.family].copies
        tensors |= {second: tensors[first].clone() for first, second in copies.items()}
    if selection.config.family == "roberta":
        base = next(name for name in tensors if name.endswith(WORDS)).removesuffix(WORDS)
        tensors[f"{base}{TOKEN_TYPES}"] = torch.zeros(1, selection.config.hidden_size)
        positions = tensors[f"{base}{POSITIONS}"]
        tensors[f"{base}{POSITIONS}"] = move_positions(positions, ROBERTA_FIRST_POSITION, pad + 1)
    return tensors


def _classes(selection: Selection, labels: Path) -> dict[str, Any]:
    """The settings that tell what the outputs are."""
    count = selection.classes
    if not count:
        return {}
    names = [f"LABEL_{index}" for index in range(count)]
    if count > 1 and labels.exists():
        # fairseq-preprocess fills its dictionaries up to a multiple of 8.
        symbols = [symbol for symbol in read_symbols(labels) if not symbol.startswith("madeupword")]
        names = symbols[_SPECIAL_SYMBOLS:-1]
        if len(names) != count:
            raise TrueNegError(
                f"{labels}: has {len(names)} labels, the classifier {count}; expected the dictionary of its classes"
            )
    return {
        "id2label": dict(enumerate(names)),
        "label2id": {name: index for index, name in enumerate(names)},
        "problem_type": "regression" if count == 1 else "single_label_classification",
    }


def _notes(
    source: Checkpoint, selection: Selection, vocabulary: TokenList, dictionary: Path, *, has_tokenizer: bool
) -> tuple[str, ...]:
    notes = []
    taken = modules_of(pair.ours for pair in selection.pairs())
    if left := [module for module in modules_of(source.state) if module not in taken]:
        notes.append(f"left out: {', '.join(left)} (--part takes one of {', '.join(available_parts(source))})")
    if vocabulary.path == dictionary:
        notes.append(f"no vocabulary beside {dictionary}: the tokens are numbered as in it")
    if not has_tokenizer:
        notes.append(
            f"no tokenizer: {dictionary.parent} has no tokenizer.json, vocab.txt or GPT-2 merges (vocab.bpe); "
            "SentencePiece models are not converted"
        )
    return tuple(notes)


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
        state |= {f"{prefix}{name}": tensor for name, tensor in split_linear_classifier(*linear).items()}
    pooler: tuple[str, ...] = ("pooler",) if config.family == "bert" else ()
    masked_lm = ("masked_lm", *(() if config.tied else ("untied",)))
    if pooler and name == NEXT_SENTENCE_HEAD:
        masked_lm = (*masked_lm, "pooler", "next_sentence")
    own = {"classification": (*pooler, part), "encoder": pooler if name else ()}
    own |= {"masked-lm": masked_lm, "generator": masked_lm}
    return Selection(config, state, (*config.parts, *own.get(part, (part.replace("-", "_"),))), stack, name)


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
