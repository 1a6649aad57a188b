"""Hugging Face BERT weights as a checkpoint of fairseq's stock ``roberta`` model.

Three differences between the two architectures decide what a conversion can promise:

* Vocabulary: fairseq numbers its dictionary by itself. The rows of the embeddings are permuted token by token; the five
  special tokens are paired by role (``[CLS]`` is ``<s>``, and so on, see :data:`SPECIAL_TOKENS`).
* Segments: fairseq's model has no token types. Token type 0 is added to the positions, which is exact for single
  segments; a second segment cannot be expressed. Positions start at row 2 (the padding id + 1), the first two rows are
  zero.
* LayerNorm: BERT divides by sqrt(variance + 1e-12), fairseq by sqrt(variance + 1e-5), and fairseq's model cannot be
  told otherwise. Measured: the logits of small random models differ by up to 4e-4, the features of all-MiniLM-L6-v2
  by up to 2e-3. Once the modules' ``eps`` is set by hand, both agree to rounding (5e-6).

The names on the two sides are those of transformers' ``modeling_bert`` and of fairseq's ``models/roberta/model.py``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from ..errors import TrueNegError
from ..vocabulary import MASK_SYMBOL, read_symbols

ARCHITECTURE = "roberta_base"
FAIRSEQ_LAYER_NORM_EPS = 1e-5
SPECIAL_TOKENS = {"<s>": "[CLS]", "<pad>": "[PAD]", "</s>": "[SEP]", "<unk>": "[UNK]", MASK_SYMBOL: "[MASK]"}
"""fairseq's special symbols and the BERT tokens of the same role."""

# fairseq counts positions from its padding id + 1, and the padding id is 1.
_FIRST_POSITION_ROW = 2
# The version that fairseq's TransformerEncoder registers as a buffer and a strict load asks for.
_TRANSFORMER_ENCODER_VERSION = 3.0
_ENCODER = "encoder.sentence_encoder"
_LM_HEAD = "encoder.lm_head"
_WORDS = "embeddings.word_embeddings.weight"
_POSITIONS = "embeddings.position_embeddings.weight"
_TOKEN_TYPES = "embeddings.token_type_embeddings.weight"
_MLM_HEAD = "cls.predictions."
_MLM_BIAS = "cls.predictions.bias"
_MLM_DECODER_WEIGHT = "cls.predictions.decoder.weight"
_MLM_DECODER_BIAS = "cls.predictions.decoder.bias"
_WITHOUT_COUNTERPART = ("pooler.", "cls.seq_relationship.", "embeddings.position_ids")
_WEIGHT_TYPES = (torch.float16, torch.bfloat16, torch.float32)
# The first releases of BERT called LayerNorm's parameters gamma and beta; bert-base-uncased still does.
_OLD_SUFFIXES = {".gamma": ".weight", ".beta": ".bias"}
# What the converted model computes; an absent key means the same in transformers' BertConfig.
_REQUIRED_SETTINGS: dict[str, Any] = {
    "model_type": "bert",
    "hidden_act": "gelu",
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
}


@dataclass(frozen=True)
class HfBertConfig:
    """The part of a BERT's config.json that the conversion needs, under the names of transformers' BertConfig."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    max_position_embeddings: int
    type_vocab_size: int
    hidden_dropout_prob: float
    attention_probs_dropout_prob: float
    layer_norm_eps: float
    tie_word_embeddings: bool


@dataclass(frozen=True)
class HfBert:
    """A BERT read from a Hugging Face folder.

    Attributes:
        folder: where it was read from.
        config: its sizes.
        tensors: float32, under transformers' names without the prefix ``bert.``; complete and of the shapes that the
            config says. ``cls.predictions.decoder.weight`` is there only where it is not tied to the embeddings.
        dropped: the names in the file that fairseq's roberta has no place for.
    """

    folder: Path
    config: HfBertConfig
    tensors: dict[str, Tensor]
    dropped: tuple[str, ...]

    @property
    def has_mlm_head(self) -> bool:
        """Whether the weights include the masked-LM head."""
        return _has_mlm_head(self.tensors)

    @property
    def is_tied(self) -> bool:
        """Whether the masked-LM head projects with the word embeddings."""
        return _MLM_DECODER_WEIGHT not in self.tensors


@dataclass(frozen=True)
class ConversionReport:
    """What a conversion wrote, and what its user has to know.

    Attributes:
        output: the checkpoint.
        config: the sizes of the model in it.
        parameters: how many numbers the model has, tied ones counted once.
        flags: the architecture flags for fairseq-train.
        notes: one line each.
    """

    output: Path
    config: HfBertConfig
    parameters: int
    flags: tuple[str, ...]
    notes: tuple[str, ...]


def load_hf_bert(folder: Path) -> HfBert:
    """Reads config.json and model.safetensors of a BertModel, BertForMaskedLM or BertForPreTraining.

    Raises:
        TrueNegError: a file is missing or unreadable, the architecture is not BERT's, or a tensor is missing, left over
            or of another shape or type than the config says.
    """
    config = _read_config(folder / "config.json")
    path = folder / "model.safetensors"
    tensors, dropped = _canonical_tensors(_read_tensors(path), path)
    _merge_tied_head(tensors, config, path)
    _check_shapes(tensors, _expected_shapes(config, tensors), path)
    return HfBert(folder, config, {name: tensor.float() for name, tensor in tensors.items()}, dropped)


def rows_by_id(tokens: Sequence[str], symbols: Sequence[str], tokens_path: Path, symbols_path: Path) -> Tensor:
    """The BERT row of every id of a fairseq dictionary.

    Args:
        tokens: the BERT vocabulary by row.
        symbols: the fairseq dictionary by id, ``<mask>`` included.
        tokens_path: where the tokens come from, for error messages.
        symbols_path: where the symbols come from, for error messages.

    Returns:
        int64, shape (V,): a permutation; element i is the row of the token with fairseq id i.

    Raises:
        TrueNegError: the two are not the same vocabulary.
    """
    row_of = {token: row for row, token in enumerate(tokens)}
    wanted = [SPECIAL_TOKENS.get(symbol, symbol) for symbol in symbols]
    for found, in_path, other, not_in_path in (
        (wanted, symbols_path, set(row_of), tokens_path),
        (tokens, tokens_path, set(wanted), symbols_path),
    ):
        strangers = [token for token in found if token not in other]
        if strangers:
            raise TrueNegError(
                f"{in_path}: {len(strangers)} of its {len(found)} tokens are not in {not_in_path} "
                f"(e.g. {strangers[0]!r}); expected one vocabulary, dict.txt being vocab.txt without its five special "
                "tokens: binarize the data with this model's vocabulary"
            )
    for listed, path in ((wanted, symbols_path), (tokens, tokens_path)):
        token, count = Counter(listed).most_common(1)[0]
        if count > 1:
            raise TrueNegError(
                f"{path}: the token {token!r} appears {count} times, counting fairseq's special symbols as BERT's; "
                "expected each token once (dict.txt without [PAD], [UNK], [CLS], [SEP] and [MASK])"
            )
    return torch.tensor([row_of[token] for token in wanted], dtype=torch.int64)


def bert_to_roberta_state(bert: HfBert, rows: Tensor) -> dict[str, Tensor]:
    """The state dict of fairseq's ``RobertaModel`` that computes what this BERT does on single segments.

    Without a masked-LM head in the source, the head starts as neutral as it can be: identity, no bias, tied projection.

    Args:
        bert: the weights.
        rows: int64, shape (V,), from :func:`rows_by_id`.

    Returns:
        float32 tensors, all that a strict load wants. Tied matrices are one tensor.
    """
    source, hidden = bert.tensors, bert.config.hidden_size
    words = source[_WORDS][rows]
    positions = source[_POSITIONS] + source[_TOKEN_TYPES][0]
    state = {
        f"{_ENCODER}.version": torch.tensor([_TRANSFORMER_ENCODER_VERSION]),
        f"{_ENCODER}.embed_tokens.weight": words,
        f"{_ENCODER}.embed_positions.weight": torch.cat([torch.zeros(_FIRST_POSITION_ROW, hidden), positions]),
        f"{_LM_HEAD}.weight": words if bert.is_tied else source[_MLM_DECODER_WEIGHT][rows],
    }
    for name, (target, _) in _modules(bert.config, bert.has_mlm_head).items():
        state[f"{target}.weight"] = source[f"{name}.weight"]
        state[f"{target}.bias"] = source[f"{name}.bias"]
    if bert.has_mlm_head:
        state[f"{_LM_HEAD}.bias"] = source[_MLM_BIAS][rows]
    else:
        state |= {
            f"{_LM_HEAD}.dense.weight": torch.eye(hidden),
            f"{_LM_HEAD}.dense.bias": torch.zeros(hidden),
            f"{_LM_HEAD}.layer_norm.weight": torch.ones(hidden),
            f"{_LM_HEAD}.layer_norm.bias": torch.zeros(hidden),
            f"{_LM_HEAD}.bias": torch.zeros(bert.config.vocab_size),
        }
    return state


def architecture_flags(bert: HfBert) -> tuple[str, ...]:
    """The fairseq-train flags that build a model for these weights."""
    config = bert.config
    flags = (
        *("--arch", ARCHITECTURE),
        *("--encoder-layers", str(config.num_hidden_layers)),
        *("--encoder-embed-dim", str(config.hidden_size)),
        *("--encoder-ffn-embed-dim", str(config.intermediate_size)),
        *("--encoder-attention-heads", str(config.num_attention_heads)),
        *("--max-positions", str(config.max_position_embeddings)),
        *("--dropout", str(config.hidden_dropout_prob)),
        *("--attention-dropout", str(config.attention_probs_dropout_prob)),
    )
    return flags if bert.is_tied else (*flags, "--untie-weights-roberta")


def convert_bert(folder: Path, data: Path, output: Path) -> ConversionReport:
    """Writes a fairseq checkpoint with the weights of a Hugging Face BERT.

    The checkpoint loads with ``fairseq-train --finetune-from-model`` and with fairseq's ``checkpoint_utils``; it holds
    nothing but tensors and plain Python values. An existing output is replaced, and only by a complete file.

    Args:
        folder: config.json, model.safetensors and, preferably, vocab.txt.
        data: the folder of binarized data whose dict.txt numbers the tokens. Its vocab.txt is used if the other folder
            has none.
        output: the checkpoint to write.

    Raises:
        TrueNegError: see :func:`load_hf_bert` and :func:`rows_by_id`; or the output cannot be written.
    """
    _check_output(output)
    bert = load_hf_bert(folder)
    tokens_path = _vocabulary_path(folder, data)
    tokens = _read_vocabulary(tokens_path)
    if len(tokens) != bert.config.vocab_size:
        raise TrueNegError(
            f"{tokens_path}: {len(tokens)} tokens, but {folder / 'config.json'} says vocab_size "
            f"{bert.config.vocab_size}; expected the vocabulary of these weights"
        )
    rows = rows_by_id(tokens, read_symbols(data), tokens_path, data / "dict.txt")
    state = bert_to_roberta_state(bert, rows)
    flags = architecture_flags(bert)
    _save(_checkpoint(state, _fairseq_config(flags, data, bert.config)), output)
    distinct = {id(tensor): tensor for name, tensor in state.items() if not name.endswith(".version")}
    notes = _notes(bert, tokens_path)
    return ConversionReport(output, bert.config, sum(t.numel() for t in distinct.values()), flags, notes)


def _read_config(path: Path) -> HfBertConfig:
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise TrueNegError(
            f"{path}: no such file; expected a local Hugging Face folder with BERT's config.json"
        ) from None
    except OSError as error:
        raise TrueNegError(f"{path}: cannot be read ({error.strerror}); expected BERT's configuration") from None
    except ValueError as error:
        raise TrueNegError(f"{path}: not JSON in UTF-8 ({error}); expected BERT's configuration") from None
    if not isinstance(raw, dict) or "model_type" not in raw:
        raise TrueNegError(f"{path}: no model_type in it; expected a Hugging Face configuration with model_type 'bert'")
    for key, expected in _REQUIRED_SETTINGS.items():
        if raw.get(key, expected) != expected:
            raise TrueNegError(
                f"{path}: {key} is {raw[key]!r}, expected {expected!r}; fairseq's roberta computes nothing else"
            )
    config = HfBertConfig(
        vocab_size=_size(raw, "vocab_size", path),
        hidden_size=_size(raw, "hidden_size", path),
        num_hidden_layers=_size(raw, "num_hidden_layers", path),
        num_attention_heads=_size(raw, "num_attention_heads", path),
        intermediate_size=_size(raw, "intermediate_size", path),
        max_position_embeddings=_size(raw, "max_position_embeddings", path),
        type_vocab_size=_size(raw, "type_vocab_size", path),
        hidden_dropout_prob=_number(raw, "hidden_dropout_prob", 0.1, path),
        attention_probs_dropout_prob=_number(raw, "attention_probs_dropout_prob", 0.1, path),
        layer_norm_eps=_number(raw, "layer_norm_eps", 1e-12, path),
        tie_word_embeddings=raw.get("tie_word_embeddings", True) is not False,
    )
    if config.hidden_size % config.num_attention_heads:
        raise TrueNegError(
            f"{path}: hidden_size {config.hidden_size} is not a multiple of num_attention_heads "
            f"{config.num_attention_heads}; expected heads of equal width"
        )
    return config


def _size(raw: Mapping[str, Any], key: str, path: Path) -> int:
    value = raw.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        found = f"is {value!r}" if key in raw else "is missing"
        raise TrueNegError(f"{path}: {key} {found}, expected a positive whole number")
    return value


def _number(raw: Mapping[str, Any], key: str, default: float, path: Path) -> float:
    """A number in [0, 1); the default is that of transformers' BertConfig."""
    value = raw.get(key, default)
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < 1:
        raise TrueNegError(f"{path}: {key} is {value!r}, expected a number from 0 to below 1")
    return float(value)


def _read_tensors(path: Path) -> dict[str, Tensor]:
    if not path.exists():
        pickled = path.with_name("pytorch_model.bin")
        if pickled.exists():
            raise TrueNegError(
                f"{pickled}: is a pickle, which can run code when it is read; convert it to safetensors (transformers' "
                f"save_pretrained, where you trust the file) and put {path.name} here"
            )
        if path.with_name(f"{path.name}.index.json").exists():
            raise TrueNegError(f"{path}: no such file, its shards are there; expected one file: save it unsharded")
        raise TrueNegError(f"{path}: no such file; expected BERT's weights in safetensors")
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        reason = str(error).splitlines()[0]
        raise TrueNegError(f"{path}: cannot be read ({reason}); expected BERT's weights in safetensors") from None


def _canonical_tensors(raw: Mapping[str, Tensor], path: Path) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """The tensors under their present names without prefix, and the names of those without a counterpart."""
    tensors: dict[str, Tensor] = {}
    dropped = []
    for stored_name, tensor in raw.items():
        name = stored_name.removeprefix("bert.")
        if name.startswith(_WITHOUT_COUNTERPART):
            dropped.append(name)
            continue
        for old, new in _OLD_SUFFIXES.items():
            if name.endswith(old):
                name = name.removesuffix(old) + new
        if name in tensors:
            raise TrueNegError(f"{path}: holds {name} twice, with and without a prefix; expected one BERT's weights")
        if tensor.dtype not in _WEIGHT_TYPES:
            raise TrueNegError(
                f"{path}: {stored_name} is of type {tensor.dtype}, expected float32, float16 or bfloat16; quantized "
                "weights are not read"
            )
        tensors[name] = tensor
    return tensors, tuple(sorted(dropped))


def _has_mlm_head(tensors: Mapping[str, Tensor]) -> bool:
    return any(name.startswith(_MLM_HEAD) for name in tensors)


def _merge_tied_head(tensors: dict[str, Tensor], config: HfBertConfig, path: Path) -> None:
    """Removes, in place, the second names of the head's bias and of a projection tied to the embeddings."""
    bias = tensors.pop(_MLM_DECODER_BIAS, None)
    if bias is not None:
        if config.tie_word_embeddings and not torch.equal(tensors.get(_MLM_BIAS, bias), bias):
            raise TrueNegError(f"{path}: {_MLM_BIAS} and {_MLM_DECODER_BIAS} differ; expected one bias under two names")
        # An untied BertForMaskedLM stores both and computes with the decoder's.
        tensors[_MLM_BIAS] = bias
    decoder, words = tensors.get(_MLM_DECODER_WEIGHT), tensors.get(_WORDS)
    if decoder is not None and words is not None and torch.equal(decoder, words):
        del tensors[_MLM_DECODER_WEIGHT]
    elif decoder is None and _has_mlm_head(tensors) and not config.tie_word_embeddings:
        raise TrueNegError(
            f"{path}: {_MLM_DECODER_WEIGHT} is missing, but config.json says tie_word_embeddings false; expected the "
            "untied projection"
        )


def _modules(config: HfBertConfig, with_head: bool) -> dict[str, tuple[str, tuple[int, ...]]]:
    """fairseq's name and the weight's shape, by BERT's name, of the modules with a weight and a bias.

    A bias has the first dimension of its weight.
    """
    hidden, inner = config.hidden_size, config.intermediate_size
    layer: dict[str, tuple[str, tuple[int, ...]]] = {
        "attention.self.query": ("self_attn.q_proj", (hidden, hidden)),
        "attention.self.key": ("self_attn.k_proj", (hidden, hidden)),
        "attention.self.value": ("self_attn.v_proj", (hidden, hidden)),
        "attention.output.dense": ("self_attn.out_proj", (hidden, hidden)),
        "attention.output.LayerNorm": ("self_attn_layer_norm", (hidden,)),
        "intermediate.dense": ("fc1", (inner, hidden)),
        "output.dense": ("fc2", (hidden, inner)),
        "output.LayerNorm": ("final_layer_norm", (hidden,)),
    }
    modules = {
        f"encoder.layer.{index}.{name}": (f"{_ENCODER}.layers.{index}.{target}", shape)
        for index in range(config.num_hidden_layers)
        for name, (target, shape) in layer.items()
    }
    modules["embeddings.LayerNorm"] = (f"{_ENCODER}.layernorm_embedding", (hidden,))
    if with_head:
        modules["cls.predictions.transform.dense"] = (f"{_LM_HEAD}.dense", (hidden, hidden))
        modules["cls.predictions.transform.LayerNorm"] = (f"{_LM_HEAD}.layer_norm", (hidden,))
    return modules


def _expected_shapes(config: HfBertConfig, tensors: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    with_head = _has_mlm_head(tensors)
    shapes: dict[str, tuple[int, ...]] = {
        _WORDS: (config.vocab_size, config.hidden_size),
        _POSITIONS: (config.max_position_embeddings, config.hidden_size),
        _TOKEN_TYPES: (config.type_vocab_size, config.hidden_size),
    }
    for name, (_, shape) in _modules(config, with_head).items():
        shapes[f"{name}.weight"] = shape
        shapes[f"{name}.bias"] = shape[:1]
    if with_head:
        shapes[_MLM_BIAS] = (config.vocab_size,)
    if _MLM_DECODER_WEIGHT in tensors:
        shapes[_MLM_DECODER_WEIGHT] = (config.vocab_size, config.hidden_size)
    return shapes


def _check_shapes(tensors: Mapping[str, Tensor], shapes: Mapping[str, tuple[int, ...]], path: Path) -> None:
    missing = [name for name in shapes if name not in tensors]
    if missing:
        raise TrueNegError(
            f"{path}: {len(missing)} tensors are missing (e.g. {missing[0]}); expected the encoder that config.json "
            "describes, and a masked-LM head whole or not at all"
        )
    unexpected = [name for name in tensors if name not in shapes]
    if unexpected:
        raise TrueNegError(
            f"{path}: {len(unexpected)} tensors are not known (e.g. {unexpected[0]}); expected BertModel, "
            "BertForMaskedLM or BertForPreTraining of the sizes in config.json"
        )
    for name, shape in shapes.items():
        if tuple(tensors[name].shape) != shape:
            raise TrueNegError(
                f"{path}: {name} has shape {tuple(tensors[name].shape)}, expected {shape} from the sizes in config.json"
            )


def _vocabulary_path(folder: Path, data: Path) -> Path:
    for path in (folder / "vocab.txt", data / "vocab.txt"):
        if path.exists():
            return path
    raise TrueNegError(
        f"{folder}: has no vocab.txt, nor has {data}; expected BERT's vocabulary, one token a line, in the order of "
        "the rows"
    )


def _read_vocabulary(path: Path) -> list[str]:
    try:
        tokens = path.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise TrueNegError(f"{path}: cannot be read ({error.strerror}); expected BERT's vocabulary") from None
    except UnicodeDecodeError as error:
        raise TrueNegError(f"{path}: not UTF-8 at byte {error.start}; expected BERT's vocabulary") from None
    return tokens[:-1] if tokens[-1] == "" else tokens


def _fairseq_config(flags: Sequence[str], data: Path, config: HfBertConfig) -> dict[str, Any]:
    """The configuration fairseq-train itself would store for these flags, in built-in types."""
    from fairseq.criterions.masked_lm import MaskedLmConfig
    from fairseq.dataclass.configs import FairseqConfig
    from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
    from fairseq.tasks.masked_lm import MaskedLMConfig
    from omegaconf import OmegaConf

    # fairseq parses a model's flags in the same way: what is not given is left to the architecture function.
    parser = argparse.ArgumentParser(argument_default=argparse.SUPPRESS)
    parser.add_argument("--arch", dest="_name")
    ARCH_MODEL_REGISTRY[ARCHITECTURE].add_args(parser)
    model = parser.parse_args(flags)
    ARCH_CONFIG_REGISTRY[ARCHITECTURE](model)
    root = OmegaConf.structured(FairseqConfig())
    root.model = vars(model)
    root.task = MaskedLMConfig(
        _name="masked_lm", data=str(data.resolve()), tokens_per_sample=config.max_position_embeddings
    )
    root.criterion = MaskedLmConfig(_name="masked_lm")
    container = OmegaConf.to_container(root, resolve=True, enum_to_str=True)
    assert isinstance(container, dict)
    return {str(key): value for key, value in container.items()}


def _checkpoint(state: dict[str, Tensor], config: dict[str, Any]) -> dict[str, Any]:
    """The parts of a checkpoint that fairseq's loaders ask for, at zero updates and without an optimizer's state."""
    return {
        "args": None,
        "cfg": config,
        "model": state,
        "criterion": None,
        "optimizer_history": [
            {
                "criterion_name": "MaskedLmLoss",
                "optimizer_name": "FairseqAdam",
                "lr_scheduler_state": {},
                "num_updates": 0,
            }
        ],
        "task_state": {},
        "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0}},
        "last_optimizer_state": None,
    }


def _check_output(output: Path) -> None:
    """The mistakes to be told of before the work: a full or read-only disk shows in :func:`_save`."""
    try:
        if output.is_dir():
            raise TrueNegError(f"--output {output}: is a folder, expected the checkpoint file to write")
        if not output.parent.is_dir():
            raise TrueNegError(f"--output {output}: {output.parent} is not a folder; create it first")
    except OSError as error:
        raise _unwritable(output, error) from None


def _save(checkpoint: dict[str, Any], output: Path) -> None:
    beside = output.with_name(f".{output.name}.{os.getpid()}.tmp")
    try:
        with beside.open("wb") as handle:
            torch.save(checkpoint, handle)
        beside.replace(output)
    except (OSError, RuntimeError) as error:  # torch reports a full disk as a RuntimeError
        raise _unwritable(output, error) from None
    finally:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)


def _unwritable(output: Path, error: Exception) -> TrueNegError:
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error).splitlines()[0]
    return TrueNegError(f"--output {output}: cannot be written ({reason}); expected a writable place")


def _notes(bert: HfBert, tokens_path: Path) -> tuple[str, ...]:
    config = bert.config
    dropped = list(bert.dropped)
    if config.type_vocab_size > 1:
        dropped.append(f"{_TOKEN_TYPES} from row 1 on")
    notes = [
        "token type 0 is folded into the positions: exact for single segments; for pairs of segments the second one's "
        "token type is lost",
        f"positions: at most {config.max_position_embeddings} tokens; give fairseq-train --tokens-per-sample "
        f"{config.max_position_embeddings} or less",
    ]
    if dropped:
        notes.append(f"dropped, fairseq's roberta has no place for them: {', '.join(dropped)}")
    if config.layer_norm_eps != FAIRSEQ_LAYER_NORM_EPS:
        notes.append(
            f"LayerNorm eps: the weights are used to {config.layer_norm_eps:g}, fairseq's roberta has "
            f"{FAIRSEQ_LAYER_NORM_EPS:g} and no flag for it; outputs differ by up to a few thousandths"
        )
    if not bert.has_mlm_head:
        notes.append(
            "no masked-LM head in the weights: it starts as the identity, tied to the embeddings, and has to be trained"
        )
    if not bert.is_tied:
        notes.append("the masked-LM head has a projection of its own: --untie-weights-roberta keeps it so")
    if tokens_path.parent != bert.folder:
        notes.append(f"{bert.folder} has no vocab.txt: the rows are taken to be in the order of {tokens_path}")
    return tuple(notes)
