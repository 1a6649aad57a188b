"""Hugging Face models as fairseq checkpoints.

Vocabulary: fairseq numbers its dictionary by itself. The rows of the embeddings are permuted token by token, the
special tokens are paired by role (``[CLS]`` is ``<s>``, and so on). BERT and ELECTRA become this package's ``bert`` and
``electra`` exactly. RoBERTa becomes ``roberta`` of fairseq, which has no token types: the first
row of its token types, zeros in the released weights, is added to its positions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .. import register
from ..errors import TrueNegError, reading, reason
from ..files import require_different, require_writable
from ..models.checkpoints import write_checkpoint
from .architecture import (
    CONFIG,
    ROBERTA_FIRST_POSITION,
    Conversion,
    ModelConfig,
    architecture_arguments,
    architecture_flags,
    complete,
    model_config,
    open_config,
)
from .names import FAMILIES, NEXT_SENTENCE_HEAD, POOLER_HEAD, POSITIONS, ROBERTA, TOKEN_TYPES, WORDS, Pair
from .token_ids import find_vocabulary, read_dictionary, rows_by_id

HUB = "hub:"
"""How the name of a model on the Hugging Face hub begins; everything else is a local folder."""
_HEADS = ("pooler", "next_sentence", "masked_lm", "discriminator")
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
    vocabulary = find_vocabulary([folder, data])
    spare = model.config.vocab_size - len(vocabulary.tokens) if vocabulary else 0
    # A vocab.txt of other length may have lost a line; in the others each token has a number.
    if vocabulary is None or spare < 0 or (spare and vocabulary.path.name == "vocab.txt"):
        found = f"{vocabulary.path}: {len(vocabulary.tokens)} tokens" if vocabulary else f"{folder}: no vocabulary"
        raise TrueNegError(
            f"{found}, but vocab_size is {model.config.vocab_size} in its config.json; expected tokenizer.json, "
            f"vocab.txt or vocab.json in {folder} or {data}, with the tokens in the order of the rows"
        )
    model = replace(model, config=replace(model.config, vocab_size=len(vocabulary.tokens)))
    rows = rows_by_id(vocabulary, read_dictionary(data))
    state, halves, task = to_state(model, rows), [model.config], "masked_lm"
    if generator is not None:
        other, task = read_model(generator, allow_pickle=allow_pickle), "electra_pretraining"
        own = find_vocabulary([generator]) or vocabulary
        _check_halves(model, other, same_tokens=own.tokens == vocabulary.tokens)
        state |= to_state(other, rows, stack="generator", shared=state)
        halves = [replace(model.config, tied=other.config.tied), other.config]
    arguments, settings = architecture_arguments(*halves), {"tokens_per_sample": model.config.positions}
    write_checkpoint(output, state, complete(arguments), data, task=task, settings=settings)
    distinct = {id(tensor): tensor.numel() for name, tensor in state.items() if not name.endswith(".version")}
    notes = _notes(model, vocabulary.path, spare, heads=generator is not None or "masked_lm" in model.parts)
    return Conversion(output, model.config, sum(distinct.values()), notes, flags=architecture_flags(*halves))


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


def _check_halves(discriminator: HfModel, generator: HfModel, *, same_tokens: bool) -> None:
    """Whether two models are the halves of one ELECTRA."""
    for model, part, what in (
        (discriminator, "discriminator", "IN: expected ELECTRA's discriminator (ElectraForPreTraining)"),
        (generator, "masked_lm", "--generator: expected ELECTRA's generator (ElectraForMaskedLM)"),
    ):
        if part not in model.parts:
            raise TrueNegError(f"{model.folder}: has no {part} head; {what}")
    same = generator.config.eps == discriminator.config.eps and all(
        torch.equal(generator.tensors[pair.theirs], discriminator.tensors[pair.theirs])
        for pair in filter(_is_shared, generator.pairs())
    )
    if not (same and same_tokens):
        raise TrueNegError(
            f"{generator.folder}: its {'embeddings' if same_tokens else 'tokens'} differ from those of "
            f"{discriminator.folder}; expected one ELECTRA's generator and discriminator, which share them"
        )


def move_positions(positions: Tensor, first: int, wanted: int) -> Tensor:
    """The embeddings of positions, shape (P, E), whose first token has a wanted row in place of the row ``first``."""
    return positions if first == wanted else F.pad(positions[first:], (0, 0, wanted, 0))


def _is_shared(pair: Pair) -> bool:
    return ".embeddings." in pair.theirs


def _notes(model: HfModel, vocabulary: Path, spare: int, *, heads: bool) -> tuple[str, ...]:
    config, dropped = model.config, ", ".join(model.dropped)
    untrained = "it starts as the identity, tied to the embeddings, and has to be trained"
    if config.family == "electra":
        untrained = "it is for fine-tuning; pre-training takes both halves of an ELECTRA (--generator)"
    at_most = f"at most {config.positions} tokens; give fairseq-train --tokens-per-sample {config.positions} or less"
    notes = (
        (True, f"positions: {at_most}"),
        (dropped, f"dropped, fairseq's {config.family} has no place for them: {dropped}"),
        (not heads, f"no masked-LM head in the weights: {untrained}"),
        ("pooler" in model.parts, f"the pooler is kept as the head {model.pooler_head}; training drops it"),
        (spare, f"left out: {spare} rows of the embeddings, behind the last token of {vocabulary}"),
        (vocabulary.parent != model.folder, f"the rows are taken to be in the order of {vocabulary}"),
    )
    return tuple(note for applies, note in notes if applies)


@dataclass(frozen=True)
class HfModel:
    """A model read from a Hugging Face folder."""

    folder: Path
    config: ModelConfig  # ``tied`` is what the weights show
    parts: tuple[str, ...]  # beside embeddings and layers
    tensors: Mapping[str, Tensor]  # float32, under transformers' names; positions are laid out as fairseq's
    dropped: tuple[str, ...]  # the names in the file that no weight of ours answers to

    @property
    def pooler_head(self) -> str:
        """The classification head that a pooler becomes."""
        return NEXT_SENTENCE_HEAD if "next_sentence" in self.parts else POOLER_HEAD

    def pairs(self, stack: str = "encoder") -> list[Pair]:
        """The names of its tensors on both sides."""
        family = FAMILIES[self.config.family]
        return family.pairs(self.parts, self.config.layers, stack=stack, head=self.pooler_head, base=family.base)


def local_folder(source: str, *, allow_pickle: bool = False) -> Path:
    """The folder itself, or where the files of ``hub:NAME`` were downloaded to."""
    if not source.startswith(HUB):
        return Path(source)
    import huggingface_hub

    wanted = ["*.json", "*.txt", "*.safetensors", *(["pytorch_model*.bin"] if allow_pickle else [])]
    with reading(source, "the name of a model on the Hugging Face hub, and a connection to it"):
        return Path(huggingface_hub.snapshot_download(source.removeprefix(HUB), allow_patterns=wanted))


def read_model(folder: Path, *, allow_pickle: bool = False) -> HfModel:
    """Reads a model of one of the families: config.json with model.safetensors, whole or in shards.

    With ``allow_pickle`` pytorch_model.bin is read if that file is missing, with torch's weights_only.
    """
    import transformers

    theirs = open_config(folder)
    config = model_config(theirs, folder / CONFIG)
    family = FAMILIES[config.family]
    is_generator = "ElectraForMaskedLM" in (theirs.architectures or [])
    kind = transformers.ElectraForMaskedLM if is_generator else transformers.AutoModelForPreTraining
    safe = {"use_safetensors": None if allow_pickle else True, "weights_only": True}
    loaded, missing, unexpected = load_pretrained(kind, folder, config=theirs, dtype=torch.float32, **safe)
    state = dict(loaded.state_dict())
    dropped = sorted(name.removeprefix(family.base) for name in unexpected)
    stored = state.keys() - missing
    names = {part: {pair.theirs.format(base=family.base) for pair in family.parts.get(part, ())} for part in _HEADS}
    heads = [part for part, its in names.items() if its & stored]
    wanted = {pair.theirs for pair in family.pairs((*config.parts, *heads), config.layers, base=family.base)}
    lacking = sorted((wanted | (names["pooler"] if "next_sentence" in heads else set())) - stored)
    unknown = [name for name in dropped if not name.startswith(family.ignored)]
    for found, fault in ((unknown, "not known"), (lacking, "missing")):
        if found:
            raise TrueNegError(
                f"{folder}: {len(found)} tensors are {fault} (e.g. {found[0]}); expected the encoder that config.json "
                "describes, and the heads of its pre-training whole or not at all"
            )
    for first, second in family.copies.items():
        state[first] = state[second]  # one tensor, unless the head is untied: it computes with the second
    (projection,) = (pair.theirs for pair in family.parts["untied"])
    untied = "masked_lm" in heads and not torch.equal(state[projection], state[family.base + WORDS])
    config = replace(config, tied=not untied)
    if family is ROBERTA:
        name, types = family.base + POSITIONS, family.base + TOKEN_TYPES
        positions = move_positions(state[name], theirs.pad_token_id + 1, ROBERTA_FIRST_POSITION)
        if types not in missing and state[types][0].any():  # -0.0 + 0.0 is another number, to the bit
            positions = positions + state[types][0]
        state[name] = positions
    parts = (*config.parts, *heads, *(["untied"] if untied else []))
    model = HfModel(folder, config, parts, {}, tuple(dropped))
    return replace(model, tensors={pair.theirs: state[pair.theirs] for pair in model.pairs()})


def load_pretrained(kind: Any, folder: Path | str, **options: Any) -> tuple[Any, Set[str], Set[str]]:
    """A model of a class of transformers, the names of its weights that the folder lacks, and those that it ignores.

    Refuses weights of other shapes, or of more or fewer layers, than config.json describes. Neither transformers' bars
    nor its reports on missing heads are shown.
    """
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    options |= {"local_files_only": True, "output_loading_info": True, "ignore_mismatched_sizes": True}
    try:
        model, found = kind.from_pretrained(str(folder), **options)
    except Exception as error:  # of many kinds
        hint = "; truneg convert --allow-pickle also reads pytorch_model.bin, with torch's weights_only"
        raise TrueNegError(
            f"{folder}: its weights cannot be read ({reason(error)}); expected model.safetensors{hint}"
        ) from None
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()
    missing, unexpected = set(found["missing_keys"]), set(found["unexpected_keys"])
    present = set(map(_without_numbers, model.state_dict().keys() - missing))
    differences = [
        *(f"has {name} of the shape {tuple(stored)}" for name, stored, _ in found["mismatched_keys"]),
        *(f"has {name} too" for name in unexpected if _without_numbers(name) in present),
        *(f"has no {name}" for name in missing if _without_numbers(name) in present),
    ]
    if differences:
        raise TrueNegError(
            f"{folder}: {min(differences)}, other weights than config.json describes; expected the config.json that "
            "was written with the weights"
        )
    return model, missing, unexpected


def _without_numbers(name: str) -> str:
    return re.sub(r"\d+", "N", name)  # of the layers
