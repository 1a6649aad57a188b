"""Hugging Face models, and checkpoints with another dictionary, as fairseq checkpoints.

Vocabulary: fairseq numbers its dictionary by itself. The rows of the embeddings are permuted token by token, the
special tokens are paired by role (``[CLS]`` is ``<s>``, and so on). BERT and ELECTRA become this package's ``bert`` and
``electra`` exactly. RoBERTa becomes ``roberta`` of fairseq, which has no token types: the first
row of its token types, zeros in the released weights, is added to its positions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from .. import register
from ..errors import TrueNegError
from ..files import require_different, require_writable
from ..models.checkpoints import check_vocabulary, data_of, read_checkpoint, write_checkpoint
from ..vocabulary import fingerprint, read_symbols
from .architecture import CONFIG, Conversion, ModelConfig, architecture_flags, config_of, parse_flags, pretraining_flags
from .hf_model import HfModel, read_model
from .names import Pair
from .rows import TokenList, find_vocabulary, read_dictionary, rows_by_id, token_folder

_BY_TOKEN = ("embed_tokens.weight", "lm_head.weight", "lm_head.bias")
# The version that fairseq's TransformerEncoder registers as a buffer and a strict load asks for.
_TRANSFORMER_ENCODER_VERSION = 3.0


def from_hf(
    folder: Path, data: Path, output: Path, *, generator: Path | None = None, allow_pickle: bool = False
) -> Conversion:
    """Writes a fairseq checkpoint with the weights of a Hugging Face model.

    The checkpoint loads with ``fairseq-train --finetune-from-model`` and with fairseq's ``checkpoint_utils``; it holds
    only tensors and plain Python values. The dict.txt of ``data`` numbers the tokens; the vocabulary beside it is used
    if ``folder`` has none. ``generator`` is the folder of ELECTRA's generator, ``folder`` being its discriminator.
    """
    register()
    require_writable(output, "OUT")
    inputs = [path for place in (folder, generator, data) if place is not None for path in place.glob("*")]
    require_different(OUT=output, IN=[path for path in inputs if path.suffix != ".pt"])
    model = read_model(folder, allow_pickle=allow_pickle)
    vocabulary = _vocabulary(model, data)
    rows = rows_by_id(vocabulary, read_dictionary(data))
    state, config, other = to_state(model, rows), model.config, None
    if generator is not None:
        other = read_model(generator, allow_pickle=allow_pickle)
        _check_generator(model, other)
        own = find_vocabulary([other.folder])
        if own is not None and own.tokens != vocabulary.tokens:
            raise TrueNegError(f"{own.path}: differs from {vocabulary.path}; expected one vocabulary for both models")
        state |= to_state(other, rows, stack="generator", shared=state)
        config = replace(config, tied=other.config.tied)
    flags = architecture_flags(config, None if other is None else other.config)
    notes = _notes(model, other, vocabulary)
    return _write(output, state, flags, data, config=model.config, notes=notes, electra=other is not None)


def to_dictionary(checkpoint: Path, output: Path, *, data: Path) -> Conversion:
    """Writes a checkpoint whose embeddings are in the order of the dictionary of other binarized data.

    Every token of that dictionary must be in the checkpoint's, which is found in the data that it was trained on. The
    optimizer's state is left out, as in a checkpoint that comes from Hugging Face.
    """
    register()
    require_writable(output, "OUT")
    require_different(OUT=output, IN=checkpoint)
    source = read_checkpoint(checkpoint)
    old_data = data_of(source)
    check_vocabulary(source, fingerprint(read_symbols(token_folder(old_data))), old_data)
    before, after = read_dictionary(old_data), read_dictionary(data)
    row_of = {token: row for row, token in enumerate(before.tokens)}
    if lacking := [token for token in after.tokens if token not in row_of]:
        raise TrueNegError(
            f"{after.path}: {len(lacking)} of its {len(after.tokens)} tokens are not in {before.path} (e.g. "
            f"{lacking[0]!r}); binarize the text with {before.path} and its tokenizer"
        )
    rows = torch.tensor([row_of[token] for token in after.tokens])
    moved: dict[int, Tensor] = {}  # by address: tied tensors stay one
    for name, tensor in source.state.items():
        if name.endswith(_BY_TOKEN):
            moved.setdefault(tensor.data_ptr(), tensor[rows])
    state = {name: moved.get(tensor.data_ptr(), tensor) for name, tensor in source.state.items()}
    return _write(
        output, state, pretraining_flags(source), data, config=config_of(source), electra=source.has_generator
    )


def _write(
    output: Path,
    state: Mapping[str, Tensor],
    flags: tuple[str, ...],
    data: Path,
    *,
    config: ModelConfig,
    notes: tuple[str, ...] = (),
    electra: bool,
) -> Conversion:
    task, settings = "electra_pretraining" if electra else "masked_lm", {"tokens_per_sample": config.positions}
    write_checkpoint(output, state, parse_flags(flags), data, task=task, settings=settings)
    distinct = {id(tensor): tensor.numel() for name, tensor in state.items() if not name.endswith(".version")}
    return Conversion(output, config, sum(distinct.values()), notes, flags=flags)


def to_state(
    model: HfModel, rows: Tensor, *, stack: str = "encoder", shared: Mapping[str, Tensor] | None = None
) -> dict[str, Tensor]:
    """The model's tensors under fairseq's names.

    A BERT or RoBERTa without a masked-LM head gets one that starts as neutral as can be: identity, no bias, tied.
    ``rows``, int64, shape (V,), are from :func:`.rows_by_id`; ``shared`` is a discriminator's state, whose embeddings
    the generator uses. The tensors are float32, and what is shared is one tensor.
    """
    state = {f"{stack}.sentence_encoder.version": torch.tensor([_TRANSFORMER_ENCODER_VERSION])}
    for pair in model.pairs(stack):
        tensor = model.tensors[pair.theirs]
        ours = (shared or {}).get(pair.ours.replace(f"{stack}.", "encoder.", 1)) if _is_shared(pair) else None
        state[pair.ours] = ours if ours is not None else tensor[rows] if pair.by_token else tensor
    if "masked_lm" not in model.parts and model.config.family != "electra":
        hidden = model.config.hidden_size
        state |= {
            f"{stack}.lm_head.dense.weight": torch.eye(hidden),
            f"{stack}.lm_head.dense.bias": torch.zeros(hidden),
            f"{stack}.lm_head.layer_norm.weight": torch.ones(hidden),
            f"{stack}.lm_head.layer_norm.bias": torch.zeros(hidden),
            f"{stack}.lm_head.bias": torch.zeros(model.config.vocab_size),
        }
    if f"{stack}.lm_head.bias" in state and model.config.tied:
        state[f"{stack}.lm_head.weight"] = state[f"{stack}.sentence_encoder.embed_tokens.weight"]
    return state


def _check_generator(discriminator: HfModel, generator: HfModel) -> None:
    """Whether two models are the halves of one ELECTRA."""
    for model, part, what in (
        (discriminator, "discriminator", "DIR: expected ELECTRA's discriminator (ElectraForPreTraining)"),
        (generator, "masked_lm", "--generator: expected ELECTRA's generator (ElectraForMaskedLM)"),
    ):
        if part not in model.parts:
            raise TrueNegError(f"{model.folder}: has no {part} head; {what}")
    same = generator.config.eps == discriminator.config.eps and all(
        torch.equal(generator.tensors[pair.theirs], discriminator.tensors[pair.theirs])
        for pair in filter(_is_shared, generator.pairs())
    )
    if not same:
        raise TrueNegError(
            f"{generator.folder}: its embeddings differ from those of {discriminator.folder}; expected one ELECTRA's "
            "generator and discriminator, which share them"
        )


def _is_shared(pair: Pair) -> bool:
    return ".embeddings." in pair.theirs


def _vocabulary(model: HfModel, data: Path) -> TokenList:
    vocabulary = find_vocabulary([model.folder, data])
    if vocabulary is None:
        raise TrueNegError(
            f"{model.folder}: has no tokenizer.json, vocab.txt or vocab.json, nor has {data}; expected the model's "
            "vocabulary in the order of the rows"
        )
    if len(vocabulary.tokens) != model.config.vocab_size:
        raise TrueNegError(
            f"{vocabulary.path}: {len(vocabulary.tokens)} tokens, but {model.folder / CONFIG} says vocab_size "
            f"{model.config.vocab_size}; expected the vocabulary of these weights"
        )
    pad = vocabulary.special_ids["<pad>"]
    if model.pad not in (None, pad):
        raise TrueNegError(
            f"{model.folder / CONFIG}: pad_token_id is {model.pad}, but the padding token has row {pad} in "
            f"{vocabulary.path}; expected one number, from which the positions count"
        )
    return vocabulary


def _notes(model: HfModel, generator: HfModel | None, vocabulary: TokenList) -> tuple[str, ...]:
    config = model.config
    notes = [
        f"positions: at most {config.positions} tokens; give fairseq-train --tokens-per-sample {config.positions} or "
        "less"
    ]
    if model.dropped:
        notes.append(f"dropped, fairseq's {config.family} has no place for them: {', '.join(model.dropped)}")
    if "masked_lm" not in model.parts and (generator is None or "discriminator" not in model.parts):
        notes.append(_NO_LM_HEAD["discriminator" if "discriminator" in model.parts else config.family])
    if "pooler" in model.parts:
        notes.append(f"the pooler is kept as the head {model.pooler_head}, for converting back; training drops it")
    if "untied" in model.parts:
        notes.append("the masked-LM head has a projection of its own: --untie-weights-roberta keeps it so")
    if vocabulary.path.parent != model.folder:
        notes.append(f"{model.folder} has no vocabulary: the rows are taken to be in the order of {vocabulary.path}")
    return tuple(notes)


_NEUTRAL = "no masked-LM head in the weights: it starts as the identity, tied to the embeddings, and has to be trained"
_NO_LM_HEAD = {
    "bert": _NEUTRAL,
    "roberta": _NEUTRAL,
    "electra": "no head in the weights: the encoder is for fine-tuning",
    "discriminator": "a discriminator alone is for fine-tuning; pre-training goes on only with its --generator",
}
